"""Re-solve the allocation when one seller's report moves, and integrate that seller's epsilon.

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

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads, njit

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
from dpmarket.arrays import FloatArray


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

# The 15-point Gauss-Kronrod rule on [-1, 1] (QUADPACK's constants): nodes from -1 up, its weights, and
# those of the 7-point Gauss rule inside it.
_HALF_NODES = np.array(
    [
        0.991455371120812639206854697526329,
        0.949107912342758524526189684047851,
        0.864864423359769072789712788640926,
        0.741531185599394439863864773280788,
        0.586087235467691130294144691693013,
        0.405845151377397166906606412076961,
        0.207784955007898467600689403773245,
    ]
)
_HALF_KRONROD = np.array(
    [
        0.022935322010529224963732008058970,
        0.063092092629978553290700663189204,
        0.104790010322250183839876322541518,
        0.140653259715525918745189590510238,
        0.169004726639267902826583426598550,
        0.190350578064785409913256402421014,
        0.204432940075298892414161999234649,
    ]
)
_HALF_GAUSS = np.array(
    [
        0.0,
        0.129484966168869693270611432679082,
        0.0,
        0.279705391489276667901467771423780,
        0.0,
        0.381830050505118944950369775488975,
        0.0,
    ]
)
_NODES = np.concatenate((-_HALF_NODES, [0.0], _HALF_NODES[::-1]))
_KRONROD = np.concatenate((_HALF_KRONROD, [0.209482141084727828012999174891714], _HALF_KRONROD[::-1]))
_GAUSS = np.concatenate((_HALF_GAUSS, [0.417959183673469387755102040816327], _HALF_GAUSS[::-1]))
# Weights that extrapolate the values at the nodes to the upper end; reversed, to the lower one.
_TO_END = np.array([np.prod([(1.0 - o) / (n - o) for o in _NODES if o != n]) for n in _NODES])
_OUTERMOST = 1.0 - _NODES[-1]


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
    """Return the mover's epsilon by walking the whole path with ``own`` replaced by ``x``."""
    psi = problem.psi
    m = psi.size
    work = np.empty(m)
    j = np.searchsorted(psi, own)
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
def value_at(table: Any, z: float) -> float:
    """Evaluate the tabulated virtual cost."""
    edges, coefficients = table.edges, table.coefficients
    if table.affine:
        share = (z - edges[0]) / (edges[1] - edges[0])
        line: float = (coefficients[0, 0] - coefficients[0, 1]) + 2.0 * coefficients[0, 1] * share
        return line
    piece = 0
    if edges.size > 2:
        piece = min(max(np.searchsorted(edges, z, side="right") - 1, 0), edges.size - 2)
    y = (2.0 * z - edges[piece] - edges[piece + 1]) / (edges[piece + 1] - edges[piece])
    c = coefficients[piece]
    d = dd = 0.0
    for j in range(c.size - 1, 0, -1):
        d, dd = 2.0 * y * d - dd + c[j], d
    value: float = y * d - dd + c[0]
    return value


