"""Let functions of arrays take scalars, too: a scalar in, a scalar out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from dpmarket.arrays import FloatArray

Costs = TypeVar("Costs", float, FloatArray)
"""A scalar or an array; whatever goes in comes out."""


def pointwise(
    function: Callable[[FloatArray], FloatArray],
    check: Callable[[str, object], FloatArray],
    name: str,
    values: Costs,
) -> Costs:
    """Check ``values`` and apply ``function``, which maps a float64 vector to one of its length."""
    array = check(name, values)
    result = function(array.reshape(-1))
    if array.ndim == 0:
        return float(result[0])  # type: ignore[return-value]
    return result.reshape(array.shape)  # type: ignore[return-value]


def crossing(
    function: Callable[[FloatArray], FloatArray],
    targets: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Return the points in [low, high] where a non-decreasing function first exceeds its target.

    Bisection on all elements at once, down to neighbouring floats: right for functions with jumps and
    infinite values, where interpolation is not. Elements whose function never exceeds the target get
    ``high``.
    """
    low, high = low.copy(), high.copy()
    while True:
        middle = low + 0.5 * (high - low)
        moving = (middle > low) & (middle < high)
        if not moving.any():
            return high
        above = function(middle) > targets
        high = np.where(moving & above, middle, high)
        low = np.where(moving & ~above, middle, low)
