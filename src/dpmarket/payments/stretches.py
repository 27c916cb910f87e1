"""Divide the part of the path where moved problems can have their minimum into stretches of two kinds.

:mod:`dpmarket.payments.uniqueness` bounds every moved problem between two neighbouring spreads. On a fine
grid that tells where there is at most one minimum (``ONE``, or ``NEW`` if the base problem has none there),
where there is none, and where neither is certain (``ANY``). The last is so where hundreds of equal costs
enter at once or two minima are about to merge; there the payments walk the path.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dpmarket.allocation.result import LocalMinimum
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.payments.kernels.moves import Anchor, Problem, anchor_at
from dpmarket.payments.kernels.several import ANY, NEW, ONE, Stretches
from dpmarket.payments.uniqueness import (
    Bounds,
    Points,
    bounds_between,
    decreases,
    describe,
    first_stretch,
    increases,
)

# Length of a cell in log s, and the most cells; how far around a minimum to look, as a factor.
_CELL = 2e-3
_MOST_CELLS = 1024
_FARTHEST = 16.0
_NONE = -1


def stretches_of(problem: Problem, minima: list[LocalMinimum], threshold: float) -> Stretches | None:
    """Return the stretches that hold every minimum of every moved problem; None: that cannot be told.

    Parameters
    ----------
    problem
        The base problem.
    minima
        Its local minima with values up to the threshold.
    threshold
        The least value of the problem without its cheapest seller.
    """
    parts = [_low_part(problem, minimum, threshold) for minimum in minima]
    known = [part for part in parts if part is not None]
    if len(known) < len(minima) or not minima:
        return None
    kinds: list[int] = []
    anchors: list[Anchor] = []
    for ends in _merged(known):
        found = _part(problem, minima, ends)
        if found is None:
            return None
        kinds += found[0]
        anchors += found[1]
    return Stretches(np.array(kinds, dtype=np.int64), np.array(anchors, dtype=np.float64))


def _low_part(problem: Problem, minimum: LocalMinimum, threshold: float) -> tuple[float, float] | None:
    """Return spreads around a minimum between which the objective comes down from ``threshold``, if any."""
    middle = minimum.spread
    if not 0.0 < middle < np.inf:
        return None
    first = first_stretch(problem, middle, threshold)
    count = 1 + max(int(np.log2(_FARTHEST / first)), 1)
    factors: FloatArray = 1.0 + np.ldexp(first, np.arange(count))
    above = describe(problem, middle / factors[::-1]).value[::-1] > threshold
    below = describe(problem, middle * factors).value > threshold
    # At a bound on the total promise the path starts there: below it nothing is feasible.
    low = 0 if minimum.at_bound else int(np.argmax(above))
    high = int(np.argmax(below))
    if not ((above[low] or minimum.at_bound) and below[high]):
        return None
    return float(middle / factors[low]), float(middle * factors[high])


def _merged(parts: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join parts of the path that overlap."""
    merged: list[tuple[float, float]] = []
    for low, high in sorted(parts):
        if merged and low <= merged[-1][1]:
            low, high = merged[-1][0], max(merged[-1][1], high)
            merged.pop()
        merged.append((low, high))
    return merged


def _part(
    problem: Problem, minima: list[LocalMinimum], ends: tuple[float, float]
) -> tuple[list[int], list[Anchor]] | None:
    """Return the kinds of the stretches of one part of the path, and three anchors for each."""
    points = _grid(problem, ends)
    if points is None:
        return None
    kind = _kinds(bounds_between(points), problem)
    kinds: list[int] = []
    anchors: list[Anchor] = []
    for first, last in _runs(kind):
        if kind[first] == _NONE:
            continue
        low, high = float(points.s[first]), float(points.s[last])
        inside = [minimum.spread for minimum in minima if low < minimum.spread < high]
        start = inside[0] if inside else float(points.s[(first + last) // 2])
        found = describe(problem, np.array([low, start, high]))
        each = zip(found.capped.tolist(), found.bought.tolist(), found.s.tolist(), strict=True)
        kinds.append(NEW if kind[first] == ONE and not inside else int(kind[first]))
        anchors += [anchor_at(problem.psi, *three) for three in each]
    return kinds, anchors


def _grid(problem: Problem, ends: tuple[float, float]) -> Points | None:
    """Return the path at spreads that cover all moved problems which the base would have between two ends.

    A moved problem has another spread at the same total promise, so that the grid goes beyond the ends.
    """
    low, high = ends
    at_ends = describe(problem, np.array([low, high])).E
    for margin in (1.02, 1.05, 1.2, 1.5, 2.0):
        length = np.log(high * margin / (low / margin))
        cells = min(1 + int(length / _CELL), _MOST_CELLS)
        points = describe(problem, np.geomspace(low / margin, high * margin, cells + 1))
        if np.isnan(points.value).any():
            return None
        least = points.E[0] + 2.0 * points.y_0[0] * points.y_1[0]
        most = points.E[-1] - points.y_0[-1] ** 2
        if least <= at_ends[0] and most >= at_ends[1]:
            return points
    return None


def _kinds(bounds: Bounds, problem: Problem) -> IntArray:
    """Return the kind of each cell: ONE, ANY, or that it holds no minimum of any moved problem."""
    rules = problem.rules
    least = rules.least_rate * rules.least_rate
    slack = 1e-9 * bounds.most_D
    below = rules.rho * bounds.most_E < bounds.least_D - slack
    above = rules.rho * bounds.least_E > bounds.most_D + slack
    infeasible = bounds.most_E < least * (1.0 - 1e-9)
    # A minimum at the bound on the total promise may lie where there is no stationary point.
    past_bound = bounds.least_E >= least * (1.0 + 1e-9)
    none = below | infeasible | (past_bound & (above | decreases(bounds)))
    return np.where(none, _NONE, np.where(increases(bounds), ONE, ANY))


def _runs(kind: IntArray) -> list[tuple[int, int]]:
    """Return the first and, exclusively, the last cell of each run of cells of one kind."""
    edges = np.concatenate(([0], np.flatnonzero(np.diff(kind)) + 1, [kind.size]))
    return [(int(a), int(b)) for a, b in pairwise(edges)]
