"""Let functions of arrays take scalars, too: a scalar in, a scalar out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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
