"""Re-solve the allocation when one seller's report moves.

The units are those of :mod:`dpmarket.allocation.kernels`: costs in units of ``psi``, the objective
divided by the concentration, ``t = s*|a|``, total epsilon ``epsilon_rate / t``.

Moving one report moves the solution a little, so a re-solve starts at the base solution: the sums over
its interior sellers are updated for the one that moved (Welford), the cubic of the segment is solved by
Newton's method, and sellers cross the boundaries of the interior until all conditions hold. That finds
one stationary point; :mod:`dpmarket.payments.uniqueness` tells beforehand which stationary points can be
the global minimum. Where that is not known, or the quick re-solve does not settle, the whole path is walked.

Costs are held relative to the base's dearest bought seller, so that nothing cancels when they lie close
together far from zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dpmarket.allocation.kernels import (
    BASE,
    GAP,
    RATE,
    SPREAD,
    VALUE,
    best_row,
    upper_root,
    walk_path,
)


class Problem(NamedTuple):
    """The buyer's problem: sorted finite costs and the walk's settings.

    ``regime`` tells whether the path is to be walked, or which limit holds: only the cheapest are bought
    (no concentration), or everybody with the same weight (negligible payments). In a limit
    ``epsilon_rate`` is sqrt(noise/payment_weight), ``most_epsilon`` bounds the total epsilon, and
    ``sums[j]`` is the sum of the j cheapest costs.
    """

    psi: Any
    regime: int
    most_epsilon: float
    sums: Any
    total: float
    cap: float
    first_capped: int
    first_rest: float
    rho: float
    least_rate: float
    epsilon_rate: float


class Basins(NamedTuple):
    """Base solutions to start from, one row each; none means: walk the whole path every time."""

    capped: Any
    bought: Any
    reference: Any
    capped_sum: Any
    mean: Any
    spread_sum: Any
    spread: Any


PATH, CHEAPEST, EQUAL = 0, 1, 2
OUT, INTERIOR, CAPPED = 0, 1, 2
_MOVES = 300


@njit(cache=True, error_model="numpy")
def basin_sums(psi: Any, capped: int, bought: int) -> Any:
    """Return reference, sum over the capped, mean and squared deviations of the interior; relative."""
    reference = psi[bought - 1]
    capped_sum = carry = 0.0
    for j in range(capped):
        term = (psi[j] - reference) - carry
        total = capped_sum + term
        carry = (total - capped_sum) - term
        capped_sum = total
    inner = carry = 0.0
    for j in range(capped, bought):
        term = (psi[j] - reference) - carry
        total = inner + term
        carry = (total - inner) - term
        inner = total
    n = bought - capped
    mean = inner / n if n > 0 else 0.0
    spread_sum = carry = 0.0
    for j in range(capped, bought):
        term = (psi[j] - reference - mean) ** 2 - carry
        total = spread_sum + term
        carry = (total - spread_sum) - term
        spread_sum = total
    return reference, capped_sum, mean, spread_sum


@njit(cache=True, error_model="numpy")
def _root(weight: float, level: float, V: float, rho: float, start: float) -> float:
    """Return the upper root of ``rho*weight*s^3 + (rho*V - level)*s + V``, near ``start``."""
    linear = rho * V - level
    cubic = rho * weight
    s = start
    for _ in range(12):
        slope = 3.0 * cubic * s * s + linear
        if slope <= 0.0:
            break
        step = ((cubic * s * s + linear) * s + V) / slope
        s -= step
        if abs(step) <= 4e-16 * s:
            return s
    found: float = upper_root(weight, level, V, rho)
    return found


@njit(cache=True, error_model="numpy")
def resolve(problem: Any, basins: Any, k: int, own: float, place: int, x: float, status: int) -> Any:
    """Solve near basin ``k`` when the seller with cost ``own`` reports ``x`` instead.

    Both are costs relative to the basin's reference. ``place`` is where the seller stands in the base
    solution, ``status`` where the mover is looked for first.
    Returns ``(settled, status, spread, cutoff, rate, value)``, the cutoff relative, too.
    """
    psi, cap, rho = problem.psi, problem.cap, problem.rho
    known = psi.size
    first_capped, first_rest = problem.first_capped, problem.first_rest
    reference = basins.reference[k]
    a, b = basins.capped[k], basins.bought[k]
    # The others: `held` at the cap with sum S_c, `n` between with mean M and squared deviations V.
    held, n = a, b - a
    S_c, M, V = basins.capped_sum[k], basins.mean[k], basins.spread_sum[k]
    s = basins.spread[k]
    if place == CAPPED:
        held -= 1
        S_c -= own
    elif place == INTERIOR:
        n, M, V = _without(n, M, V, own)
    least = problem.least_rate * problem.least_rate
    rounding = 4e-16 * (abs(reference) + abs(x) + 1e-300)
    for _ in range(_MOVES):
        all_held, all_S_c, all_n, all_M, all_V = held, S_c, n, M, V
        if status == INTERIOR:
            all_n = n + 1
            all_M = M + (x - M) / all_n
            all_V = V + (x - M) * (x - all_M)
        elif status == CAPPED:
            all_held = held + 1
            all_S_c = S_c + x
        rest = first_rest + (first_capped - all_held) * cap
        if rest == 0.0 and first_rest == 0.0:
            # Corner plateau: the held ones have all the weight, whatever s, as long as nobody is close.
            b, n, M, V = a, 0, 0.0, 0.0
            if status == INTERIOR:
                status = OUT
            held_end = a - 1
            if held_end >= 0 and _is_mover(psi, held_end, reference, own):
                held_end -= 1
            out_start = b + 1 if b < known and _is_mover(psi, b, reference, own) else b
            dearest = psi[held_end] - reference if held_end >= 0 else -np.inf
            following = psi[out_start] - reference if out_start < known else np.inf
            own_releases = status == CAPPED and x >= dearest
            own_enters = status == OUT and x <= following
            dearest = x if own_releases else dearest
            following = x if own_enters else following
            weight = all_held * cap * cap
            level = cap * all_S_c + reference
            s = np.sqrt(max(level / rho, least) / weight)
            if cap * s <= following - dearest:
                t = s * np.sqrt(weight)
                return True, status, s, dearest + cap * s, t, t / s + rho * t + level / t
            if own_releases or own_enters:
                status = INTERIOR
            if not own_releases:
                a = held_end
                held -= 1
                S_c -= dearest
                n, M, V = _with(n, M, V, dearest)
            if not own_enters:
                n, M, V = _with(n, M, V, following)
                b = out_start + 1
            continue
        if rest < 0.0:
            return False, OUT, 0.0, 0.0, 1.0, np.inf
        if all_n <= 0:
            if b == known:
                return False, OUT, 0.0, 0.0, 1.0, np.inf
            if not _is_mover(psi, b, reference, own):
                n, M, V = _with(n, M, V, psi[b] - reference)
            b += 1
            continue
        weight = all_held * cap * cap + rest * rest / all_n
        level = cap * all_S_c + rest * all_M + reference
        s = _root(weight, level, all_V, rho, s)
        if least > 0.0 and weight * s * s + all_V < least:
            s = np.sqrt(max(least - all_V, 0.0) / weight)
        if not s > 0.0:
            return False, OUT, 0.0, 0.0, 1.0, np.inf
        r = rest * s / all_n + all_M
        reach = cap * s
        # The mover's own place.
        if status == INTERIOR and x > r:
            status = OUT
            continue
        if status == INTERIOR and r - x > reach:
            status = CAPPED
            continue
        if status == CAPPED and r - x < reach - rounding:
            status = INTERIOR
            continue
        if status == OUT and x < r - rounding:
            status = INTERIOR
            continue
        # The others' places, one move at a time.
        if b < known and psi[b] - reference < r - rounding:
            d = psi[b] - reference
            if not _is_mover(psi, b, reference, own):
                n, M, V = _with(n, M, V, d)
            b += 1
            continue
        if b > a and psi[b - 1] - reference > r + rounding:
            b -= 1
            d = psi[b] - reference
            if not _is_mover(psi, b, reference, own):
                n, M, V = _without(n, M, V, d)
            continue
        if a > 0 and r - (psi[a - 1] - reference) < reach - rounding:
            a -= 1
            d = psi[a] - reference
            if not _is_mover(psi, a, reference, own):
                held -= 1
                S_c -= d
                n, M, V = _with(n, M, V, d)
            continue
        if a < b and r - (psi[a] - reference) > reach + rounding:
            d = psi[a] - reference
            if not _is_mover(psi, a, reference, own):
                held += 1
                S_c += d
                n, M, V = _without(n, M, V, d)
            a += 1
            continue
        t = np.sqrt(weight * s * s + all_V)
        value = t / s + rho * t + (level - all_V / s) / t
        return True, status, s, r, t, value
    return False, OUT, 0.0, 0.0, 1.0, np.inf


@njit(cache=True, error_model="numpy")
def _is_mover(psi: Any, j: int, reference: float, own: float) -> bool:
    """Tell whether seller ``j`` is the one that moved: the first of those with the same cost."""
    mover: bool = psi[j] - reference == own and (j == 0 or psi[j - 1] - reference != own)
    return mover


@njit(cache=True, error_model="numpy")
def _with(n: int, M: float, V: float, d: float) -> Any:
    """Put one member into a mean and a sum of squared deviations."""
    mean = M + (d - M) / (n + 1)
    return n + 1, mean, V + (d - M) * (d - mean)


@njit(cache=True, error_model="numpy")
def _without(n: int, M: float, V: float, d: float) -> Any:
    """Take one member out of a mean and a sum of squared deviations."""
    if n <= 1:
        return 0, 0.0, 0.0
    mean = M - (d - M) / (n - 1)
    return n - 1, mean, max(V - (d - M) * (d - mean), 0.0)


@njit(cache=True, error_model="numpy")
def walk_moved(problem: Any, own: float, x: float) -> float:
    """Return the mover's epsilon by walking the whole path with ``own`` replaced by ``x``.

    NaN for a cost that nobody has; infinity where no best allocation exists.
    """
    psi = problem.psi
    m = psi.size
    work = np.empty(m)
    j = np.searchsorted(psi, own)
    if psi[min(j, m - 1)] != own:
        return np.nan
    k = np.searchsorted(psi, x)
    if k > j:
        work[:j] = psi[:j]
        work[j : k - 1] = psi[j + 1 : k]
        work[k - 1] = x
        work[k:m] = psi[k:m]
    else:
        work[:k] = psi[:k]
        work[k] = x
        work[k + 1 : j + 1] = psi[k:j]
        work[j + 1 : m] = psi[j + 1 : m]
    mean = (problem.total + (x - own)) / m * (1.0 + 1e-9)
    table, at_infinity, _, _ = walk_path(
        work,
        m,
        problem.cap,
        problem.first_capped,
        problem.first_rest,
        problem.rho,
        problem.least_rate,
        mean,
    )
    if table.shape[0] == 0:
        return np.inf
    best = best_row(table)
    if table[best, VALUE] > at_infinity:
        return np.inf
    if x > table[best, BASE]:
        return 0.0
    weight = ((table[best, BASE] - x) + table[best, GAP]) / table[best, SPREAD]
    epsilon: float = min(weight, problem.cap) * (problem.epsilon_rate / table[best, RATE])
    return epsilon


@njit(cache=True, error_model="numpy")
def _limit_epsilon(problem: Any, own: float, x: float) -> float:
    """Return the mover's epsilon in a limit, where the weights follow from the order of costs alone."""
    psi, cap, full = problem.psi, problem.cap, problem.first_capped
    if problem.regime == EQUAL:
        weight = min(1.0 / psi.size, cap)
        cost = (problem.total + (x - own)) / psi.size
    else:
        # The others that are cheaper, and those that cost the same: these share what is left.
        cheaper = np.searchsorted(psi, x, side="left") - (1 if own < x else 0)
        alike = np.searchsorted(psi, x, side="right") - (1 if own <= x else 0) - cheaper
        left = problem.first_rest + cap * (full - cheaper)
        if left <= 0.0:
            return 0.0
        weight = min(left / (alike + 1), cap)
        if left > cap * (alike + 1):
            # The mover is at the cap; the others fill up without them.
            last = full if own <= psi[full - 1] else full - 1
            cost = cap * (problem.sums[last] - (own if last == full else 0.0)) + cap * x
            if problem.first_rest > 0.0:
                cost += problem.first_rest * psi[last]
        else:
            below = cheaper + (1 if own < x else 0)
            cost = cap * (problem.sums[below] - (own if own < x else 0.0)) + left * x
    total = problem.most_epsilon
    if cost > 0.0:
        total = min(problem.epsilon_rate / np.sqrt(cost), total)
    epsilon: float = weight * total
    return epsilon


