"""Tell where on the path the global minimum can lie, whichever one seller moves to whatever report.

Two facts make this decidable at the base solution alone.

1. Raising one virtual cost raises the objective at every allocation, and its minimum J by at most what
   leaving that seller out does. Leaving out the cheapest raises J most, because J never falls when any
   cost of the sorted list rises. So the minimum of a moved problem lies where the base objective is at
   most ``J(without the cheapest)``: around the local minima whose values are below that.
2. Along the path, with ``y_i = s*a_i``, ``E = |y|^2`` and ``D = <a, psi>`` both increase in s, and stationary
   points are where ``rho*E = D``. ``E/D`` increases where ``2*(E - V)*D*s > E*V``, V the interior's squared
   deviations. In a moved problem at the same s the cutoff lies between the base's r and the r' without the
   cheapest; at most ``y_0`` (the cheapest one's) of weight moves from one seller to others, none of whom then
   has more than ``y_1``, the least of ``r' - psi_0`` and the cap's. Hence

   - ``E - y_0^2 <= E' <= E + 2*y_0*y_1`` and ``|D' - D| <= y_0*(r' - psi_0)/s``;
   - V' is at most V over all sellers from the base's lower to the moved problem's upper end of the interior,
     plus the mover's own square; and at least V over those between ``r' - cap*s`` and ``r``, less what
     the mover may take away.

   Where E/D increases for all values within these bounds, every moved problem has at most one stationary
   point, a minimum; where it decreases for all of them, or ``rho*E - D`` keeps its sign, it has no minimum.

Where nothing can be said the payments walk the path.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.allocation.kernels.segments import VALUE
from dpmarket.allocation.kernels.walk import path_points, walk_path
from dpmarket.allocation.result import LocalMinimum
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.payments.kernels.moves import Problem, sums_between

# Longest stretch, in log s, over which the inequality compares one end's bounds with the other's.
_LONGEST = 0.05
# From as many ranges on, sums over them come from running sums over everybody.
_MANY = 32


def value_without_cheapest(problem: Problem) -> float:
    """Return the least objective / concentration without the cheapest seller, with a little to spare.

    Infinity if there is no such minimum, and nothing can be claimed.
    """
    others, rules = problem.psi[1:], problem.rules
    if others.size < rules.first_capped + (rules.first_rest > 0.0):
        return np.inf
    mean = (problem.total - float(problem.psi[0])) / (problem.sellers - 1) * (1.0 + 1e-9)
    table, at_infinity, _, _ = walk_path(others, problem.sellers - 1, rules, mean)
    if len(table) == 0 or np.isfinite(at_infinity):
        return np.inf
    return float(table[:, VALUE].min()) * (1.0 + 1e-12)


def is_alone(problem: Problem, minimum: LocalMinimum, threshold: float) -> bool:
    """Tell whether moved problems have one stationary point where the objective is below ``threshold``."""
    middle = minimum.spread
    if not 0.0 < middle < np.inf:
        return False
    stretch = first_stretch(problem, middle, threshold)
    for _ in range(4):
        if stretch >= 0.9:
            return False
        low, high = middle * (1.0 - stretch), middle * (1.0 + stretch)
        above = describe(problem, np.array([low, high])).value > threshold
        # At a bound on the total promise the path starts there: below it nothing is feasible.
        if (minimum.at_bound or above[0]) and above[1]:
            break
        stretch *= 2.0
    else:
        return False
    points = describe(problem, np.geomspace(low, high, 2 + int(np.log(high / low) / _LONGEST)))
    return bool(increases(bounds_between(points)).all())


def first_stretch(problem: Problem, s: float, threshold: float) -> float:
    """Return by how much to change a minimum's spread so that its value may come to exceed the threshold."""
    value = describe(problem, np.array([s])).value[0]
    return float(4.0 * np.sqrt(max(threshold / value - 1.0, 1e-12)))


class Points(NamedTuple):
    """What the path looks like at spreads ``s``, one element each; see this module's description.

    ``capped`` and ``bought``: how many are; ``width``: r' - psi_0; ``most_V``, ``least_V``: bounds on V'.
    """

    s: FloatArray
    capped: IntArray
    bought: IntArray
    E: FloatArray
    D: FloatArray
    value: FloatArray
    y_0: FloatArray
    y_1: FloatArray
    width: FloatArray
    most_V: FloatArray
    least_V: FloatArray


