"""Walk the one-parameter path of candidate allocations over sorted virtual costs.

For a spread ``s > 0`` the loss weights ``a_i(s) = clip((r - psi_i)/s, 0, cap)``, with the cutoff ``r``
fixed by ``sum a = 1``, minimise the buyer's objective at exactly one total promise. Walking ``s`` from
0 upwards therefore visits the best allocation for every total promise, from infinity down to 0, and the
local minima of the whole problem are the points where

    H(s) = rho * s^2 * |a|^2 - <a, psi>,      rho = noise * payment_weight / concentration^2

changes sign from minus to plus. In these units the objective divided by the concentration is
``|a| + rho*t + <a, psi>/t`` with ``t = s*|a|``, and the total promise is
``concentration / (payment_weight * t)``.

The path consists of segments (:mod:`dpmarket.allocation.kernels.segments`) on which the same sellers are at
the cap, between and out. Between segments lies one of three events, each a function here: the next seller
enters, the dearest capped one leaves the cap, or a plateau ends, on which nobody was between.

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

from typing import Any, NamedTuple

import numpy as np

from dpmarket.allocation.kernels.segments import (
    AT_BOUND,
    BASE,
    BOUGHT,
    CAPPED,
    COLUMNS,
    GAP,
    Segment,
    crosses_upwards,
    crossing_on,
    describe,
    from_bound,
    scaled_slope,
    square_rate,
    with_room,
)
from dpmarket.compiling import compiled
from dpmarket.numerics import add

COMPLETE, TOO_SHORT = 0, 1
"""How a walk ended: all minima found, or the prefix of the costs it was given was too short."""


class Rules(NamedTuple):
    """What a walk takes from the buyer's objective.

    Attributes
    ----------
    cap, first_capped, first_rest : float, int, float
        The cap; how many sellers it admits in full, ``floor(1/cap)``; and what is left over,
        ``1 - first_capped*cap``, which is exactly 0 where ``1/cap`` is whole. No cap: (1, 0, 1).
    rho : float
        noise * payment_weight / concentration^2, positive, per unit of ``psi``.
    least_rate : float
        concentration / (payment_weight * bound on the total promise), in units of ``psi``; 0: no bound.
    """

    cap: float
    first_capped: int
    first_rest: float
    rho: float
    least_rate: float


class Members(NamedTuple):
    """Who is at the cap and who between, with the sums over them that the description above names."""

    N: int
    l: int  # noqa: E741
    n: int
    dearest: float
    entries: int
    rest: float
    per_rest: float
    per_n: float
    first_room: float
    above: float
    above_low: float
    below: float
    below_low: float
    V: float
    V_low: float
    S: float
    S_low: float
    S_c: float
    S_c_low: float


class Sight(NamedTuple):
    """What a walk knows at a spread, and where the minima on the segment before it lie.

    ``under``: H is below 0; ``bounded``: the bound on the total promise is kept from here on; ``at_bound``
    and ``crossing``: the spreads of minima at that bound and at an upward crossing, NaN where there is none.
    """

    under: bool
    bounded: bool
    at_bound: float
    crossing: float


@compiled()
def walk_path(psi: Any, sellers: int, rules: Any, mean: float) -> Any:
    """Return all local minima along the path.

    Parameters
    ----------
    psi : float64 array
        The cheapest ``len(psi)`` of the finite virtual costs, sorted.
    sellers : int
        How many finite virtual costs there are in all, at least ``len(psi)``.
    rules : Rules
        What the buyer's objective fixes.
    mean : float
        An upper bound for the mean of all finite virtual costs. ``<a, psi>`` never exceeds the mean,
        so no minimum lies where ``rho*t^2`` does; the walk stops there.

    Returns
    -------
    table : float64 array of shape (minima, COLUMNS)
        The local minima in the order of the walk, hence of falling total promise. Empty if TOO_SHORT.
    at_infinity : float
        What the objective / concentration tends to as the total promise grows without bound, where
        that is a local infimum (the cheapest sellers cost nothing, no bound); infinity otherwise.
    reached : int
        How many sellers had entered when the walk stopped.
    status : int
        COMPLETE or TOO_SHORT.
    """
    table = np.empty((4, COLUMNS))
    found: Any = np.int64(0)  # typed, or numba compiles what it is given to for this very value as well
    at_infinity = np.inf
    members = first_members(psi, rules)
    sight = Sight(True, rules.least_rate <= 0.0, np.nan, np.nan)
    s = 0.0
    while members.l < psi.size or psi.size == sellers:
        entry, leave = next_events(psi, rules, members)
        end = min(entry, leave)
        if end > s:
            segment = segment_between(rules, members, s, end)
            if s == 0.0 and sight.bounded and segment.level == 0.0:
                sight = Sight(False, True, np.nan, np.nan)
                at_infinity = np.sqrt(segment.weight)
            sight = minima_on(segment, rules, sight)
            if sight.at_bound >= 0.0 or sight.crossing >= 0.0:
                table, found = with_minima(table, found, sight, (segment, members), rules)
            if sight.bounded and rules.rho * square_rate(segment, end) > mean:
                return table[:found], at_infinity, members.l, COMPLETE
            s = end
        if end == np.inf:
            return table[:found], at_infinity, members.l, COMPLETE
        if members.n == 0:
            members = plateau_ended(psi, rules, members)
        members = entered(psi, members) if entry <= leave else left_cap(psi, rules, members)
    return table[:0], np.inf, members.l, TOO_SHORT


@compiled(forceinline=True)
def minima_on(segment: Any, rules: Any, sight: Any) -> Any:
    """Return what is known after a segment."""
    under, bounded = sight.under, sight.bounded
    at_bound = crossing = np.nan
    least = rules.least_rate * rules.least_rate
    if not bounded and square_rate(segment, segment.end) >= least:
        bounded = True
        segment = from_bound(segment, least)
        under = scaled_slope(segment, segment.start, rules.rho) < 0.0
        if not under:
            at_bound = segment.start
    if bounded:
        crosses, under = crosses_upwards(segment, under, rules.rho)
        if crosses:
            crossing = crossing_on(segment, rules.rho)
    return Sight(under, bounded, at_bound, crossing)


@compiled()
def with_minima(table: Any, found: int, sight: Any, where: Any, rules: Any) -> Any:
    """Return the table with a row for each minimum in sight, and how many rows it then has."""
    segment, members = where
    for k in range(2):
        s = sight.at_bound if k == 0 else sight.crossing
        if not np.isnan(s):
            table = with_room(table, found)
            row = table[found]
            gap = rules.cap * s
            if members.n > 0:
                gap = max((members.rest * s - (members.above + members.above_low)) * members.per_n, 0.0)
            describe(row, segment, s, rules.rho)
            row[CAPPED] = members.N
            row[BOUGHT] = members.l
            row[BASE] = members.dearest
            row[GAP] = gap
            row[AT_BOUND] = 1.0 - k
            found += 1
    return table, found


@compiled(forceinline=True)
def first_members(psi: Any, rules: Any) -> Any:
    """Return who is bought at the smallest spreads: as many at the cap as it admits, and the next one."""
    N, rest = rules.first_capped, rules.first_rest
    S_c = S_c_low = S = 0.0
    for i in range(N):
        S_c, S_c_low = add(S_c, S_c_low, psi[i])
    n = 0
    if rest > 0.0:
        n = 1
        S = psi[N]
    return Members(
        N=N,
        l=N + n,
        n=n,
        dearest=psi[N + n - 1],
        entries=0,
        rest=rest,
        per_rest=1.0 / rest,
        per_n=1.0,
        first_room=rules.cap - rest,
        above=0.0,
        above_low=0.0,
        below=0.0,
        below_low=0.0,
        V=0.0,
        V_low=0.0,
        S=S,
        S_low=0.0,
        S_c=S_c,
        S_c_low=S_c_low,
    )


@compiled(forceinline=True)
def next_events(psi: Any, rules: Any, members: Any) -> tuple[float, float]:
    """Return the spreads at which the next seller enters and the dearest capped one leaves the cap."""
    N, l, n = members.N, members.l, members.n  # noqa: E741
    entry = leave = np.inf
    if n == 0:
        # Corner plateau: N sellers at the cap, whatever s.
        if l < psi.size:
            entry = (psi[l] - members.dearest) / rules.cap
        return entry, leave
    if l < psi.size:
        entry = (members.above + (n * (psi[l] - members.dearest) + members.above_low)) * members.per_rest
    if N > 0:
        leave = members.below + (n * (psi[N] - psi[N - 1]) + members.below_low)
        leave /= members.first_room + members.entries * rules.cap
    return entry, leave


@compiled(forceinline=True)
def segment_between(rules: Any, members: Any, start: float, end: float) -> Any:
    """Return the segment on which these are the members."""
    cap, N = rules.cap, members.N
    weight = N * cap * cap
    level = cap * (members.S_c + members.S_c_low)
    if members.n > 0:
        weight = weight + members.rest * members.rest * members.per_n
        level = level + members.rest * ((members.S + members.S_low) * members.per_n)
    return Segment(start, end, weight, level, members.V + members.V_low)


@compiled(forceinline=True)
def plateau_ended(psi: Any, rules: Any, members: Any) -> Any:
    """Return the members after a plateau, but for the seller who enters at the same time."""
    N = members.N - 1
    S_c, S_c_low = add(members.S_c, members.S_c_low, -psi[N])
    return Members(
        N=N,
        l=members.l,
        n=1,
        dearest=members.dearest,
        entries=members.entries,
        rest=rules.cap,
        per_rest=1.0 / rules.cap,
        per_n=1.0,
        first_room=0.0,
        above=members.above,
        above_low=members.above_low,
        below=members.below,
        below_low=members.below_low,
        V=members.V,
        V_low=members.V_low,
        S=psi[N],
        S_low=members.S_low,
        S_c=S_c,
        S_c_low=S_c_low,
    )


@compiled(forceinline=True)
def entered(psi: Any, members: Any) -> Any:
    """Return the members after the cheapest seller who was out has entered."""
    N, l, n = members.N, members.l, members.n  # noqa: E741
    step = 1.0 / (n + 1)
    above, above_low = add(members.above, members.above_low, n * (psi[l] - members.dearest))
    # Of a long sum the first float alone is no better than a plain sum.
    wide = above + above_low
    V, V_low = add(members.V, members.V_low, (wide * members.per_n) * (wide * step))
    S, S_low = add(members.S, members.S_low, psi[l])
    below, below_low = members.below, members.below_low
    if N > 0:
        below, below_low = add(below, below_low, psi[l] - psi[N])
    return Members(
        N=N,
        l=l + 1,
        n=n + 1,
        dearest=psi[l],
        entries=members.entries + 1,
        rest=members.rest,
        per_rest=members.per_rest,
        per_n=step,
        first_room=members.first_room,
        above=above,
        above_low=above_low,
        below=below,
        below_low=below_low,
        V=V,
        V_low=V_low,
        S=S,
        S_low=S_low,
        S_c=members.S_c,
        S_c_low=members.S_c_low,
    )


@compiled(forceinline=True)
def left_cap(psi: Any, rules: Any, members: Any) -> Any:
    """Return the members after the dearest capped seller has left the cap."""
    n = members.n
    step = 1.0 / (n + 1)
    N = members.N - 1
    below, below_low = add(members.below, members.below_low, n * (psi[N + 1] - psi[N]))
    wide = below + below_low
    V, V_low = add(members.V, members.V_low, (wide * members.per_n) * (wide * step))
    S, S_low = add(members.S, members.S_low, psi[N])
    S_c, S_c_low = add(members.S_c, members.S_c_low, -psi[N])
    above, above_low = add(members.above, members.above_low, members.dearest - psi[N])
    rest = rules.first_rest + (rules.first_capped - N) * rules.cap
    return Members(
        N=N,
        l=members.l,
        n=n + 1,
        dearest=members.dearest,
        entries=members.entries,
        rest=rest,
        per_rest=1.0 / rest,
        per_n=step,
        first_room=members.first_room,
        above=above,
        above_low=above_low,
        below=below,
        below_low=below_low,
        V=V,
        V_low=V_low,
        S=S,
        S_low=S_low,
        S_c=S_c,
        S_c_low=S_c_low,
    )


@compiled()
def path_points(psi: Any, rules: Any, spreads: Any) -> Any:
    """Return ``(N, l, psi_{l-1}, r - psi_{l-1}, weight, level, V)`` at increasing spreads, a row for each.

    At one spread that is the projection onto the capped simplex; the last three are those of the segment.
    ``psi`` holds all costs, which may be negative here; of the rules only the cap counts.
    """
    points = np.empty((spreads.size, 7))
    members = first_members(psi, rules)
    k = 0
    while True:
        entry, leave = next_events(psi, rules, members)
        end = min(entry, leave)
        while k < spreads.size and spreads[k] <= end:
            write_point(points[k], rules, members, spreads[k])
            k += 1
        if k == spreads.size:
            return points
        if members.n == 0:
            members = plateau_ended(psi, rules, members)
        members = entered(psi, members) if entry <= leave else left_cap(psi, rules, members)


@compiled()
def write_point(row: Any, rules: Any, members: Any, s: float) -> None:
    """Write a row of :func:`path_points`."""
    gap = rules.cap * s
    if members.n > 0:
        gap = max((members.rest * s - (members.above + members.above_low)) / members.n, 0.0)
    segment = segment_between(rules, members, s, s)
    row[0] = members.N
    row[1] = members.l
    row[2] = members.dearest
    row[3] = gap
    row[4] = segment.weight
    row[5] = segment.level
    row[6] = segment.V
