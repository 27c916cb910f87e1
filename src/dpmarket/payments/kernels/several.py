"""One seller's epsilon where a few stretches of the path are known to hold every minimum that counts.

On a stretch of kind ``ONE`` every moved problem has at most one minimum, which a re-solve finds from the base
problem's; on one of kind ``NEW``, too, but the base problem has none there. On a stretch of kind ``ANY``
nothing is known, and the moved problem's path is walked there, from the anchor at its low end. NaN stands for
a report at which no minimum was found.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.allocation.kernels.segments import Segment, scaled_slope, square_rate
from dpmarket.allocation.kernels.walk import Sight, minima_on
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.compiling import compiled
from dpmarket.payments.kernels.moves import (
    CAPPED,
    INTERIOR,
    OUT,
    Anchor,
    Mover,
    Others,
    Problem,
    entered,
    is_mover,
    others_at,
    released,
    with_mover,
)
from dpmarket.payments.kernels.resolve import (
    Point,
    Solution,
    after_plateau,
    epsilon_of,
    misplaced,
    moved,
    mover_place,
    on_plateau,
    resolve,
    unsettled,
)

ONE, NEW, ANY = 0, 1, 2
LOW, START, HIGH = 0, 1, 2
# Moves after which a re-solve gives up, because walking the stretch is as fast; and a walk's first step.
_MOVES = 48
_SETTLING_MOVES = 300
# By how much neighbouring stretches overlap, so that no minimum falls between them by rounding.
_EDGE = 1e-9


class Stretches(NamedTuple):
    """Stretches in the order of the path.

    ``anchors``: the fields of an :class:`Anchor` as columns; the rows ``3*k + LOW``, ``START`` and ``HIGH``
    belong to stretch number k.
    """

    kind: IntArray
    anchors: FloatArray


class Several(NamedTuple):
    """A problem with the stretches that hold its minima."""

    problem: Problem
    stretches: Stretches


class Answer(NamedTuple):
    """A mover's epsilon, the value of the minimum it belongs to, its stretch; place, cutoff, edge there."""

    epsilon: float
    value: float
    stretch: int
    status: int
    cutoff: float
    edge: float


@compiled(forceinline=True)
def anchor_of(stretches: Any, k: int) -> Any:
    """Return one anchor."""
    row = stretches.anchors[k]
    return Anchor(int(row[0]), int(row[1]), row[2], row[3], row[4], row[5], row[6], row[7])


@compiled()
def answer(case: Any, own: float, x: float) -> Any:
    """Return what the seller with cost ``own`` would get if they reported ``x``, by the least minimum."""
    problem, stretches = case
    best = Answer(np.nan, np.inf, -1, OUT, np.nan, np.nan)
    for k in range(stretches.kind.size):
        found, reference = on_stretch(problem, stretches, k, own, x)
        # Equal values: the smaller total promise, which comes later on the path.
        if found.settled and found.value <= best.value:
            epsilon = epsilon_of(problem, found, x - reference)
            cutoff = found.r + reference
            edge = cutoff - problem.rules.cap * found.s
            best = Answer(epsilon, found.value, k, found.status, cutoff, edge)
    return best


@compiled()
def point_of_several(case: Any, own: float, x: float) -> Any:
    """Return what the seller with cost ``own`` would get if they reported ``x``, without where it is from."""
    found = answer(case, own, x)
    return Point(found.epsilon, found.cutoff, found.edge)


@compiled()
def on_stretch(problem: Any, stretches: Any, k: int, own: float, x: float) -> Any:
    """Return the least minimum on a stretch, if any, with the reference of its relative costs."""
    if stretches.kind[k] == ONE:
        return on_one(problem, stretches, k, own, x)
    if stretches.kind[k] == NEW:
        return on_new(problem, stretches, k, own, x)
    return on_any(problem, stretches, k, own, x)


@compiled()
def on_one(problem: Any, stretches: Any, k: int, own: float, x: float) -> Any:
    """Return the minimum on a stretch that has at most one, with the reference of its relative costs."""
    found, reference = from_start(problem, stretches, k, own, x)
    if found.settled or not has_one(problem, stretches, k, own, x):
        return found, reference
    return on_any(problem, stretches, k, own, x)


@compiled()
def on_new(problem: Any, stretches: Any, k: int, own: float, x: float) -> Any:
    """Return what :func:`on_one` does, looking first whether there is any."""
    if not has_one(problem, stretches, k, own, x):
        return unsettled(), 0.0
    found, reference = from_start(problem, stretches, k, own, x)
    if found.settled:
        return found, reference
    return on_any(problem, stretches, k, own, x)