class Bounds(NamedTuple):
    """Bounds on E', D' and V' between neighbouring spreads, in every problem with one moved seller."""

    low: FloatArray
    high: FloatArray
    least_E: FloatArray
    most_E: FloatArray
    least_D: FloatArray
    most_D: FloatArray
    least_V: FloatArray
    most_V: FloatArray


def describe(problem: Problem, spreads: FloatArray) -> Points:
    """Return what the path of the base problem looks like at increasing spreads.

    The value is NaN where the problem's costs do not reach that far.
    """
    psi, rules = problem.psi, problem.rules
    s = spreads
    base, others = path_points(psi, rules, s).T, path_points(psi[1:], rules, s).T
    capped, bought = base[0].astype(np.int64), base[1].astype(np.int64)
    weight, level, V = base[4:]
    r, moved_r = base[2] + base[3], others[2] + others[3]
    E, D = weight * s * s + V, level - V / s
    t = np.sqrt(E)
    cheapest, reach = float(psi[0]), rules.cap * s
    width = moved_r - cheapest
    # Everybody who can be between the cap and nothing in a moved problem, and those who are for certain.
    widest = deviations(psi, capped, others[1].astype(np.int64) + 1)
    inner = np.searchsorted(psi, moved_r - reach, side="right"), np.searchsorted(psi, r, side="left")
    certain = deviations(psi, inner[0], inner[1])
    lowest = np.maximum(r - reach, cheapest)
    known = (others[1] + 1 < psi.size) | (psi.size == problem.sellers)
    return Points(
        s=s,
        capped=capped,
        bought=bought,
        E=E,
        D=D,
        value=np.where(known, t / s + rules.rho * t + D / t, np.nan),
        y_0=np.minimum(r - cheapest, reach),
        y_1=np.minimum(width, reach),
        width=width,
        most_V=widest + (moved_r - lowest) ** 2,
        least_V=np.maximum(certain - 2.0 * np.minimum(reach, r - cheapest) ** 2, 0.0),
    )


def deviations(psi: FloatArray, starts: IntArray, ends: IntArray) -> FloatArray:
    """Return the squared deviations from their mean of the sellers of several ranges; 0 of empty ones."""
    if starts.size < _MANY:
        both = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.array([sums_between(psi, a, b)[3] if a < b else 0.0 for a, b in both])
    # The running sums are of the order of the widest range's, and longer floats leave enough of the others.
    shifted = psi.astype(np.longdouble) - psi[min(int(ends.max()), psi.size) - 1]
    sums, squares = (np.concatenate(([0.0], np.cumsum(part))) for part in (shifted, shifted * shifted))
    count = np.maximum(ends - starts, 1)
    total = sums[ends] - sums[starts]
    found = squares[ends] - squares[starts] - total * total / count
    return np.where(ends > starts, np.maximum(found, 0.0), 0.0).astype(np.float64)


def bounds_between(points: Points) -> Bounds:
    """Return bounds on every moved problem between each spread and the next one."""
    first, last = _between(points, slice(None, -1)), _between(points, slice(1, None))
    shift = last.y_0 * last.width / first.s
    return Bounds(
        low=first.s,
        high=last.s,
        least_E=first.E - last.y_0**2,
        most_E=last.E + 2.0 * last.y_0 * last.y_1,
        least_D=first.D - shift,
        most_D=last.D + shift,
        least_V=first.least_V,
        most_V=last.most_V,
    )


def _between(points: Points, part: slice) -> Points:
    chosen: list[Any] = [column[part] for column in points]
    return Points(*chosen)


def increases(b: Bounds) -> BoolArray:
    """Tell where E/D increases in every moved problem."""
    E, D, V = b.least_E, b.least_D, b.most_V
    found: BoolArray = (D > 0.0) & (E > V) & (2.0 * (E - V) * D * b.low > E * V)
    return found


def decreases(b: Bounds) -> BoolArray:
    """Tell where E/D decreases in every moved problem."""
    D, V = b.most_D, b.least_V
    # What has to be negative is linear in E: look at both ends of its range.
    parts = [2.0 * (E - V) * D * b.high < E * V * (1.0 - 1e-9) for E in (b.least_E, b.most_E)]
    found: BoolArray = (b.least_E > 0.0) & parts[0] & parts[1]
    return found
