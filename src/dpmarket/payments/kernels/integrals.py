"""Integrate one seller's epsilon over their own reports, each value a re-solved allocation.

The same loops serve all cases: ``epsilon_at``, ``last_report`` and ``kinks`` stand for the case's own
function, which the compiler chooses by the type of the case, so that only what is called is compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled
from dpmarket.payments.kernels.alone import Alone, epsilon_alone, last_report_alone, leaves_cap
from dpmarket.payments.kernels.limits import Limit, epsilon_in_limit
from dpmarket.payments.kernels.several import (
    Several,
    epsilon_of_several,
    last_report_of_several,
    next_switch,
)
from dpmarket.payments.kernels.tables import report_at, value_at
from dpmarket.payments.kernels.threads import in_threads
from dpmarket.payments.kernels.whole import Whole, epsilon_by_walking

Case = Alone | Several | Limit | Whole

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

# Places for the ends of pieces that wait, beyond those at the walls, and for kinks of a seller's own.
_WAITING = 140
_KINKS = 8


class Asked(NamedTuple):
    """Whose epsilons to integrate: each seller's cost, its virtual cost, and the epsilon there."""

    costs: FloatArray
    virtual: FloatArray
    epsilons: FloatArray


class Span(NamedTuple):
    """Reports from ``start`` to ``end``; ``already``: the rest of the payment, which tolerances relate to."""

    start: float
    end: float
    already: float


def epsilon_at(case: Any, own: float, x: float) -> float:
    """Return the epsilon of the seller with virtual cost ``own`` if they reported ``x``, globally."""
    raise NotImplementedError


def last_report(case: Any, own: float, start: float, table: Any) -> float:
    """Return the highest report within the table that still gets an epsilon; NaN: not known."""
    raise NotImplementedError


def kinks(case: Any, own: float, table: Any, span: Any, found: Any) -> int:
    """Write reports at which the seller's epsilon jumps or has a kink to ``found``; return how many."""
    raise NotImplementedError


@overload(epsilon_at, strict=False, inline="always")
def _epsilon_at(case: Any, own: Any, x: Any) -> Any:
    if case.instance_class is Alone:
        return lambda case, own, x: epsilon_alone(case, own, x)
    if case.instance_class is Several:
        return lambda case, own, x: epsilon_of_several(case, own, x)
    if case.instance_class is Limit:
        return lambda case, own, x: epsilon_in_limit(case, own, x)
    return lambda case, own, x: epsilon_by_walking(case, own, x)


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
    if epsilon_at(case, own, value_at(table, high)) > 0.0:
        return high
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if epsilon_at(case, own, value_at(table, middle)) > 0.0:
            low = middle
        else:
            high = middle


@compiled()
def cuts_of(case: Any, own: float, table: Any, span: Any) -> Any:
    """Return, sorted, the reports at which to split first: where psi or the epsilon is not smooth."""
    walls = table.walls
    cuts = np.empty(walls.size + _KINKS)
    for j in range(walls.size):
        cuts[j] = walls[j]
    count = walls.size
    found = np.empty(_KINKS)
    for k in range(kinks(case, own, table, span, found)):
        place = count
        while place > 0 and cuts[place - 1] > found[k]:
            cuts[place] = cuts[place - 1]
            place -= 1
        cuts[place] = found[k]
        count += 1
    return cuts[:count]


@compiled()
def piece(case: Any, own: float, table: Any, left: float, right: float) -> tuple[float, float]:
    """Return the integral over one piece, and what it may be missing."""
    middle, half = 0.5 * (left + right), 0.5 * (right - left)
    fine = coarse = at_left = at_right = 0.0
    for j in range(15):
        e = epsilon_at(case, own, value_at(table, middle + half * _NODES[j]))
        fine += _KRONROD[j] * e
        coarse += _GAUSS[j] * e
        at_right += _TO_END[j] * e
        at_left += _TO_END[14 - j] * e
    fine *= half
    missing = abs(fine - coarse * half)
    if np.isfinite(fine):
        # A jump or kink beyond the outermost node is seen by neither rule, but by the ends' own values.
        at_left -= epsilon_at(case, own, value_at(table, left))
        inside = np.nextafter(right, left)  # at a wall psi may jump
        at_right -= epsilon_at(case, own, value_at(table, inside))
        missing += (abs(at_left) + abs(at_right)) * half * _OUTERMOST
    return fine, missing


