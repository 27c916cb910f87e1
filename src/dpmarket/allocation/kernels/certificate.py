"""Read off a finished allocation what its certificate needs.

Independent of the walk on purpose: these functions are handed the result's arrays and nothing else. Costs may
be infinite where the weight is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmarket.compiling import compiled
from dpmarket.numerics import add


@compiled()
def measure(psi: Any, weights: Any, epsilons: Any, total_promise: float) -> Any:
    """Return sums and extremes of the arrays.

    In this order: the sum of the weights, of their squares, and of weight times cost (compensated, so
    that they are good to rounding at any length); the dearest and the cheapest cost bought; the
    heaviest and the lightest weight; the largest ``|epsilon - weight * total_promise|``; how many are
    bought.
    """
    total = square = cost = 0.0
    total_low = square_low = cost_low = 0.0
    dearest, cheapest, heaviest, lightest = -np.inf, np.inf, -np.inf, np.inf
    mismatch = 0.0
    bought = 0
    for i in range(psi.size):
        a = weights[i]
        heaviest = max(heaviest, a)
        lightest = min(lightest, a)
        mismatch = max(mismatch, abs(epsilons[i] - a * total_promise))
        if a == 0.0:
            continue
        total, total_low = add(total, total_low, a)
        square, square_low = add(square, square_low, a * a)
        cost, cost_low = add(cost, cost_low, a * psi[i])
        if a > 0.0:
            bought += 1
            dearest = max(dearest, psi[i])
            cheapest = min(cheapest, psi[i])
    return (
        total + total_low,
        square + square_low,
        cost + cost_low,
        dearest,
        cheapest,
        heaviest,
        lightest,
        mismatch,
        bought,
    )


@compiled()
def gradient_range(psi: Any, weights: Any, origin: float, slopes: tuple[float, float], full: float) -> Any:
    """Return the largest gradient among who can give weight, the least among who can take some.

    The gradient is ``price * (psi - origin) + tilt * weight`` with ``slopes = (price, tilt)``; ``full`` and
    above counts as capped.
    """
    price, tilt = slopes
    giving, taking = -np.inf, np.inf
    for i in range(psi.size):
        a = weights[i]
        g = tilt * a + price * (psi[i] - origin)
        if a > 0.0:
            giving = max(giving, g)
        if a < full:
            taking = min(taking, g)
    return giving, taking
