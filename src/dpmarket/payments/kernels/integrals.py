"""Integrate one seller's epsilon over their own reports, each value a re-solved allocation.

A piece that does not come out smooth is cut in two, where somebody enters or leaves if that happens in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled
from dpmarket.payments.kernels.kinks import MOST, cuts_within
from dpmarket.payments.kernels.points import Case, kinks, last_report, point_at
from dpmarket.payments.kernels.quadrature import NODES, rule, rule_of_few
from dpmarket.payments.kernels.tables import value_at
from dpmarket.payments.kernels.threads import in_threads

# Places for the ends of pieces that wait, beyond those at the walls, and for kinks of a seller's own.
_WAITING = 140
_KINKS = 8
# What a piece may be missing, in proportion to the payment, if it is to be done with few values; and what
# part of that with two.
_LITTLE = 1e-14
_NOTHING = 1e-3


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
def piece(case: Any, own: float, table: Any, span: Any, work: Any) -> tuple[float, float]:
    """Return the integral over one piece, and what it may be missing.

    ``work`` takes the values at the nodes, and cutoff and edge at the ends and the nodes. A piece so short or
    so smooth that a few values leave next to nothing open is not asked for more.

    ``span``: its ends, and the little that it may be missing after a few values.
    """
    left, right, little = span
    values, seen = work
    length = right - left
    first = look(case, own, table, left, seen[0])
    # Not at the end itself: at a wall psi may jump.
    last = look(case, own, table, np.nextafter(right, left), seen[16])
    # A promise never rises with the report: its fall bounds what the mean of both ends is missing.
    fall = 0.5 * abs(first - last) * length
    if fall <= _NOTHING * little:
        return 0.5 * (first + last) * length, fall
    for j in range(1, 15, 2):
        values[j] = look(case, own, table, left + 0.5 * length * (1.0 + NODES[j]), seen[j + 1])
    mean, missing = rule_of_few(values, first, last)
    if missing * length <= little:
        return mean * length, missing * length
    for j in range(0, 15, 2):
        values[j] = look(case, own, table, left + 0.5 * length * (1.0 + NODES[j]), seen[j + 1])
    mean, missing = rule(values, first, last)
    return mean * length, missing * length


@compiled(forceinline=True)
def look(case: Any, own: float, table: Any, report: float, seen: Any) -> float:
    """Return the seller's epsilon at a report, and write cutoff and edge."""
    # Where psi goes to infinity its table may swing below what no higher report can have.
    point = point_at(case, own, max(value_at(table, report), own))
    seen[0], seen[1] = point.cutoff, point.edge
    epsilon: float = point.epsilon
    return epsilon


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
    work = np.empty(15), np.empty((17, 2))
    inner = np.empty(MOST)
    total = error = 0.0
    while depth > 0:
        depth -= 1
        left, right = waiting[depth, 0], waiting[depth, 1]
        enough = tolerance * ((right - left) / (end - start))
        ends = left, right, min(_LITTLE, enough) * (already + total)
        fine, missing = piece(case, own, table, ends, work)
        if not np.isfinite(fine):
            return fine, np.inf
        scale = already + total + fine
        middle = 0.5 * (left + right)
        small = missing <= enough * scale or missing <= 1e-16 * scale
        if small or not (left < middle < right) or depth + MOST >= waiting.shape[0]:
            total += fine
            error += missing
        else:
            for k in range(cuts_within(case, own, table, work[1], (left, right), inner) - 1, -1, -1):
                waiting[depth, 0] = inner[k]
                waiting[depth, 1] = right
                right = inner[k]
                depth += 1
            waiting[depth, 0] = left
            waiting[depth, 1] = right
            depth += 1
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
        values[j] = point_at(case, own, reports[j]).epsilon


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