@compiled()
def integral(case: Any, own: float, table: Any, span: Any, split: Any) -> tuple[float, float]:
    """Integrate the seller's epsilon over a span of reports; also return the error.

    ``split``: the reports at which to split first, and the relative tolerance.
    """
    cuts, tolerance = split
    start, end, already = span
    waiting = np.empty((cuts.size + _WAITING, 2))
    depth = 0
    left = start
    for j in range(cuts.size):
        if left < cuts[j] < end:
            waiting[depth, 0] = left
            waiting[depth, 1] = cuts[j]
            depth += 1
            left = cuts[j]
    waiting[depth, 0] = left
    waiting[depth, 1] = end
    depth += 1
    total = error = 0.0
    while depth > 0:
        depth -= 1
        left, right = waiting[depth, 0], waiting[depth, 1]
        fine, missing = piece(case, own, table, left, right)
        if not np.isfinite(fine):
            return fine, np.inf
        scale = already + total + fine
        middle = 0.5 * (left + right)
        small = missing <= tolerance * scale * ((right - left) / (end - start)) or missing <= 1e-16 * scale
        if small or not (left < middle < right) or depth + 2 > waiting.shape[0]:
            total += fine
            error += missing
        else:
            waiting[depth, 0] = middle
            waiting[depth, 1] = right
            waiting[depth + 1, 0] = left
            waiting[depth + 1, 1] = middle
            depth += 2
    return total, error


@compiled(nogil=True)
def _integrals(case: Any, table: Any, asked: Any, limits: tuple[float, float], out: Any) -> None:
    costs, virtual, epsilons = asked
    top, tolerance = limits
    values, errors = out
    for i in range(costs.size):
        end = last_report(case, virtual[i], costs[i], table)
        if np.isnan(end) or (end == table.edges[-1] and end < top):
            values[i] = np.nan if np.isnan(end) else np.inf
            errors[i] = np.inf
            continue
        span = Span(costs[i], end, costs[i] * epsilons[i])
        cuts = cuts_of(case, virtual[i], table, span)
        values[i], errors[i] = integral(case, virtual[i], table, span, (cuts, tolerance))


@compiled(nogil=True)
def _running_integrals(case: Any, table: Any, asked: Any, limits: tuple[float, float], out: Any) -> None:
    reports, virtual, epsilons = asked
    top, tolerance = limits
    values, errors = out
    own, first = virtual[0], reports[0]
    end = last_report(case, own, first, table)
    if np.isnan(end) or (end == table.edges[-1] and end < top):
        values[:] = np.nan if np.isnan(end) else np.inf
        return
    cuts = cuts_of(case, own, table, Span(first, end, 0.0))
    total = error = 0.0
    right = end
    for i in range(reports.size - 1, -1, -1):
        left = reports[i]
        if left < right:
            # Payments fall with the report, so that errors in proportion to length add up to the tolerance.
            share = (right - left) / (end - first)
            span = Span(left, right, left * epsilons[i] + total)
            part, missing = integral(case, own, table, span, (cuts, tolerance * share))
            if not np.isfinite(part):
                # No tolerance can be met from here on; the whole is asked again in another case.
                values[:] = part
                return
            total += part
            error += missing
            right = left
        values[i] = total
        errors[i] = error


@compiled(nogil=True)
def _epsilons_at(case: Any, own: float, reports: Any, values: Any) -> None:
    for j in range(reports.size):
        values[j] = epsilon_at(case, own, reports[j])


def epsilons_at(case: Case, own: float, reports: FloatArray) -> FloatArray:
    """Return one seller's epsilons at several virtual costs, none below ``own``; NaN: not known."""
    values = np.empty(reports.size)
    _epsilons_at(case, own, reports, values)
    return values


def integrals(
    case: Case, table: Any, asked: Asked, top: float, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Return the integral of each seller's epsilon over reports above their cost, and its error.

    A seller who is still bought from where the table ends below ``top`` gets infinity, and one whose
    re-solves do not settle NaN. In the case :class:`Alone` virtual costs need not be among the problem's: the
    result is then the smooth continuation.
    """
    values, errors = np.empty(asked.costs.size), np.empty(asked.costs.size)

    def work(part: slice) -> None:
        chosen = Asked(asked.costs[part], asked.virtual[part], asked.epsilons[part])
        _integrals(case, table, chosen, (top, tolerance), (values[part], errors[part]))

    in_threads(work, asked.costs.size, 16)
    return values, errors


def running_integrals(
    case: Case, table: Any, asked: Asked, top: float, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Return the integral of one seller's epsilon above each of their increasing reports, and its error.

    What :func:`integrals` gives for each report alone, in one pass from the highest report to the lowest.
    ``asked.virtual`` is the seller's own virtual cost, for every report.
    """
    values, errors = np.empty(asked.costs.size), np.zeros(asked.costs.size)
    _running_integrals(case, table, asked, (top, tolerance), (values, errors))
    return values, errors
