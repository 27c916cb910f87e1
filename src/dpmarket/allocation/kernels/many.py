"""Solve many small markets in one call: what a planner asks for thousands of times."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmarket.allocation.kernels import segments
from dpmarket.allocation.kernels.walk import Rules, walk_path
from dpmarket.compiling import compiled
from dpmarket.numerics import add

NORM_SQUARED, COST, TOTAL, CUTOFF, BOUGHT = range(5)
"""Columns of what is told of a market."""
COLUMNS = 5


@compiled(nogil=True)
def solve_each(psi: Any, ends: Any, ordered: Any, ordered_ends: Any, means: Any, settings: Any) -> Any:
    """Return one row for each market, and whether all of them have a minimum.

    Parameters
    ----------
    psi, ends : float64 array, int64 array
        Virtual costs, one market after the other, and where each ends.
    ordered, ordered_ends : float64 array, int64 array
        The finite ones, each market's sorted.
    means : float64 array
        Upper bounds for the mean of each market's finite costs.
    settings : float64 array of shape (markets, 7)
        As :class:`dpmarket.allocation.settings.PathSettings` names them.
    """
    told = np.empty((ends.size, COLUMNS))
    first: Any = np.int64(0)
    ordered_first: Any = np.int64(0)
    for k in range(ends.size):
        costs = ordered[ordered_first : ordered_ends[k]]
        cap, capped, rest, rho, least_rate, most, rate = settings[k]
        rules = Rules(cap, int(capped), rest, rho, least_rate)
        table, at_infinity, _, _ = walk_path(costs, costs.size, rules, means[k])
        best = segments.best_row(table)
        if table.shape[0] == 0 or table[best, segments.VALUE] > at_infinity:
            return told, False
        row = table[best]
        total = most
        if not row[segments.AT_BOUND] > 0.0:
            total = min(rate / row[segments.RATE], most)
        base, gap, spread = row[segments.BASE], row[segments.GAP], row[segments.SPREAD]
        square = square_low = cost = cost_low = 0.0
        bought = 0
        for i in range(first, ends[k]):
            above = base - psi[i]
            weight = min((max(above, -gap) + gap) / spread, cap) if above >= 0.0 else 0.0
            if weight > 0.0:
                bought += 1
                square, square_low = add(square, square_low, weight * weight)
                cost, cost_low = add(cost, cost_low, weight * psi[i])
        told[k, NORM_SQUARED], told[k, COST], told[k, BOUGHT] = square + square_low, cost + cost_low, bought
        told[k, TOTAL], told[k, CUTOFF] = total, base + gap
        first, ordered_first = ends[k], ordered_ends[k]
    return told, True
