"""One seller's epsilon by walking the whole path: slow, and right whatever the costs are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.allocation.kernels.segments import BASE, GAP, RATE, SPREAD, VALUE, best_row
from dpmarket.allocation.kernels.walk import walk_path
from dpmarket.compiling import compiled
from dpmarket.payments.kernels.moves import Problem


class Whole(NamedTuple):
    """A problem with all its finite costs."""

    problem: Problem


@compiled()
def epsilon_by_walking(case: Any, own: float, x: float) -> float:
    """Return the epsilon of the seller with cost ``own`` if they reported ``x``.

    NaN for a cost that nobody has; infinity where no best allocation exists.
    """
    problem = case.problem
    costs = moved_costs(problem.psi, own, x)
    if costs.size == 0:
        return np.nan
    mean = (problem.total + (x - own)) / costs.size * (1.0 + 1e-9)
    table, at_infinity, _, _ = walk_path(costs, costs.size, problem.rules, mean)
    if table.shape[0] == 0:
        return np.inf
    best = table[best_row(table)]
    if best[VALUE] > at_infinity:
        return np.inf
    if x > best[BASE]:
        return 0.0
    weight = ((best[BASE] - x) + best[GAP]) / best[SPREAD]
    epsilon: float = min(weight, problem.rules.cap) * (problem.epsilon_rate / best[RATE])
    return epsilon


@compiled()
def moved_costs(psi: Any, own: float, x: float) -> Any:
    """Return sorted costs with one ``own`` replaced by ``x``; none at all if nobody has that cost."""
    costs = np.empty(psi.size)
    is_gone = False
    is_placed = False
    k = 0
    for j in range(psi.size):
        if not is_gone and psi[j] == own:
            is_gone = True
            continue
        if not is_placed and psi[j] >= x:
            costs[k] = x
            is_placed = True
            k += 1
        if k == psi.size:
            return costs[:0]
        costs[k] = psi[j]
        k += 1
    if not is_placed and k < psi.size:
        costs[k] = x
    return costs if is_gone else costs[:0]
