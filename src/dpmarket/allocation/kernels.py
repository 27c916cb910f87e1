"""Walk the one-parameter path of candidate allocations over sorted virtual costs.

For a spread ``s > 0`` the loss weights ``a_i(s) = clip((r - psi_i)/s, 0, cap)``, with the cutoff ``r``
fixed by ``sum a = 1``, minimise the buyer's objective at exactly one total epsilon. Walking ``s`` from
0 upwards therefore visits the best allocation for every total epsilon, from infinity down to 0, and the
local minima of the whole problem are the points where

    H(s) = rho * s^2 * |a|^2 - <a, psi>,      rho = noise * payment_weight / concentration^2

changes sign from minus to plus. In these units the objective divided by the concentration is
``|a| + rho*t + <a, psi>/t`` with ``t = s*|a|``, and the total epsilon is
``concentration / (payment_weight * t)``.

Numerics. With the sellers [0, N) at the cap, [N, l) between and the rest at 0, everything the walk
needs is kept as sums of non-negative terms, so nothing cancels, however close together and far from zero
the costs lie: ``above`` = sum over the interior of (psi_{l-1} - psi_i), ``below`` = sum of
(psi_i - psi_N), ``V`` = sum of squared deviations from the mean (each step adds ``above^2/(n (n+1))`` or
``below^2/(n (n+1))``), ``rest`` = 1 - N*cap and ``room`` = n*cap - rest. Long sums are compensated. At
an upward crossing ``V/s`` is at most two thirds of ``cap*S_c + rest*S/n``, so ``<a, psi>``, their
difference, is good to a few units in the last place as well.

Arrays passed in must be C-contiguous float64, sorted, finite and non-negative: nothing is checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SPREAD, CAPPED, BOUGHT, BASE, GAP, NORM, COST, RATE, VALUE, AT_BOUND = range(10)
"""Columns of a table of minima.