@compiled()
def from_start(problem: Any, stretches: Any, k: int, own: float, x: float) -> Any:
    """Return the minimum that a re-solve finds on a stretch, with the reference of its relative costs."""
    anchor = anchor_of(stretches, 3 * k + START)
    mover = Mover(own - anchor.reference, x - anchor.reference)
    found = resolve(problem, anchor, mover, INTERIOR, _MOVES)
    low, high = stretches.anchors[3 * k + LOW, -1], stretches.anchors[3 * k + HIGH, -1]
    if found.settled and low * (1.0 - _EDGE) <= found.s <= high * (1.0 + _EDGE):
        return found, anchor.reference
    return unsettled(), anchor.reference


@compiled()
def has_one(problem: Any, stretches: Any, k: int, own: float, x: float) -> bool:
    """Tell whether the slope is below 0 at a stretch's low end and above 0 at its high one, or not known."""
    if slope_at(problem, anchor_of(stretches, 3 * k + LOW), own, x) >= 0.0:
        return False
    return not slope_at(problem, anchor_of(stretches, 3 * k + HIGH), own, x) <= 0.0


@compiled()
def on_any(problem: Any, stretches: Any, k: int, own: float, x: float) -> Any:
    """Return the least minimum on a stretch, by walking it, with the reference of its relative costs."""
    low = anchor_of(stretches, 3 * k + LOW)
    mover = Mover(own - low.reference, x - low.reference)
    settled, others, status = settle(problem, low, mover)
    if not settled:
        return unsettled(), low.reference
    high = stretches.anchors[3 * k + HIGH, -1] * (1.0 + _EDGE)
    return walk_between(problem, others, mover, status, (low.reference, low.spread, high)), low.reference


@compiled()
def slope_at(problem: Any, anchor: Any, own: float, x: float) -> float:
    """Return ``s*H(s)`` of the moved problem at an anchor's spread; NaN: not known.

    Where the bound on the total promise is not kept yet, -1: the minimum comes later.
    """
    mover = Mover(own - anchor.reference, x - anchor.reference)
    settled, others, status = settle(problem, anchor, mover)
    if not settled:
        return np.nan
    rules = problem.rules
    sums = with_mover(others, mover.x, status, rules)
    segment = segment_of(rules, sums, anchor.reference, (anchor.spread, np.inf))
    if square_rate(segment, anchor.spread) < rules.least_rate * rules.least_rate:
        return -1.0
    slope: float = scaled_slope(segment, anchor.spread, rules.rho)
    return slope


@compiled(forceinline=True)
def segment_of(rules: Any, sums: Any, reference: float, ends: tuple[float, float]) -> Any:
    """Return the segment of these sums between two spreads."""
    weight = sums.held * rules.cap * rules.cap
    level = rules.cap * sums.S_c + reference
    if sums.n > 0:
        weight += sums.rest * sums.rest / sums.n
        level += sums.rest * sums.M
        return Segment(ends[0], ends[1], weight, level, sums.V)
    return Segment(ends[0], ends[1], weight, level, 0.0)


