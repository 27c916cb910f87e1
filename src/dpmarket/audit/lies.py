"""Turn a seller's true cost and the market around it into the reports most likely to pay.

No rule is known to the search, so it tries what has broken rules before: reports spread over the support, its
ends and just beyond them, other sellers' costs and the floats beside them (ties), reports close to the truth
(a kink), and then reports around the best lie found and around the largest fall of epsilon (a jump, or the
cutoff beyond which nothing is bought).
"""

from __future__ import annotations

import math

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution

_SHARE_OF_FIRST = 0.625


def first_lies(costs: FloatArray, i: int, dist: CostDistribution, count: int) -> FloatArray:
    """Return about five eighths of ``count`` reports: ends, ties, near the truth, and a grid."""
    wanted = max(8, math.ceil(_SHARE_OF_FIRST * count))
    special = np.concatenate(
        [edge_reports(dist), _ties(costs, i, wanted // 6), _near(costs[i], width(dist), wanted // 8)]
    )
    special = special[special >= 0.0][:wanted]
    return np.concatenate([special, _grid(dist, wanted - special.size)])


def second_lies(
    cost: float,
    reports: FloatArray,
    gains: FloatArray,
    epsilons: FloatArray,
    dist: CostDistribution,
    count: int,
) -> FloatArray:
    """Return the rest of ``count`` reports: around the best lie so far, and within the largest fall."""
    wanted = max(4, count - max(8, math.ceil(_SHARE_OF_FIRST * count)))
    order = np.argsort(reports, kind="stable")
    ranked, falls = reports[order], -np.diff(epsilons[order])
    inside = np.empty(0)
    if falls.size and falls.max() > 0.0:
        k = int(falls.argmax())
        inside = np.linspace(ranked[k], ranked[k + 1], wanted // 2 + 2)[1:-1]
    lies = np.flatnonzero(reports != cost)
    best = float(reports[lies[gains[lies].argmax()]]) if lies.size else cost
    around = _near(best, width(dist), wanted - inside.size)
    found = np.concatenate([inside, around])
    return found[found >= 0.0]


def edge_reports(dist: CostDistribution) -> FloatArray:
    """Return the ends of the support, the floats beside them, reports outside, and where psi is not smooth."""
    low, high = dist.support
    edges = [0.0, 0.5 * low, math.nextafter(low, 0.0), low, math.nextafter(low, math.inf)]
    if math.isfinite(high):
        edges += [math.nextafter(high, 0.0), high, math.nextafter(high, math.inf), 1.1 * high]
    else:
        edges += [10.0 * _top(dist)]
    inner = [*dist.breakpoints, *(end for piece in dist.ironed_intervals for end in (piece.low, piece.high))]
    return np.unique([*edges, *inner[:12]])


def width(dist: CostDistribution) -> float:
    """Return the length of the support, or of all but a millionth of it where it has no end."""
    return _top(dist) - dist.support[0]


def _top(dist: CostDistribution) -> float:
    high = dist.support[1]
    return float(high) if math.isfinite(high) else float(dist.quantile(1.0 - 1e-6))


def _grid(dist: CostDistribution, count: int) -> FloatArray:
    """Return half the points evenly over the support and half evenly over the population."""
    if count <= 0:
        return np.empty(0)
    low, top = dist.support[0], _top(dist)
    even = low + (top - low) * (np.arange(count - count // 2) + 0.5) / (count - count // 2)
    shares = (np.arange(count // 2) + 0.5) / max(count // 2, 1)
    return np.concatenate([even, np.asarray(dist.quantile(shares), dtype=np.float64)])


def _near(centre: float, extent: float, count: int) -> FloatArray:
    """Return points on both sides, from a hundred-millionth to a tenth of the support away."""
    if count <= 0:
        return np.empty(0)
    steps = extent * np.geomspace(1e-1, 1e-8, (count + 1) // 2)
    return np.column_stack([centre - steps, centre + steps]).ravel()[:count]


def _ties(costs: FloatArray, i: int, count: int) -> FloatArray:
    """Return the costs nearest to one's own and the floats on both sides of each."""
    others = np.delete(costs, i)
    nearest = others[np.argsort(np.abs(others - costs[i]), kind="stable")[: count // 3]]
    return np.concatenate([nearest, np.nextafter(nearest, 0.0), np.nextafter(nearest, np.inf)])