@njit(cache=True, error_model="numpy")
def integrate(
    problem: Any,
    basins: Any,
    table: Any,
    own: float,
    places: Any,
    start: float,
    end: float,
    cuts: Any,
    already: float,
    tolerance: float,
) -> Any:
    """Integrate the seller's epsilon over reports from ``start`` to ``end``; also return the error.

    ``cuts`` are reports at which to split first; ``already`` is the rest of the payment, to which the
    tolerance is relative.
    """
    stack = np.empty((cuts.size + 140, 2))
    depth = 0
    left = start
    for j in range(cuts.size):
        if left < cuts[j] < end:
            stack[depth, 0] = left
            stack[depth, 1] = cuts[j]
            depth += 1
            left = cuts[j]
    stack[depth, 0] = left
    stack[depth, 1] = end
    depth += 1
    total = error = 0.0
    while depth > 0:
        depth -= 1
        left, right = stack[depth, 0], stack[depth, 1]
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        fine = coarse = at_left = at_right = 0.0
        for j in range(15):
            e = epsilon_at(problem, basins, own, places, value_at(table, middle + half * _NODES[j]))
            fine += _KRONROD[j] * e
            coarse += _GAUSS[j] * e
            at_right += _TO_END[j] * e
            at_left += _TO_END[14 - j] * e
        fine *= half
        missing = abs(fine - coarse * half)
        scale = already + total + fine
        # A jump or kink beyond the outermost node is seen by neither rule, but by the ends' own values.
        at_left -= epsilon_at(problem, basins, own, places, value_at(table, left))
        inside = np.nextafter(right, left)  # at a wall psi may jump
        at_right -= epsilon_at(problem, basins, own, places, value_at(table, inside))
        missing += (abs(at_left) + abs(at_right)) * half * _OUTERMOST
        share = (right - left) / (end - start)
        small = missing <= tolerance * scale * share or missing <= 1e-16 * scale
        if small or not (left < middle < right) or depth + 2 > stack.shape[0]:
            total += fine
            error += missing
        else:
            stack[depth, 0] = middle
            stack[depth, 1] = right
            stack[depth + 1, 0] = left
            stack[depth + 1, 1] = middle
            depth += 2
    return total, error


@njit(cache=True, error_model="numpy")
def report_at(table: Any, x: float, low: float, high: float) -> Any:
    """Return the report between ``low`` and ``high`` at which the tabulated psi reaches ``x``."""
    if table.affine:
        middle, half = table.coefficients[0, 0], table.coefficients[0, 1]
        share = 0.5 + 0.5 * (x - middle) / half
        z = table.edges[0] + share * (table.edges[1] - table.edges[0])
        return min(max(z, low), high)
    while True:
        z = 0.5 * (low + high)
        if not low < z < high:
            return high
        if value_at(table, z) < x:
            low = z
        else:
            high = z


@njit(cache=True, error_model="numpy")
def last_bought(problem: Any, basins: Any, table: Any, own: float, places: Any, start: float) -> Any:
    """Return the highest report, within the table, at which the seller is still bought from."""
    low, high = start, table.edges[-1]
    if epsilon_at(problem, basins, own, places, value_at(table, high)) > 0.0:
        return high
    if problem.regime == PATH and basins.bought.size == 1:
        # The one stationary point without the seller tells the cutoff they face.
        reference = basins.reference[0]
        settled, _, _, r, _, _ = resolve(
            problem, basins, 0, own - reference, places[0], value_at(table, high) - reference, OUT
        )
        if settled:
            return report_at(table, r + reference, low, high)
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if epsilon_at(problem, basins, own, places, value_at(table, middle)) > 0.0:
            low = middle
        else:
            high = middle


@njit(cache=True, error_model="numpy")
def cap_kink(problem: Any, basins: Any, own: float, place: int, end: float) -> Any:
    """Return the virtual cost between ``own`` and ``end`` at which a capped seller leaves the cap."""
    reference = basins.reference[0]
    low, high = own, end
    # Secant steps on (r - x)/s - cap, kept inside a bracket.
    f_low = f_high = 0.0
    x = min(end, reference + basins.mean[0])
    for step in range(80):
        settled, _, s, r, _, _ = resolve(
            problem, basins, 0, own - reference, place, x - reference, CAPPED if step == 0 else INTERIOR
        )
        if not settled:
            return own
        excess = (r - (x - reference)) / s - problem.cap
        if excess > 0.0:
            low, f_low = x, excess
        else:
            high, f_high = x, excess
        if abs(excess) <= 1e-13 * problem.cap or high - low <= 1e-15 * high:
            break
        x = 0.5 * (low + high)
        if f_low > 0.0 and f_high < 0.0:
            guess = low + (high - low) * f_low / (f_low - f_high)
            # Every third step halves, so that the bracket shrinks on both sides.
            if step % 3 != 2 and low < guess < high:
                x = guess
    return x


