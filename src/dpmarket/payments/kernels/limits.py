"""One seller's epsilon in a limit, where the weights follow from the order of costs alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled

CHEAPEST, EQUAL = 1, 2


class Limit(NamedTuple):
    """The buyer's problem in a limit.

    ``regime``: only the cheapest are bought (no concentration), or everybody with the same weight (negligible
    payments). ``psi``: all finite virtual costs, sorted; ``total``: their sum; ``sums[j]``: that of the j
    cheapest. ``cap``, ``first_capped``, ``first_rest``: as the rules of a walk have them.
    ``most_epsilon`` bounds the total promise; ``epsilon_rate``: sqrt(noise/payment_weight).
    """

    psi: FloatArray
    regime: int
    total: float
    sums: FloatArray
    cap: float
    first_capped: int
    first_rest: float
    most_epsilon: float
    epsilon_rate: float


@compiled()
def epsilon_in_limit(case: Any, own: float, x: float) -> float:
    """Return the epsilon of the seller with cost ``own`` if they reported ``x``."""
    if case.regime == EQUAL:
        weight = min(1.0 / case.psi.size, case.cap)
        cost = (case.total + (x - own)) / case.psi.size
    else:
        weight, cost = weight_and_cost(case, own, x)
    total = case.most_epsilon
    if cost > 0.0:
        total = min(case.epsilon_rate / np.sqrt(cost), total)
    epsilon: float = weight * total
    return epsilon


@compiled()
def weight_and_cost(case: Any, own: float, x: float) -> tuple[float, float]:
    """Return the mover's weight and what the weights cost, where only the cheapest are bought."""
    psi, cap, full = case.psi, case.cap, case.first_capped
    # The others that are cheaper, and those that cost the same: these share what is left.
    below = np.searchsorted(psi, x, side="left")
    cheaper = below - (1 if own < x else 0)
    alike = np.searchsorted(psi, x, side="right") - (1 if own <= x else 0) - cheaper
    left = case.first_rest + cap * (full - cheaper)
    if left <= 0.0:
        return 0.0, 1.0
    if left <= cap * (alike + 1):
        weight = min(left / (alike + 1), cap)
        return weight, cap * (case.sums[below] - (own if own < x else 0.0)) + left * x
    # The mover is at the cap; the others fill up without them.
    last = full if own <= psi[full - 1] else full - 1
    cost = cap * (case.sums[last] - (own if last == full else 0.0)) + cap * x
    if case.first_rest > 0.0:
        cost += case.first_rest * psi[last]
    return cap, cost
