"""Tell which stationary points can be the global minimum, whichever one seller moves to whatever report.

Two facts make this decidable at the base solution alone.

1. Raising one virtual cost raises the objective at every allocation, and its minimum J by at most what
   leaving that seller out does. Leaving out the cheapest raises J most, because J never falls when any
   cost of the sorted list rises. So the minimum of a moved problem lies where the base objective is at
   most ``J(without the cheapest)``: around the local minima whose values are below that.
2. Along the path, with ``y_i = s*a_i``, ``E = |y|^2`` and ``D = <a, psi>`` both increase in s, and stationary
   points are where ``rho*E = D``. ``E/D`` increases where ``2*(E - V)*D*s > E*V``, V the interior's squared
   deviations. In a moved problem at the same s the cutoff lies between the base's r and the r' without the
   cheapest; at most ``y_0`` (the cheapest one's) of weight moves from one seller to others. Hence
   ``E' >= E - y_0^2``, ``D' >= D - y_0*(r' - psi_0)/s``, and V' is at most V over all sellers from the base's
   lower to the moved problem's upper end of the interior, plus the mover's own square. Where the
   inequality holds with these bounds on the whole stretch around a minimum, every moved problem has
   exactly one stationary point there.

Where either fails, nothing is claimed, and the payments walk the whole path instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmarket.allocation.kernels import VALUE, path_point, walk_path
from dpmarket.allocation.result import LocalMinimum
from dpmarket.payments.kernels import PATH, Basins, Problem, basin_sums

# Longest stretch, in log s, over which the inequality compares one end's bounds with the other's.
_LONGEST = 0.05


def candidate_basins(
    problem: Problem, minima: tuple[LocalMinimum, ...], concentration: float, unit: float
) -> Basins:
    """Return the base solutions that re-solves must start from; none if nothing can be claimed."""
    chosen: list[LocalMinimum] = []
    threshold = _value_without_cheapest(problem) if problem.regime == PATH else np.inf
    if np.isfinite(threshold):
        chosen = [m for m in minima if m.objective_value / concentration <= threshold]
        if not all(_alone(problem, minimum, threshold, unit) for minimum in chosen):
            chosen = []
    sums = [basin_sums(problem.psi, m.n_capped, m.n_bought) for m in chosen]
    columns = np.array(sums, dtype=np.float64).reshape(len(chosen), 4).T
    return Basins(
        capped=np.array([m.n_capped for m in chosen], dtype=np.int64),
        bought=np.array([m.n_bought for m in chosen], dtype=np.int64),
        reference=np.ascontiguousarray(columns[0]),
        capped_sum=np.ascontiguousarray(columns[1]),
        mean=np.ascontiguousarray(columns[2]),
        spread_sum=np.ascontiguousarray(columns[3]),
        spread=np.array([m.spread / unit for m in chosen], dtype=np.float64),
    )


def _others_suffice(problem: Problem) -> bool:
    return bool(problem.psi.size - 1 >= problem.first_capped + (problem.first_rest > 0.0))


def _value_without_cheapest(problem: Problem) -> float:
    """Return the least objective / concentration without the cheapest seller, with a little to spare."""
    if not _others_suffice(problem):
        return np.inf
    others = problem.psi[1:]
    table, at_infinity, _, _ = walk_path(
        others,
        others.size,
        problem.cap,
        problem.first_capped,
        problem.first_rest,
        problem.rho,
        problem.least_rate,
        (problem.total - float(problem.psi[0])) / others.size * (1.0 + 1e-9),
    )
    if len(table) == 0 or np.isfinite(at_infinity):
        return np.inf
    return float(table[:, VALUE].min()) * (1.0 + 1e-12)


def _alone(problem: Problem, minimum: LocalMinimum, threshold: float, unit: float) -> bool:
    """Tell whether moved problems have one stationary point where the objective is below ``threshold``."""
    middle = minimum.spread / unit
    if not 0.0 < middle < np.inf:
        return False
    here = _describe(problem, middle)
    stretch = 4.0 * np.sqrt(max(threshold / here.value - 1.0, 1e-12))
    for _ in range(4):
        if stretch >= 0.9:
            return False
        low, high = middle * (1.0 - stretch), middle * (1.0 + stretch)
        first, last = _describe(problem, low), _describe(problem, high)
        # At a bound on the total promise the path starts there: below it nothing is feasible.
        if (minimum.at_bound or first.value > threshold) and last.value > threshold:
            break
        stretch *= 2.0
    else:
        return False
    cuts = np.geomspace(low, high, 2 + int(np.log(high / low) / _LONGEST))
    points = [first, *(_describe(problem, s) for s in cuts[1:-1]), last]
    return all(_increases(points[k], points[k + 1]) for k in range(len(points) - 1))


class _Point(NamedTuple):
    """What the path looks like at a spread ``s``; see this module's description."""

    s: float
    E: float
    D: float
    value: float
    y_0: float
    moved_width: float
    moved_V: float


def _increases(first: _Point, last: _Point) -> bool:
    """Tell whether E/D increases between two points in every problem with one moved seller."""
    s = first.s
    E = first.E - last.y_0**2
    D = first.D - last.y_0 * last.moved_width / s
    V = last.moved_V
    return D > 0.0 and E > V and 2.0 * (E - V) * D * s > E * V


def _describe(problem: Problem, s: float) -> _Point:
    psi, cap = problem.psi, problem.cap
    layout = (cap, problem.first_capped, problem.first_rest, s)
    base, gap, N, bought = path_point(psi, *layout)
    reference, capped_sum, mean, V = basin_sums(psi, N, bought)
    n = bought - N
    rest = problem.first_rest + (problem.first_capped - N) * cap
    E = (N * cap * cap + (rest * rest / n if n else 0.0)) * s * s + V
    D = cap * capped_sum + rest * mean + reference - V / s
    t = np.sqrt(E)
    cheapest = float(psi[0])
    moved_base, moved_gap, _, moved_bought = path_point(psi[1:], *layout)
    width = moved_base + moved_gap - cheapest
    # Everybody who can be between the cap and nothing in a moved problem.
    inside = basin_sums(psi, N, moved_bought + 1)[3]
    lowest = max(base + gap - cap * s, cheapest)
    return _Point(
        s=s,
        E=E,
        D=D,
        value=t / s + problem.rho * t + D / t,
        y_0=min(base + gap - cheapest, cap * s),
        moved_width=width,
        moved_V=inside + (moved_base + moved_gap - lowest) ** 2,
    )