@njit(cache=True, error_model="numpy")
def _place(problem: Any, basins: Any, k: int, own: float) -> int:
    """Tell where the seller with this cost stands in basin ``k``'s base solution."""
    if basins.capped[k] > 0 and own <= problem.psi[basins.capped[k] - 1]:
        return CAPPED
    if own <= problem.psi[basins.bought[k] - 1]:
        return INTERIOR
    return OUT


@njit(cache=True, error_model="numpy")
def _integral_of(
    problem: Any,
    basins: Any,
    table: Any,
    cost: float,
    own: float,
    epsilon: float,
    top: float,
    tolerance: float,
    places: Any,
    cuts: Any,
) -> Any:
    """Integrate one seller's epsilon from their cost on; infinite if the table ends too early for it."""
    end = last_bought(problem, basins, table, own, places, cost)
    if end == table.edges[-1] and end < top:
        return np.inf, np.inf
    cuts[: table.walls.size] = table.walls
    cuts[table.walls.size] = cost
    if problem.regime == PATH and places.size == 1 and places[0] == CAPPED:
        kink = cap_kink(problem, basins, own, CAPPED, value_at(table, end))
        cuts[table.walls.size] = report_at(table, kink, cost, end)
    cuts.sort()
    return integrate(problem, basins, table, own, places, cost, end, cuts, cost * epsilon, tolerance)


@njit(cache=True, error_model="numpy", nogil=True)
def _integrals(
    problem: Any,
    basins: Any,
    table: Any,
    costs: Any,
    virtual: Any,
    epsilons: Any,
    top: float,
    tolerance: float,
    values: Any,
    errors: Any,
) -> None:
    places = np.empty(basins.bought.size, dtype=np.int64)
    cuts = np.empty(table.walls.size + 1)
    for i in range(costs.size):
        for k in range(basins.bought.size):
            places[k] = _place(problem, basins, k, virtual[i])
        values[i], errors[i] = _integral_of(
            problem, basins, table, costs[i], virtual[i], epsilons[i], top, tolerance, places, cuts
        )


def integrals(
    problem: Problem,
    basins: Basins,
    table: Any,
    costs: FloatArray,
    virtual: FloatArray,
    epsilons: FloatArray,
    top: float,
    tolerance: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the integral of each seller's epsilon over reports above their cost, and its error.

    A seller who is still bought from where the table ends below ``top`` gets infinity. ``virtual`` need
    not be among the problem's costs if there is one basin: the result is then the smooth continuation.
    """
    values, errors = np.empty(costs.size), np.empty(costs.size)

    def work(part: slice) -> None:
        _integrals(
            problem,
            basins,
            table,
            costs[part],
            virtual[part],
            epsilons[part],
            top,
            tolerance,
            values[part],
            errors[part],
        )

    _in_threads(work, costs.size, 16)
    return values, errors


@njit(cache=True, error_model="numpy")
def epsilons_at(problem: Any, basins: Any, own: float, reports: Any) -> Any:
    """Return one seller's epsilons at several virtual costs, none below ``own``."""
    places = np.empty(basins.bought.size, dtype=np.int64)
    for k in range(basins.bought.size):
        places[k] = _place(problem, basins, k, own)
    values = np.empty(reports.size)
    for j in range(reports.size):
        values[j] = epsilon_at(problem, basins, own, places, reports[j])
    return values


@njit(cache=True, error_model="numpy", nogil=True)
def _evaluate(table: Any, points: Any, values: Any) -> None:
    for i in range(points.size):
        values[i] = value_at(table, points[i])


def evaluate(table: Any, points: FloatArray) -> FloatArray:
    """Return a table's values at many points."""
    values = np.empty(points.size)
    _in_threads(lambda part: _evaluate(table, points[part], values[part]), points.size, 1 << 16)
    return values


def _in_threads(work: Callable[[slice], None], count: int, smallest: int) -> None:
    """Do ``work`` on slices of ``count`` elements, in as many threads as numba may use."""
    threads = int(get_num_threads())
    # More slices than threads: sellers differ in how much work they are.
    size = max(smallest, -(-count // (8 * threads)))
    parts = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    if threads == 1 or len(parts) == 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))
