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

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

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
    """The buyer's problem: sorted finite costs and the walk's settings."""

    psi: Any
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
        if all_n <= 0 or rest <= 0.0:
            return False, OUT, 0.0, 0.0, 1.0, np.inf
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
def walk_moved(problem: Any, own: float, x: float, work: Any) -> float:
    """Return the mover's epsilon by walking the whole path with ``own`` replaced by ``x``."""
    psi = problem.psi
    m = psi.size
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
        work[:m],
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
def epsilon_at(problem: Any, basins: Any, own: float, places: Any, x: float, work: Any) -> float:
    """Return the epsilon of the seller with cost ``own`` if they reported ``x``, globally."""
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
        return walk_moved(problem, own, x, work)
    return epsilon


@njit(cache=True, error_model="numpy")
def psi_at(table: Any, z: float) -> float:
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
    work: Any,
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
            e = epsilon_at(problem, basins, own, places, psi_at(table, middle + half * _NODES[j]), work)
            fine += _KRONROD[j] * e
            coarse += _GAUSS[j] * e
            at_right += _TO_END[j] * e
            at_left += _TO_END[14 - j] * e
        fine *= half
        missing = abs(fine - coarse * half)
        scale = already + total + fine
        # A jump or kink beyond the outermost node is seen by neither rule, but by the ends' own values.
        at_left -= epsilon_at(problem, basins, own, places, psi_at(table, left), work)
        inside = np.nextafter(right, left)  # at a wall psi may jump
        at_right -= epsilon_at(problem, basins, own, places, psi_at(table, inside), work)
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
def report_at(table: Any, x: float, low: float, high: float) -> float:
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
        if psi_at(table, z) < x:
            low = z
        else:
            high = z


@njit(cache=True, error_model="numpy")
def last_bought(
    problem: Any, basins: Any, table: Any, own: float, places: Any, start: float, work: Any
) -> float:
    """Return the highest report, within the table, at which the seller is still bought from."""
    low, high = start, table.edges[-1]
    if epsilon_at(problem, basins, own, places, psi_at(table, high), work) > 0.0:
        return high
    if basins.bought.size == 1:
        # The one stationary point without the seller tells the cutoff they face.
        reference = basins.reference[0]
        settled, _, _, r, _, _ = resolve(
            problem, basins, 0, own - reference, places[0], psi_at(table, high) - reference, OUT
        )
        if settled:
            return report_at(table, r + reference, low, high)
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if epsilon_at(problem, basins, own, places, psi_at(table, middle), work) > 0.0:
            low = middle
        else:
            high = middle


@njit(cache=True, error_model="numpy")
def cap_kink(problem: Any, basins: Any, own: float, place: int, end: float) -> float:
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


