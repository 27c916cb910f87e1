"""Tell which stationary points can be the global minimum, whichever one seller moves to whatever report.

Two facts make this decidable at the base solution alone.

1. Raising one virtual cost raises the objective at every allocation, and the minimum by at most
   ``payment_weight * epsilon_i * (rise)``. So the minimum of a moved problem lies where the base objective
   is at most its own minimum plus that: around local minima whose value is close to the best one's.
2. Along the path, ``E = s^2 |a|^2`` and ``D = <a, psi>`` both increase in s, and stationary points are
   where ``rho*E = D``. On a segment ``E/D`` increases if ``D > V*E / (2*q*s^3)`` (q the coefficient of s^2
   in E, V the interior's squared deviations). One moved seller changes E, V, q and D by no more than
   multiples of the largest weight; where the inequality holds with that to spare on the whole stretch
   around a minimum, every moved problem has exactly one stationary point there.

Where either fails, nothing is claimed, and the payments walk the whole path instead.
"""

from __future__ import annotations

import numpy as np

from dpmarket.allocation.kernels import path_point
from dpmarket.allocation.result import LocalMinimum
from dpmarket.payments.kernels import PATH, Basins, Problem, basin_sums

_LONGEST = 0.05


def candidate_basins(
    problem: Problem, minima: tuple[LocalMinimum, ...], concentration: float, unit: float
) -> Basins:
    """Return the base solutions that re-solves must start from; none if nothing can be claimed."""
    if problem.regime != PATH:
        minima = ()
    values = [minimum.objective_value / concentration for minimum in minima]
    chosen: list[LocalMinimum] = []
    if minima:
        best = int(np.argmin(values))
        threshold = values[best] + 2.0 * _largest_rise(problem, minima[best], unit)
        chosen = [m for m, value in zip(minima, values, strict=True) if value <= threshold]
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


def _largest_rise(problem: Problem, minimum: LocalMinimum, unit: float) -> float:
    """Bound payment_weight*epsilon_i*(rise) / concentration over sellers: the cheapest one's."""
    if minimum.spread <= 0.0:
        return np.inf
    width = minimum.cutoff / unit - float(problem.psi[0])
    weight = min(width / (minimum.spread / unit), problem.cap)
    rate = problem.epsilon_rate / minimum.total_epsilon
    return weight * width / rate


def _alone(problem: Problem, minimum: LocalMinimum, threshold: float, unit: float) -> bool:
    """Tell whether moved problems have one stationary point where the objective is below ``threshold``."""
    middle = minimum.spread / unit
    if not (np.isfinite(threshold) and 0.0 < middle < np.inf):
        return False
    stretch = 4.0 * np.sqrt(_largest_rise(problem, minimum, unit) / threshold)
    for _ in range(3):
        low, high = middle * (1.0 - stretch), middle * (1.0 + stretch)
        if stretch >= 0.9:
            return False
        ends = _describe(problem, low), _describe(problem, high)
        # At a bound on the total epsilon the path starts there: below it nothing is feasible.
        above = minimum.at_bound or ends[0][4] > threshold
        if above and ends[1][4] > threshold:
            break
        stretch *= 2.0
    else:
        return False
    # The inequality compares the two ends of a stretch: short ones lose little.
    cuts = np.geomspace(low, high, 2 + int(np.log(high / low) / _LONGEST))
    points = [ends[0], *(_describe(problem, s) for s in cuts[1:-1]), ends[1]]
    return all(_increases(cuts[k], cuts[k + 1], points[k], points[k + 1]) for k in range(len(cuts) - 1))


def _increases(low: float, high: float, first: tuple[float, ...], last: tuple[float, ...]) -> bool:
    """Tell whether E/D increases from ``low`` to ``high`` in every problem with one moved seller."""
    (_, _, _, cost, _, weight, width), (E, q, V, _, _, _, _) = first, last
    moved_E = 3.0 * weight**2 * high**2
    moved_q = 4.0 * weight**2
    moved_V = moved_E + moved_q * high**2
    moved_cost = 1.5 * weight * width
    if q <= moved_q:
        return False
    return cost - moved_cost > (V + moved_V) * (E + moved_E) / (2.0 * (q - moved_q) * low**3)


def _describe(problem: Problem, s: float) -> tuple[float, float, float, float, float, float, float]:
    """Return E, q, V, D, the objective, the largest weight and r - psi_0 at spread ``s``."""
    base, gap, N, bought = path_point(problem.psi, problem.cap, problem.first_capped, problem.first_rest, s)
    reference, capped_sum, mean, V = basin_sums(problem.psi, N, bought)
    n = bought - N
    rest = problem.first_rest + (problem.first_capped - N) * problem.cap
    q = N * problem.cap**2 + (rest * rest / n if n else 0.0)
    E = q * s * s + V
    D = problem.cap * capped_sum + rest * mean + reference - V / s
    t = np.sqrt(E)
    width = base + gap - float(problem.psi[0])
    return E, q, V, D, t / s + problem.rho * t + D / t, min(width / s, problem.cap), width
