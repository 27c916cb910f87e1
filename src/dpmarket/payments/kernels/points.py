"""One seller's epsilon at any report, the last report that gets any, and its known kinks: case by case.

``point_at``, ``last_report`` and ``kinks`` stand for the case's own function, which the compiler chooses by
the type of the case, so that only what is called is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from dpmarket.compiling import compiled
from dpmarket.payments.kernels.alone import Alone, last_report_alone, leaves_cap, point_alone
from dpmarket.payments.kernels.limits import Limit, epsilon_in_limit
from dpmarket.payments.kernels.resolve import Point
from dpmarket.payments.kernels.several import Several, point_of_several
from dpmarket.payments.kernels.switches import last_report_of_several, next_switch
from dpmarket.payments.kernels.tables import report_at, value_at
from dpmarket.payments.kernels.whole import Whole, epsilon_by_walking

Case = Alone | Several | Limit | Whole


def point_at(case: Any, own: float, x: float) -> Point:
    """Return what the seller with virtual cost ``own`` would get if they reported ``x``, globally."""
    raise NotImplementedError


def last_report(case: Any, own: float, start: float, table: Any) -> float:
    """Return the highest report within the table that still gets an epsilon; NaN: not known."""
    raise NotImplementedError


def kinks(case: Any, own: float, table: Any, span: Any, found: Any) -> int:
    """Write reports at which the seller's epsilon jumps or has a kink to ``found``; return how many."""
    raise NotImplementedError


@overload(point_at, strict=False, inline="always")
def _point_at(case: Any, own: Any, x: Any) -> Any:
    if case.instance_class is Alone:
        return lambda case, own, x: point_alone(case, own, x)
    if case.instance_class is Several:
        return lambda case, own, x: point_of_several(case, own, x)
    if case.instance_class is Limit:
        return lambda case, own, x: Point(epsilon_in_limit(case, own, x), np.nan, np.nan)
    return lambda case, own, x: Point(epsilon_by_walking(case, own, x), np.nan, np.nan)


@overload(last_report, strict=False, inline="always")
def _last_report(case: Any, own: Any, start: Any, table: Any) -> Any:
    if case.instance_class is Alone:
        return lambda case, own, start, table: last_report_alone(case, own, start, table)
    if case.instance_class is Several:
        return lambda case, own, start, table: last_report_of_several(case, own, start, table)
    return lambda case, own, start, table: last_report_by_halving(case, own, start, table)


@overload(kinks, strict=False, inline="always")
def _kinks(case: Any, own: Any, table: Any, span: Any, found: Any) -> Any:
    if case.instance_class is Alone:
        return lambda case, own, table, span, found: kink_at_cap(case, own, table, span, found)
    if case.instance_class is Several:
        return lambda case, own, table, span, found: switches(case, own, table, span, found)
    return lambda case, own, table, span, found: 0


@compiled()
def kink_at_cap(case: Any, own: float, table: Any, span: Any, found: Any) -> int:
    """Find the report at which a seller leaves the cap."""
    if own > case.anchor.last_capped:
        return 0
    kink = leaves_cap(case, own, value_at(table, span.end))
    found[0] = report_at(table, kink, span.start, span.end)
    return 1


@compiled()
def switches(case: Any, own: float, table: Any, span: Any, found: Any) -> int:
    """Find reports at which another minimum takes over or the seller comes to another place."""
    start = span.start
    for k in range(found.size):
        start = next_switch(case, own, table, start, span.end)
        if not start < span.end:
            return k
        found[k] = start
    count: int = found.size
    return count


@compiled()
def last_report_by_halving(case: Any, own: float, start: float, table: Any) -> float:
    """Return the highest report that still gets an epsilon, by asking for epsilons only."""
    low = start
    high: float = table.edges[-1]
    if point_at(case, own, value_at(table, high)).epsilon > 0.0:
        return high
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if point_at(case, own, value_at(table, middle)).epsilon > 0.0:
            low = middle
        else:
            high = middle