``SPREAD`` s; ``CAPPED`` N; ``BOUGHT`` l; ``BASE`` psi_{l-1}, the dearest cost bought; ``GAP`` r - BASE,
at least 0; ``NORM`` |a|; ``COST`` <a, psi>; ``RATE`` t = s*|a|, inversely proportional to the total
epsilon; ``VALUE`` objective / concentration; ``AT_BOUND`` 1 where the bound on the total epsilon holds
with equality.
"""
COLUMNS = 10

COMPLETE, TOO_SHORT = 0, 1
"""How a walk ended: all minima found, or the prefix of the costs it was given was too short."""

_TANGENT = 2.0 / (3.0 * np.sqrt(3.0))
_DIP = 2.0 / np.sqrt(3.0)


@njit(cache=True, error_model="numpy")
def _add(high: float, low: float, term: float) -> tuple[float, float]:
    """Add ``term`` to the compensated sum ``high + low`` (Knuth's two-sum)."""
    total = high + term
    shadow = total - high
    return total, low + ((high - (total - shadow)) + (term - shadow))


@njit(cache=True, error_model="numpy")
def upper_root(weight: float, level: float, V: float, rho: float) -> float:
    """Return the larger positive root of ``rho*weight*s^3 - (level - rho*V)*s + V``.

    With ``s = w*x`` it reads ``x^3 - x + k = 0``, whose larger root lies in [1/sqrt(3), 1]. Where
    rounding leaves no root, the point of tangency is returned.
    """
    q = level - rho * V
    if q <= 0.0:
        return 0.0
    w = np.sqrt(q / (rho * weight))
    k = min(V / (q * w), _TANGENT)
    x = _DIP * np.cos(np.arccos(-k / _TANGENT) / 3.0)
    slope = 3.0 * x * x - 1.0
    if slope > 1e-3:
        x -= (x * x * x - x + k) / slope
    root: float = w * x
    return root


@njit(cache=True, error_model="numpy")
def walk_path(
    psi: Any,
    sellers: int,
    cap: float,
    first_capped: int,
    first_rest: float,
    rho: float,
    least_rate: float,
    mean: float,
) -> Any:
    """Return all local minima along the path.

    Parameters
    ----------
    psi : float64 array
        The cheapest ``len(psi)`` of the finite virtual costs, sorted.
    sellers : int
        How many finite virtual costs there are in all, at least ``len(psi)``.
    cap, first_capped, first_rest : float, int, float
        The cap; how many sellers it admits in full, ``floor(1/cap)``; and what is left over,
        ``1 - first_capped*cap``, which is exactly 0 where ``1/cap`` is whole. No cap: (1, 0, 1).
    rho : float
        noise * payment_weight / concentration^2, positive, per unit of ``psi``.
    least_rate : float
        concentration / (payment_weight * bound on the total epsilon), in units of ``psi``; 0: no bound.
    mean : float
        An upper bound for the mean of all finite virtual costs. ``<a, psi>`` never exceeds the mean,
        so no minimum lies where ``rho*t^2`` does; the walk stops there.

    Returns
    -------
    table : float64 array of shape (minima, COLUMNS)
        The local minima in the order of the walk, hence of falling total epsilon. Empty if TOO_SHORT.
    at_infinity : float
        What the objective / concentration tends to as the total epsilon grows without bound, where
        that is a local infimum (the cheapest sellers cost nothing, no bound); infinity otherwise.
    reached : int
        How many sellers had entered when the walk stopped.
    status : int
        COMPLETE or TOO_SHORT.
    """
    known = psi.size
    table = np.empty((4, COLUMNS))
    found = 0
    at_infinity = np.inf

    N = first_capped
    l = first_capped  # noqa: E741
    n = 0
    entries = 0
    rest = first_rest
    first_room = cap - first_rest
    above = above_low = below = below_low = V = V_low = S = S_low = 0.0
    S_c = S_c_low = 0.0
    for i in range(N):
        S_c, S_c_low = _add(S_c, S_c_low, psi[i])
    if rest > 0.0:
        S = psi[l]
        l += 1  # noqa: E741
        n = 1
    per_rest = 1.0 / rest
    per_n = 1.0

    s = 0.0
    started = False
    under = True  # H < 0 at s
    bounded = least_rate <= 0.0  # s has passed the bound on the total epsilon
    least = least_rate * least_rate

    while True:
        # The segment from s to the next event.
        if l == known and known < sellers:
            return table[:0], np.inf, l, TOO_SHORT
        entry = np.inf
        leave = np.inf
        if n == 0:
            # Corner plateau: N sellers at the cap, whatever s.
            weight = N * cap * cap
            level = cap * (S_c + S_c_low)
            if l < known:
                entry = (psi[l] - psi[l - 1]) / cap
        else:
            weight = N * cap * cap + rest * rest * per_n
            level = cap * (S_c + S_c_low) + rest * ((S + S_low) * per_n)
            if l < known:
                entry = (above + (n * (psi[l] - psi[l - 1]) + above_low)) * per_rest
            if N > 0:
                leave = below + (n * (psi[N] - psi[N - 1]) + below_low)
                leave /= first_room + entries * cap
        end = min(entry, leave)

        if end > s:
            V_now = V + V_low
            rate = weight * end * end + V_now  # t^2 at the end
            if not started:
                started = True
                if bounded and level == 0.0:
                    under = False
                    at_infinity = np.sqrt(weight)
            at_bound = False
            crossing = False
            if not bounded and rate >= least:
                bounded = True
                s = min(max(np.sqrt(max(least - V_now, 0.0) / weight), s), end)
                under = s * (rho * (weight * s * s + V_now) - level) + V_now < 0.0
                at_bound = not under
            if bounded:
                # The sign of s*H, which is convex in s.
                rises = end == np.inf or end * (rho * rate - level) + V_now >= 0.0
                if under:
                    crossing = rises
                elif rises:
                    turn = level - rho * V_now
                    steep = 3.0 * rho * weight
                    if s * s * steep < turn and turn < end * end * steep:
                        turn = np.sqrt(turn / steep)
                        dip = turn * (rho * (weight * turn * turn + V_now) - level) + V_now
                        crossing = dip < 0.0
                under = not rises
            if at_bound or crossing:
                # Kind 0: the point at the bound; kind 1: an upward crossing.
                for kind in range(2):
                    if (kind == 0 and at_bound) or (kind == 1 and crossing):
                        point = s
                        if kind == 1:
                            point = min(max(upper_root(weight, level, V_now, rho), s), end)
                        if found == table.shape[0]:
                            larger = np.empty((2 * found, COLUMNS))
                            larger[:found] = table
                            table = larger
                        gap = cap * point
                        if n > 0:
                            gap = max((rest * point - (above + above_low)) * per_n, 0.0)
                        _describe(table[found], point, weight, level, V_now, rho)
                        table[found, CAPPED] = N
                        table[found, BOUGHT] = l
                        table[found, BASE] = psi[l - 1]
                        table[found, GAP] = gap
                        table[found, AT_BOUND] = 1.0 - kind
                        found += 1
            if bounded and rho * rate > mean:
                break
            s = end

        if end == np.inf:
            break
        # The event at its end: one more seller becomes interior, two where a plateau ends.
        if n == 0:
            N -= 1
            S_c, S_c_low = _add(S_c, S_c_low, -psi[N])
            S = psi[N]
            n = 1
            per_n = 1.0
            rest = cap
            per_rest = 1.0 / cap
            first_room = 0.0
        step = 1.0 / (n + 1)
        if entry <= leave:
            above, above_low = _add(above, above_low, n * (psi[l] - psi[l - 1]))
            V, V_low = _add(V, V_low, (above * per_n) * (above * step))
            S, S_low = _add(S, S_low, psi[l])
            if N > 0:
                below, below_low = _add(below, below_low, psi[l] - psi[N])
            entries += 1
            l += 1  # noqa: E741
        else:
            below, below_low = _add(below, below_low, n * (psi[N] - psi[N - 1]))
            V, V_low = _add(V, V_low, (below * per_n) * (below * step))
            N -= 1
            S, S_low = _add(S, S_low, psi[N])
            S_c, S_c_low = _add(S_c, S_c_low, -psi[N])
            above, above_low = _add(above, above_low, psi[l - 1] - psi[N])
            rest = first_rest + (first_capped - N) * cap
            per_rest = 1.0 / rest
        n += 1
        per_n = step
    return table[:found], at_infinity, l, COMPLETE


@njit(cache=True, error_model="numpy")
def _describe(row: Any, s: float, weight: float, level: float, V: float, rho: float) -> None:
    """Write what the point ``s`` of a segment is worth into a row of the table."""
    t = np.sqrt(weight * s * s + V)
    row[SPREAD] = s
    row[NORM] = t / s
    row[COST] = level - V / s
    row[RATE] = t
    row[VALUE] = row[NORM] + rho * t + row[COST] / t


@njit(cache=True, error_model="numpy")
def best_row(table: Any) -> int:
    """Return the row of least value; among equal values the last, which has the least total epsilon."""
    best = 0
    for i in range(1, table.shape[0]):
        if table[i, VALUE] <= table[best, VALUE]:
            best = i
    return best


@njit(cache=True, error_model="numpy")
def path_point(psi: Any, cap: float, first_capped: int, first_rest: float, spread: float) -> Any:
    """Return ``(psi_{l-1}, r - psi_{l-1}, N, l)`` at one spread: the projection onto the capped simplex.

    ``psi`` may be negative here; the other arguments are those of :func:`walk_path`.
    """
    known = psi.size
    N = first_capped
    l = first_capped  # noqa: E741
    n = 0
    rest = first_rest
    room = cap - first_rest
    above = above_low = below = below_low = 0.0
    if rest > 0.0:
        l += 1  # noqa: E741
        n = 1
    while True:
        if n == 0:
            if l == known or psi[l] - psi[l - 1] >= cap * spread:
                return psi[l - 1], cap * spread, N, l
            N -= 1
            l += 1  # noqa: E741
            n = 2
            rest = cap
            room = cap
            above = below = psi[l - 1] - psi[N]
            continue
        entry = np.inf
        if l < known:
            entry = ((above + n * (psi[l] - psi[l - 1])) + above_low) / rest
        leave = np.inf
        if N > 0:
            leave = ((below + n * (psi[N] - psi[N - 1])) + below_low) / room
        if min(entry, leave) >= spread:
            gap = max((rest * spread - (above + above_low)) / n, 0.0)
            return psi[l - 1], gap, N, l
        if entry <= leave:
            above, above_low = _add(above, above_low, n * (psi[l] - psi[l - 1]))
            if N > 0:
                below, below_low = _add(below, below_low, psi[l] - psi[N])
            room += cap
            l += 1  # noqa: E741
        else:
            below, below_low = _add(below, below_low, n * (psi[N] - psi[N - 1]))
            above, above_low = _add(above, above_low, psi[l - 1] - psi[N - 1])
            rest += cap
            N -= 1
        n += 1


# What the certificate reads off a finished allocation. Independent of the walk on purpose: these two are
# handed the result's arrays and nothing else. Costs may be infinite where the weight is 0.


@njit(cache=True, error_model="numpy")
def measure(psi: Any, weights: Any, epsilons: Any, total_epsilon: float) -> Any:
    """Return sums and extremes of the arrays.

    In this order: the sum of the weights, of their squares, and of weight times cost (compensated, so
    that they are good to rounding at any length); the dearest and the cheapest cost bought; the
    heaviest and the lightest weight; the largest ``|epsilon - weight * total_epsilon|``; how many are
    bought.
    """
    total = square = cost = 0.0
    total_low = square_low = cost_low = 0.0
    dearest, cheapest, heaviest, lightest = -np.inf, np.inf, -np.inf, np.inf
    mismatch = 0.0
    bought = 0
    for i in range(psi.size):
        a = weights[i]
        heaviest = max(heaviest, a)
        lightest = min(lightest, a)
        mismatch = max(mismatch, abs(epsilons[i] - a * total_epsilon))
        if a == 0.0:
            continue
        # Neumaier's compensated sums; the terms are non-negative, so the larger summand is known.
        term = a
        new = total + term
        total_low += (total - new) + term if total >= term else (term - new) + total
        total = new
        term = a * a
        new = square + term
        square_low += (square - new) + term if square >= term else (term - new) + square
        square = new
        term = a * psi[i]
        new = cost + term
        cost_low += (cost - new) + term if cost >= term else (term - new) + cost
        cost = new
        if a > 0.0:
            bought += 1
            dearest = max(dearest, psi[i])
            cheapest = min(cheapest, psi[i])
    return (
        total + total_low,
        square + square_low,
        cost + cost_low,
        dearest,
        cheapest,
        heaviest,
        lightest,
        mismatch,
        bought,
    )


@njit(cache=True, error_model="numpy")
def gradient_range(psi: Any, weights: Any, origin: float, price: float, tilt: float, full: float) -> Any:
    """Return the largest gradient among who can give weight, the least among who can take some.

    The gradient is ``tilt * weight + price * (psi - origin)``; ``full`` and above counts as capped.
    """
    giving, taking = -np.inf, np.inf
    for i in range(psi.size):
        a = weights[i]
        g = tilt * a + price * (psi[i] - origin)
        if a > 0.0:
            giving = max(giving, g)
        if a < full:
            taking = min(taking, g)
    return giving, taking
