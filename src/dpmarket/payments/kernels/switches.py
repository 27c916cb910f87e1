"""Find the reports at which another minimum takes over, or from which on a seller gets nothing.

What two minima differ by changes with a report by the difference of their epsilons, so that Newton's method
finds in a few steps where they are equal; what rounding leaves open is then decided by asking.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmarket.compiling import compiled
from dpmarket.payments.kernels.resolve import epsilon_of
from dpmarket.payments.kernels.several import answer, on_stretch
from dpmarket.payments.kernels.tables import report_at, value_at

# Steps of Newton's method; values that differ by less, in proportion, are equal.
_STEPS = 30
_EQUAL = 8e-16
# The room first left around equal values, in proportion, and how often it may grow.
_ROOM = 1e-13
_WIDER = 4
_GROWTH = 16.0
# A last report is known to this: nothing lies beyond it that an integral could trip over.
_CLOSE = 1e-13


@compiled()
def last_report_of_several(case: Any, own: float, start: float, table: Any) -> float:
    """Return the highest report, from ``start`` on and within the table, that still gets an epsilon."""
    high: float = table.edges[-1]
    top = answer(case, own, value_at(table, high))
    if np.isnan(top.epsilon):
        return np.nan
    if top.epsilon > 0.0:
        return high
    # The minimum without the seller tells the cutoff they face, unless another one lasts longer.
    report: float = report_at(table, top.cutoff, start, high)
    above = min(report * (1.0 + 1e-12) + 1e-300, high)
    if above == high:
        return report
    beyond = answer(case, own, value_at(table, above))
    if not beyond.epsilon > 0.0:
        return report
    low = above
    if beyond.stretch != top.stretch:
        z = equal_values(case, own, table, (low, high), (beyond.stretch, top.stretch))
        low, high = around(case, own, table, (low, high), (z, kind_of(beyond)))
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low <= _CLOSE * low:
            return low
        if answer(case, own, value_at(table, middle)).epsilon > 0.0:
            low = middle
        else:
            high = middle


@compiled()
def next_switch(case: Any, own: float, table: Any, low: float, high: float) -> float:
    """Return the report between ``low`` and ``high`` up to which the minimum stays on one stretch.

    ``high`` if it does so all the way. With several switches it is one of them.
    """
    first = answer(case, own, value_at(table, low))
    last = answer(case, own, value_at(table, np.nextafter(high, low)))
    if kind_of(first) == kind_of(last):
        return high
    if first.stretch != last.stretch:
        z = equal_values(case, own, table, (low, high), (first.stretch, last.stretch))
        low, high = around(case, own, table, (low, high), (z, kind_of(first)))
    # To the last bit: the quadrature must not see a jump inside of a piece.
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if kind_of(answer(case, own, value_at(table, middle))) == kind_of(first):
            low = middle
        else:
            high = middle


@compiled()
def around(case: Any, own: float, table: Any, ends: tuple[float, float], known: Any) -> Any:
    """Return two close reports between which the seller leaves a kind, or ``ends`` where they are not found.

    ``known``: where that should be, or NaN, and the kind.
    """
    z, kind = known
    room = _ROOM * abs(z)
    for _ in range(_WIDER):
        low, high = max(z - room, ends[0]), min(z + room, ends[1])
        if not low < high:
            break
        stays = kind_of(answer(case, own, value_at(table, low))) == kind
        if stays and kind_of(answer(case, own, value_at(table, high))) != kind:
            return low, high
        room *= _GROWTH
    return ends


@compiled()
def equal_values(
    case: Any, own: float, table: Any, ends: tuple[float, float], both: tuple[int, int]
) -> float:
    """Return the report between ``ends`` at which the minima on two stretches are worth the same.

    The first is better at the lower end and the second at the higher one; NaN: they are not found.
    """
    problem, stretches = case
    low, high = value_at(table, ends[0]), value_at(table, ends[1])
    x = low
    for _ in range(_STEPS):
        a, a_reference = on_stretch(problem, stretches, both[0], own, x)
        b, b_reference = on_stretch(problem, stretches, both[1], own, x)
        if not (a.settled and b.settled):
            return np.nan
        gap = a.value - b.value
        slope = epsilon_of(problem, a, x - a_reference) - epsilon_of(problem, b, x - b_reference)
        if gap < 0.0:
            low = x
        else:
            high = x
        following = x - gap * problem.epsilon_rate / slope
        if not low <= following <= high:
            following = 0.5 * (low + high)
        if abs(gap) <= _EQUAL * a.value or following == x:
            report: float = report_at(table, following, ends[0], ends[1])
            return report
        x = following
    return np.nan


@compiled(forceinline=True)
def kind_of(given: Any) -> int:
    """Return a number for stretch and place: where it changes, the epsilon jumps or has a kink."""
    kind: int = 3 * given.stretch + given.status
    return kind
