"""One seller's epsilon where every moved problem has a single minimum that counts, near one anchor.

NaN stands for a report at which the re-solve did not settle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.compiling import compiled
from dpmarket.payments.kernels.moves import CAPPED, INTERIOR, OUT, Anchor, Mover, Problem
from dpmarket.payments.kernels.resolve import Point, epsilon_of, resolve
from dpmarket.payments.kernels.tables import report_at, value_at

# Equal costs are many if they are more than this part of those bought from.
_MANY = 64


class Alone(NamedTuple):
    """A problem with the anchor at its one minimum."""

    problem: Problem
    anchor: Anchor


@compiled(forceinline=True)
def moves(problem: Any) -> int:
    """Return after how many moves to give up: they take as long as walking a part of the path."""
    most: int = 300 + problem.psi.size // 16
    return most


@compiled()
def point_alone(case: Any, own: float, x: float) -> Any:
    """Return what the seller with cost ``own`` would get if they reported ``x``."""
    problem, anchor = case
    reference = anchor.reference
    found = resolve(problem, anchor, Mover(own - reference, x - reference), INTERIOR, moves(problem))
    if not found.settled:
        return Point(np.nan, np.nan, np.nan)
    cutoff = found.r + reference
    return Point(epsilon_of(problem, found, x - reference), cutoff, cutoff - problem.rules.cap * found.s)


def many_may_enter(case: Alone) -> bool:
    """Tell whether many equal costs lie so close above the cutoff that one seller's report lets them in.

    That bends the seller's epsilon sharply, and what they are paid is no smooth function of their cost.
    """
    problem, anchor = case
    psi, first = problem.psi, anchor.bought
    own = float(psi[0]) - anchor.reference
    found = resolve(problem, anchor, Mover(own, np.inf), OUT, moves(problem))
    base = resolve(problem, anchor, Mover(own, own), INTERIOR, moves(problem))
    if not found.settled:
        return True
    # On its way up the report may move the cutoff farther than leaving does.
    reach = base.r + 4.0 * (found.r - base.r) + anchor.reference
    close = psi[first : np.searchsorted(psi, reach)]
    _, counts = np.unique(close, return_counts=True)
    return bool(_MANY * counts.max(initial=0) >= first)


@compiled()
def last_report_alone(case: Any, own: float, start: float, table: Any) -> float:
    """Return the highest report, from ``start`` on and within the table, that still gets an epsilon."""
    problem, anchor = case
    high: float = table.edges[-1]
    mover = Mover(own - anchor.reference, value_at(table, high) - anchor.reference)
    found = resolve(problem, anchor, mover, INTERIOR, moves(problem))
    if not found.settled:
        return np.nan
    if epsilon_of(problem, found, mover.x) > 0.0:
        return high
    # The stationary point without the seller tells the cutoff they face.
    found = resolve(problem, anchor, mover, OUT, moves(problem))
    if not found.settled:
        return np.nan
    report: float = report_at(table, found.r + anchor.reference, start, high)
    return report


@compiled()
def leaves_cap(case: Any, own: float, end: float) -> float:
    """Return the virtual cost between ``own`` and ``end`` at which a capped seller leaves the cap."""
    problem, anchor = case
    low, high = own, end
    x: float
    # Secant steps on (r - x)/s - cap, kept inside a bracket.
    f_low = f_high = 0.0
    x = min(end, anchor.reference + anchor.mean)
    for step in range(80):
        mover = Mover(own - anchor.reference, x - anchor.reference)
        found = resolve(problem, anchor, mover, CAPPED if step == 0 else INTERIOR, moves(problem))
        if not found.settled:
            return own
        excess = (found.r - mover.x) / found.s - problem.rules.cap
        if excess > 0.0:
            low, f_low = x, excess
        else:
            high, f_high = x, excess
        if abs(excess) <= 1e-13 * problem.rules.cap or high - low <= 1e-15 * high:
            break
        x = between(low, high, f_low, f_high, step)
    return x


@compiled()
def between(low: float, high: float, f_low: float, f_high: float, step: int) -> float:
    """Return the secant's guess in a bracket, or its middle: every third step, to shrink it on both sides."""
    if f_low > 0.0 and f_high < 0.0 and step % 3 != 2:
        guess = low + (high - low) * f_low / (f_low - f_high)
        if low < guess < high:
            return guess
    return 0.5 * (low + high)
