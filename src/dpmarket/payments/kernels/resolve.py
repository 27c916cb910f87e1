"""Re-solve the allocation when one seller's report moves, starting from an anchor of the base problem.

The units are those of :mod:`dpmarket.allocation.kernels.walk`: costs in units of ``psi``, the objective
divided by the concentration, ``t = s*|a|``, total promise ``epsilon_rate / t``.

Moving one report moves the solution a little: the sums over the anchor's sellers are updated for the one that
moved, the cubic of the segment is solved by Newton's method, and sellers cross the boundaries of the interior
until all conditions hold. That finds one stationary point; :mod:`dpmarket.payments.uniqueness` tells
beforehand from which anchors it is the one that counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.allocation.kernels.segments import upper_root
from dpmarket.compiling import compiled
from dpmarket.payments.kernels.moves import (
    CAPPED,
    INTERIOR,
    OUT,
    SINGLE,
    Others,
    capped,
    dropped,
    entered,
    is_mover,
    joined,
    others_at,
    released,
    with_mover,
)


class Solution(NamedTuple):
    """A point of the moved problem's path.

    ``settled``: all conditions hold; ``status``: where the mover stands; ``s``, ``r``: spread and cutoff, the
    latter relative; ``t``: the rate; ``value``: objective / concentration.
    """

    settled: bool
    status: int
    s: float
    r: float
    t: float
    value: float


class Point(NamedTuple):
    """What a seller gets at one report.

    ``cutoff``: the cost from which on nobody is bought from; ``edge``: the one up to which sellers are at the
    cap. Both are NaN where they are not known.
    """

    epsilon: float
    cutoff: float
    edge: float


@compiled(forceinline=True)
def unsettled() -> Any:
    """Return what stands for no solution."""
    return Solution(False, OUT, 0.0, 0.0, 1.0, np.inf)


@compiled()
def resolve(problem: Any, anchor: Any, mover: Any, status: int, most: int) -> Any:
    """Return the stationary point near an anchor, not settled after ``most`` moves.

    ``status`` is where the mover is looked for first.
    """
    psi, rules = problem.psi, problem.rules
    others = others_at(anchor, mover.own)
    s = anchor.spread
    for _ in range(most):
        sums = with_mover(others, mover.x, status, rules)
        if sums.rest == 0.0 and rules.first_rest == 0.0:
            plateau = on_plateau(psi, others, mover, status, anchor.reference)
            found = plateau_solution(rules, plateau, sums, anchor.reference)
            if found.settled:
                return found
            s = found.s
            others, status = after_plateau(others, plateau)
        elif sums.n <= 0:
            if sums.rest < 0.0 or others.b == psi.size:
                return unsettled()
            others = entered(psi, others, anchor.reference, mover.own)
        else:
            found = stationary(rules, sums, status, s, anchor.reference)
            s = found.s
            place = mover_place(found, mover.x, rules.cap * s, anchor.reference)
            if place == status:
                if sums.rest < 0.0 or not s > 0.0:
                    return unsettled()
                change = misplaced(psi, others, found, (anchor.reference, mover.x), rules.cap * s)
                if change == 0:
                    is_known = others.b < psi.size or psi.size == problem.sellers
                    return found if is_known else unsettled()
                others = moved(psi, others, change, anchor.reference, mover.own)
            status = place
    return unsettled()


@compiled(forceinline=True)
def root_near(weight: float, level: float, V: float, rho: float, start: float) -> float:
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


@compiled(forceinline=True)
def stationary(rules: Any, sums: Any, status: int, start: float, reference: float) -> Any:
    """Return the minimum on the segment of these sums, as if it went on for ever; not yet checked."""
    weight = sums.held * rules.cap * rules.cap + sums.rest * sums.rest / sums.n
    level = rules.cap * sums.S_c + sums.rest * sums.M + reference
    least = rules.least_rate * rules.least_rate
    s = root_near(weight, level, sums.V, rules.rho, start)
    if least > 0.0 and weight * s * s + sums.V < least:
        s = np.sqrt(max(least - sums.V, 0.0) / weight)
    r = sums.rest * s / sums.n + sums.M
    t = np.sqrt(weight * s * s + sums.V)
    return Solution(True, status, s, r, t, t / s + rules.rho * t + (level - sums.V / s) / t)


@compiled(forceinline=True)
def tolerated(reference: float, x: float) -> float:
    """Return how far beyond a boundary a relative cost may lie because of rounding."""
    return 4e-16 * (abs(reference) + abs(x) + 1e-300)


@compiled(forceinline=True)
def mover_place(found: Any, x: float, reach: float, reference: float) -> Any:
    """Return where the mover belongs at a solution, which says where they stand in it."""
    rounding = tolerated(reference, x)
    status: int = found.status
    if status == INTERIOR:
        if x > found.r:
            return OUT
        return CAPPED if found.r - x > reach else INTERIOR
    if status == CAPPED:
        return INTERIOR if found.r - x < reach - rounding else CAPPED
    return INTERIOR if x < found.r - rounding else OUT


@compiled(forceinline=True)
def misplaced(psi: Any, others: Any, found: Any, scale: tuple[float, float], reach: float) -> int:
    """Tell who stands on the wrong side of a boundary at a solution; 0: nobody does.

    1: the next one out; 2: the dearest between; 3: the dearest at the cap; 4: the cheapest between.
    """
    reference, x = scale
    a, b, r = others.a, others.b, found.r
    rounding = tolerated(reference, x)
    if b < psi.size and psi[b] - reference < r - rounding:
        return 1
    if b > a and psi[b - 1] - reference > r + rounding:
        return 2
    if a > 0 and r - (psi[a - 1] - reference) < reach - rounding:
        return 3
    if a < b and r - (psi[a] - reference) > reach + rounding:
        return 4
    return 0


@compiled(forceinline=True)
def moved(psi: Any, others: Any, change: int, reference: float, own: float) -> Any:
    """Return the others after those whom ``change`` names (see :func:`misplaced`) have crossed over."""
    if change == 1:
        return entered(psi, others, reference, own)
    if change == 2:
        return dropped(psi, others, reference, own)
    if change == 3:
        return released(psi, others, reference, own)
    return capped(psi, others, reference, own)


class Plateau(NamedTuple):
    """A corner plateau: the held ones have all the weight, whatever the spread, as long as nobody is close.

    ``dearest`` is the dearest of them, ``following`` the cheapest of the others; ``releases`` and ``enters``:
    that is the mover. ``held_end``, ``out_start``: their positions otherwise. ``status``: the mover's place.
    """

    dearest: float
    following: float
    held_end: int
    out_start: int
    releases: bool
    enters: bool
    status: int


@compiled()
def on_plateau(psi: Any, others: Any, mover: Any, status: int, reference: float) -> Any:
    """Describe the plateau on which nobody is between."""
    known = psi.size
    if status == INTERIOR:
        status = OUT
    held_end = others.a - 1
    if held_end >= 0 and is_mover(psi, held_end, reference, mover.own):
        held_end -= 1
    out_start = others.a
    if out_start < known and is_mover(psi, out_start, reference, mover.own):
        out_start += 1
    dearest = psi[held_end] - reference if held_end >= 0 else -np.inf
    following = psi[out_start] - reference if out_start < known else np.inf
    releases = status == CAPPED and mover.x >= dearest
    enters = status == OUT and mover.x <= following
    if releases:
        dearest = mover.x
    if enters:
        following = mover.x
    return Plateau(dearest, following, held_end, out_start, releases, enters, status)


@compiled(forceinline=True)
def plateau_solution(rules: Any, plateau: Any, sums: Any, reference: float) -> Any:
    """Return the minimum on a plateau; settled if the plateau reaches that far."""
    least = rules.least_rate * rules.least_rate
    weight = sums.held * rules.cap * rules.cap
    level = rules.cap * sums.S_c + reference
    s = np.sqrt(max(level / rules.rho, least) / weight)
    t = s * np.sqrt(weight)
    value = t / s + rules.rho * t + level / t
    fits = rules.cap * s <= plateau.following - plateau.dearest
    return Solution(fits, plateau.status, s, plateau.dearest + rules.cap * s, t, value)


@compiled()
def after_plateau(others: Any, plateau: Any) -> Any:
    """Return the others and the mover's place beyond a plateau: its dearest and the following are between."""
    a, b, held, S_c, status = others.a, others.a, others.held, others.S_c, plateau.status
    inside = Others(a, b, held, 0, S_c, 0.0, 0.0)
    if plateau.releases or plateau.enters:
        status = INTERIOR
    if not plateau.releases:
        n, M, V = joined(inside, plateau.dearest, SINGLE)
        inside = Others(plateau.held_end, b, held - 1, n, S_c - plateau.dearest, M, V)
    if not plateau.enters:
        n, M, V = joined(inside, plateau.following, SINGLE)
        inside = Others(inside.a, plateau.out_start + 1, inside.held, n, inside.S_c, M, V)
    return inside, status


@compiled(forceinline=True)
def epsilon_of(problem: Any, found: Any, x: float) -> float:
    """Return the epsilon of a mover who reports ``x``, relative as the solution is."""
    weight = 0.0
    if found.status == CAPPED:
        weight = problem.rules.cap
    elif found.status == INTERIOR:
        weight = (found.r - x) / found.s
    epsilon: float = weight * (problem.epsilon_rate / found.t)
    return epsilon