@njit(cache=True, error_model="numpy", parallel=True)
def pay_each(
    problem: Any,
    basins: Any,
    table: Any,
    costs: Any,
    virtual: Any,
    epsilons: Any,
    top: float,
    tolerance: float,
    payments: Any,
    errors: Any,
) -> None:
    """Write each seller's payment and its absolute error: one adaptive integral a seller.

    A seller who is still bought from where the table ends below ``top`` gets an infinite payment.
    """
    count = costs.size
    chunks = min(count, 64)
    for chunk in prange(chunks):
        work = np.empty(problem.psi.size)
        places = np.empty(basins.bought.size, dtype=np.int64)
        cuts = np.empty(table.walls.size + 1)
        for i in range(chunk * count // chunks, (chunk + 1) * count // chunks):
            if epsilons[i] <= 0.0:
                payments[i] = 0.0
                errors[i] = 0.0
                continue
            own = virtual[i]
            for k in range(basins.bought.size):
                places[k] = _place(problem, basins, k, own)
            cost = costs[i]
            end = last_bought(problem, basins, table, own, places, cost, work)
            if end == table.edges[-1] and end < top:
                payments[i] = np.inf
                continue
            cuts[: table.walls.size] = table.walls
            cuts[table.walls.size] = cost
            if places.size == 1 and places[0] == CAPPED:
                kink = cap_kink(problem, basins, own, CAPPED, psi_at(table, end))
                cuts[table.walls.size] = report_at(table, kink, cost, end)
            cuts.sort()
            base = cost * epsilons[i]
            integral, error = integrate(
                problem, basins, table, own, places, cost, end, cuts, base, tolerance, work
            )
            payments[i] = base + integral
            errors[i] = error


@njit(cache=True, error_model="numpy")
def _place(problem: Any, basins: Any, k: int, own: float) -> int:
    """Tell where the seller with this cost stands in basin ``k``'s base solution."""
    if basins.capped[k] > 0 and own <= problem.psi[basins.capped[k] - 1]:
        return CAPPED
    if own <= problem.psi[basins.bought[k] - 1]:
        return INTERIOR
    return OUT


_TWO_NODES = np.array([-0.577350269189625764509148780501957, 0.577350269189625764509148780501957])
_TWO_WEIGHTS = np.array([1.0, 1.0])


@njit(cache=True, error_model="numpy")
def _cubic(x: Any, y: Any) -> None:
    """Turn values ``y`` at four points ``x`` into divided differences, in place."""
    for order in range(1, 4):
        for j in range(3, order - 1, -1):
            y[j] = (y[j] - y[j - 1]) / (x[j] - x[j - order])


@njit(cache=True, error_model="numpy")
def _integrate_cubic(table: Any, x: Any, d: Any, start: float, end: float) -> float:
    """Integrate the polynomial, as a function of psi(z), over reports from ``start`` to ``end``."""
    edges = table.edges
    nodes = _TWO_NODES if table.affine else _NODES
    weights = _TWO_WEIGHTS if table.affine else _KRONROD
    piece = 0
    if edges.size > 2:
        piece = min(max(np.searchsorted(edges, start, side="right") - 1, 0), edges.size - 2)
    total = 0.0
    left = start
    while left < end:
        right = end if piece == edges.size - 2 else min(edges[piece + 1], end)
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        for j in range(nodes.size):
            p = psi_at(table, middle + half * nodes[j])
            value = d[0] + (p - x[0]) * (d[1] + (p - x[1]) * (d[2] + (p - x[2]) * d[3]))
            total += half * weights[j] * value
        left = right
        piece += 1
    return total


@njit(cache=True, error_model="numpy")
def _settled_epsilon(problem: Any, basins: Any, own: float, place: int, x: float, status: int) -> float:
    """Return the mover's epsilon near the one basin, NaN where that does not settle."""
    reference = basins.reference[0]
    settled, status, s, r, t, _ = resolve(
        problem, basins, 0, own - reference, place, x - reference, status
    )
    if not settled:
        return np.nan
    weight = 0.0
    if status == CAPPED:
        weight = problem.cap
    elif status == INTERIOR:
        weight = (r - (x - reference)) / s
    epsilon: float = weight * (problem.epsilon_rate / t)
    return epsilon


@njit(cache=True, error_model="numpy", parallel=True)
def pay_smooth(
    problem: Any, basins: Any, table: Any, costs: Any, virtual: Any, epsilons: Any, payments: Any
) -> None:
    """Write each seller's payment, for many sellers and one basin.

    One seller among n moves the solution by O(1/n), so that epsilon as a function of the own virtual cost
    is a cubic up to O(1/n^2), below and above the kink where the seller leaves the cap. Its values at
    four points give the cubic; the integral over reports then needs no further solution. Sellers for
    whom a solution does not settle get NaN.
    """
    count = costs.size
    chunks = min(count, 256)
    for chunk in prange(chunks):
        x = np.empty(4)
        y = np.empty(4)
        for i in range(chunk * count // chunks, (chunk + 1) * count // chunks):
            own = virtual[i]
            place = _place(problem, basins, 0, own)
            high = table.edges[-1]
            reference = basins.reference[0]
            settled, _, _, r, _, _ = resolve(
                problem, basins, 0, own - reference, place, psi_at(table, high) - reference, OUT
            )
            if not settled:
                payments[i] = np.nan
                continue
            cutoff = r + reference
            cost = costs[i]
            last = report_at(table, cutoff, cost, high)
            payment = cost * epsilons[i]
            first, start, epsilon = own, cost, epsilons[i]
            if place == CAPPED:
                kink = cap_kink(problem, basins, own, place, cutoff)
                leaves = report_at(table, kink, cost, last)
                for j in range(4):
                    x[j] = own + (kink - own) * (j / 3.0)
                    y[j] = epsilon
                    if j > 0 and kink > own:
                        y[j] = _settled_epsilon(problem, basins, own, place, x[j], CAPPED)
                epsilon = y[3]
                if kink > own:
                    _cubic(x, y)
                    payment += _integrate_cubic(table, x, y, cost, leaves)
                first, start = kink, leaves
            if cutoff > first:
                x[0], x[1], x[2], x[3] = first, 0.7 * first + 0.3 * cutoff, 0.25 * first + 0.75 * cutoff, cutoff
                y[0], y[3] = epsilon, 0.0
                y[1] = _settled_epsilon(problem, basins, own, place, x[1], INTERIOR)
                y[2] = _settled_epsilon(problem, basins, own, place, x[2], INTERIOR)
                if x[0] < x[1] < x[2] < x[3]:
                    _cubic(x, y)
                    payment += _integrate_cubic(table, x, y, start, last)
            payments[i] = payment