@njit(cache=True, error_model="numpy")
def epsilon_at(problem: Any, basins: Any, own: float, places: Any, x: float) -> float:
    """Return the epsilon of the seller with cost ``own`` if they reported ``x``, globally."""
    if problem.regime != PATH:
        return _limit_epsilon(problem, own, x)
    least = np.inf
    epsilon = np.inf
    for k in range(basins.bought.size):
        reference = basins.reference[k]
        settled, status, s, r, t, value = resolve(
            problem, basins, k, own - reference, places[k], x - reference, INTERIOR
        )
        if not settled:
            least = np.inf
            break
        # Equal values: the smaller total epsilon, which is the larger rate.
        if value <= least:
            least = value
            weight = 0.0
            if status == CAPPED:
                weight = problem.cap
            elif status == INTERIOR:
                weight = (r - (x - reference)) / s
            epsilon = weight * (problem.epsilon_rate / t)
    if least == np.inf:
        return walk_moved(problem, own, x)
    return epsilon


@njit(cache=True, error_model="numpy")
def place_of(problem: Any, basins: Any, k: int, own: float) -> int:
    """Tell where the seller with this cost stands in basin ``k``'s base solution."""
    if basins.capped[k] > 0 and own <= problem.psi[basins.capped[k] - 1]:
        return CAPPED
    if own <= problem.psi[basins.bought[k] - 1]:
        return INTERIOR
    return OUT


@njit(cache=True, error_model="numpy")
def epsilons_at(problem: Any, basins: Any, own: float, reports: Any) -> Any:
    """Return one seller's epsilons at several virtual costs, none below ``own``."""
    places = np.empty(basins.bought.size, dtype=np.int64)
    for k in range(basins.bought.size):
        places[k] = place_of(problem, basins, k, own)
    values = np.empty(reports.size)
    for j in range(reports.size):
        values[j] = epsilon_at(problem, basins, own, places, reports[j])
    return values
