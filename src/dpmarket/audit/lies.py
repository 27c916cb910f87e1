"""Turn a seller's true cost and the market around it into the reports most likely to pay.

No rule is known to the search, so it tries what has broken rules before: reports spread over the support,
its ends and just beyond them, other sellers' costs and the floats beside them (ties), reports close to
the truth (a kink), and then reports around the best lie found and around the largest fall of epsilon (a
jump, or the cutoff beyond which nothing is bought).

Two sellers together may gain by lying, which payments do not forbid: their best joint lie is searched for
information.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpmarket.arrays import FloatArray, read_only
from dpmarket.audit.asking import Answers
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


@lru_cache(maxsize=16)
def edge_reports(dist: CostDistribution) -> FloatArray:
    """Return the support's ends, the floats beside them, reports outside, and where psi is not smooth."""
    low, high = dist.support
    # Beside 0 the next float is no cost that anybody could mean: a billionth of the support is.
    beside = math.nextafter(low, math.inf) if low > 0.0 else 1e-9 * width(dist)
    edges = [0.0, 0.5 * low, math.nextafter(low, 0.0), low, beside]
    if math.isfinite(high):
        edges += [math.nextafter(high, 0.0), high, math.nextafter(high, math.inf), 1.1 * high]
    else:
        edges += [10.0 * _top(dist)]
    inner = [*dist.breakpoints, *(end for piece in dist.ironed_intervals for end in (piece.low, piece.high))]
    return np.asarray(read_only(np.unique([*edges, *inner[:12]])))


@lru_cache(maxsize=16)
def width(dist: CostDistribution) -> float:
    """Return the length of the support, or of all but a millionth of it where it has no end."""
    return _top(dist) - dist.support[0]


def _top(dist: CostDistribution) -> float:
    high = dist.support[1]
    return float(high) if math.isfinite(high) else float(dist.quantile(1.0 - 1e-6))


@lru_cache(maxsize=16)
def _grid(dist: CostDistribution, count: int) -> FloatArray:
    """Return half the points evenly over the support and half evenly over the population."""
    if count <= 0:
        return np.empty(0)
    low, top = dist.support[0], _top(dist)
    even = low + (top - low) * (np.arange(count - count // 2) + 0.5) / (count - count // 2)
    shares = (np.arange(count // 2) + 0.5) / max(count // 2, 1)
    return np.asarray(read_only(np.concatenate([even, np.asarray(dist.quantile(shares))])))


def _near(centre: float, extent: float, count: int) -> FloatArray:
    """Return points on both sides, from a hundred-millionth to a tenth of the support away."""
    if count <= 0:
        return np.empty(0)
    steps = extent * np.geomspace(1e-1, 1e-8, (count + 1) // 2)
    return np.column_stack([centre - steps, centre + steps]).ravel()[:count]


def _ties(costs: FloatArray, i: int, count: int) -> FloatArray:
    """Return the costs nearest to one's own and the floats on both sides of each."""
    others = np.delete(costs, i)
    wanted = min(count // 3, others.size)
    distances = np.abs(others - costs[i])
    nearest = others[np.argpartition(distances, wanted - 1)[:wanted]] if wanted else others[:0]
    return np.concatenate([nearest, np.nextafter(nearest, 0.0), np.nextafter(nearest, np.inf)])


_STEPS = (-0.3, -0.1, -0.03, 0.0, 0.03, 0.1, 0.3)


def best_pair_gain(
    answers: Answers, dist: CostDistribution, costs: FloatArray, count: int, rng: np.random.Generator
) -> float:
    """Return the largest joint gain, in money, of ``count`` pairs over a grid of joint lies; at least 0.

    The first pair are the two cheapest sellers, the others are drawn.
    """
    if costs.size < 2 or count == 0:
        return 0.0
    pairs = [np.argsort(costs, kind="stable")[:2]]
    pairs += [rng.choice(costs.size, 2, replace=False) for _ in range(count - 1)]
    return max(_joint_gain(answers, dist, costs, int(i), int(j)) for i, j in pairs)


def _joint_gain(answers: Answers, dist: CostDistribution, costs: FloatArray, i: int, j: int) -> float:
    low, high = dist.support
    steps = width(dist) * np.array(_STEPS)
    # Not down to the lowest cost itself: where that is 0, some markets have no best allocation.
    lowest = np.minimum(low + 1e-6 * width(dist), costs)
    reports = {k: np.clip(costs[k] + steps, lowest[k], high) for k in (i, j)}
    utilities = {k: np.zeros((steps.size, steps.size)) for k in (i, j)}
    for k, other in ((i, j), (j, i)):
        for row, lie in enumerate(reports[other]):
            moved = costs.copy()
            moved[other] = lie
            asked = answers.at(moved, k, reports[k])
            utilities[k][row] = np.where(asked.answered, asked.payments - costs[k] * asked.epsilons, -np.inf)
    total = utilities[i].T + utilities[j]
    truth = _STEPS.index(0.0)
    if not np.isfinite(total[truth, truth]):
        return 0.0
    return max(0.0, float(total.max() - total[truth, truth]))