@compiled()
def settle(problem: Any, anchor: Any, mover: Any) -> Any:
    """Return whether and where everybody finds their place in the moved problem at an anchor's spread."""
    psi, rules, s = problem.psi, problem.rules, anchor.spread
    others = others_at(anchor, mover.own)
    status = INTERIOR
    for _ in range(_SETTLING_MOVES + psi.size // 16):
        sums = with_mover(others, mover.x, status, rules)
        if sums.rest == 0.0 and rules.first_rest == 0.0:
            plateau = on_plateau(psi, others, mover, status, anchor.reference)
            if rules.cap * s <= plateau.following - plateau.dearest:
                return True, Others(others.a, others.a, others.held, 0, others.S_c, 0.0, 0.0), plateau.status
            others, status = after_plateau(others, plateau)
        elif sums.n <= 0:
            if sums.rest < 0.0 or others.b == psi.size:
                return False, others, status
            others = entered(psi, others, anchor.reference, mover.own)
        else:
            r = sums.rest * s / sums.n + sums.M
            point = Solution(True, status, s, r, 1.0, 0.0)
            place = mover_place(point, mover.x, rules.cap * s, anchor.reference)
            if place == status:
                change = misplaced(psi, others, point, (anchor.reference, mover.x), rules.cap * s)
                if change == 0:
                    return sums.rest >= 0.0, others, status
                others = moved(psi, others, change, anchor.reference, mover.own)
            status = place
    return False, others, status


@compiled()
def walk_between(problem: Any, others: Any, mover: Any, status: int, where: Any) -> Any:
    """Return the least minimum of the moved problem between two spreads, not settled if there is none.

    ``others`` and ``status`` are everybody's places at the lower; ``where``: the reference of relative costs
    and the two spreads.
    """
    psi, rules = problem.psi, problem.rules
    reference, s, high = where
    best = unsettled()
    sums = with_mover(others, mover.x, status, rules)
    here = segment_of(rules, sums, reference, (s, s))
    bounded = square_rate(here, s) >= rules.least_rate * rules.least_rate
    sight = Sight(scaled_slope(here, s, rules.rho) < 0.0, bounded, np.nan, np.nan)
    while others.b < psi.size or psi.size == problem.sellers:
        near = neighbours(psi, others, mover, status, reference)
        entry, leave = next_events(near, sums, rules.cap)
        end = min(entry, leave, high)
        if end > s:
            segment = segment_of(rules, sums, reference, (s, end))
            sight = minima_on(segment, rules, sight)
            best = better(best, sight.at_bound, segment, (rules, sums, status, near))
            best = better(best, sight.crossing, segment, (rules, sums, status, near))
            s = end
        if end >= high:
            return best
        if sums.n == 0:
            others, status = after_plateau(others, on_plateau(psi, others, mover, status, reference))
        elif entry <= leave:
            others, status = after_entry(psi, others, mover, status, (near, reference))
        else:
            others, status = after_leaving(psi, others, mover, status, (near, reference))
        sums = with_mover(others, mover.x, status, rules)
    return unsettled()


@compiled()
def better(best: Any, s: float, segment: Any, known: Any) -> Any:
    """Return the minimum at spread ``s`` of a segment, or ``best`` where that is better or ``s`` is NaN."""
    rules, sums, status, near = known
    if np.isnan(s):
        return best
    t = np.sqrt(square_rate(segment, s))
    value = t / s + rules.rho * t + (segment.level - segment.V / s) / t
    if value > best.value:
        return best
    r = sums.rest * s / sums.n + sums.M if sums.n > 0 else near[1] + rules.cap * s
    return Solution(True, status, s, r, t, value)


@compiled(forceinline=True)
def next_events(near: tuple[float, float], sums: Any, cap: float) -> tuple[float, float]:
    """Return the spreads at which the next one enters and the dearest capped one leaves the cap."""
    following, dearest = near
    if sums.n == 0:
        return (following - dearest) / cap, np.inf
    entry = leave = np.inf
    if following < np.inf:
        entry = sums.n * (following - sums.M) / sums.rest
    if dearest > -np.inf:
        leave = sums.n * (sums.M - dearest) / (sums.n * cap - sums.rest)
    return entry, leave


@compiled()
def neighbours(psi: Any, others: Any, mover: Any, status: int, reference: float) -> tuple[float, float]:
    """Return the costs of the next one out and of the dearest at the cap, the mover among them."""
    b, a = others.b, others.a - 1
    if b < psi.size and is_mover(psi, b, reference, mover.own):
        b += 1
    if a >= 0 and is_mover(psi, a, reference, mover.own):
        a -= 1
    following = psi[b] - reference if b < psi.size else np.inf
    dearest = psi[a] - reference if a >= 0 else -np.inf
    if status == OUT:
        following = min(following, mover.x)
    if status == CAPPED:
        dearest = max(dearest, mover.x)
    return following, dearest


@compiled(forceinline=True)
def after_entry(psi: Any, others: Any, mover: Any, status: int, known: Any) -> Any:
    """Return everybody's places after the next one, who may be the mover, has entered."""
    (following, _), reference = known
    if status == OUT and mover.x <= following:
        return others, INTERIOR
    return entered(psi, others, reference, mover.own), status


@compiled(forceinline=True)
def after_leaving(psi: Any, others: Any, mover: Any, status: int, known: Any) -> Any:
    """Return everybody's places after the dearest at the cap, who may be the mover, has left it."""
    (_, dearest), reference = known
    if status == CAPPED and mover.x >= dearest:
        return others, INTERIOR
    return released(psi, others, reference, mover.own), status
