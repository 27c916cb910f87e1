"""Integrate one seller's epsilon over their own reports, each value a re-solved allocation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import get_num_threads, njit

from dpmarket.arrays import FloatArray
from dpmarket.payments.kernels import (
    CAPPED,
    INTERIOR,
    OUT,
    PATH,
    Basins,
    Problem,
    epsilon_at,
    place_of,
    resolve,
)

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
def value_at(table: Any, z: float) -> float:
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
            e = epsilon_at(problem, basins, own, places, value_at(table, middle + half * _NODES[j]))
            fine += _KRONROD[j] * e
            coarse += _GAUSS[j] * e
            at_right += _TO_END[j] * e
            at_left += _TO_END[14 - j] * e
        fine *= half
        missing = abs(fine - coarse * half)
        if not np.isfinite(fine):
            return fine, np.inf
        scale = already + total + fine
        # A jump or kink beyond the outermost node is seen by neither rule, but by the ends' own values.
        at_left -= epsilon_at(problem, basins, own, places, value_at(table, left))
        inside = np.nextafter(right, left)  # at a wall psi may jump
        at_right -= epsilon_at(problem, basins, own, places, value_at(table, inside))
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
def report_at(table: Any, x: float, low: float, high: float) -> Any:
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
        if value_at(table, z) < x:
            low = z
        else:
            high = z


@njit(cache=True, error_model="numpy")
def last_bought(problem: Any, basins: Any, table: Any, own: float, places: Any, start: float) -> Any:
    """Return the highest report, within the table, at which the seller is still bought from."""
    low, high = start, table.edges[-1]
    if epsilon_at(problem, basins, own, places, value_at(table, high)) > 0.0:
        return high
    if problem.regime == PATH and basins.bought.size == 1:
        # The one stationary point without the seller tells the cutoff they face.
        reference = basins.reference[0]
        settled, _, _, r, _, _ = resolve(
            problem, basins, 0, own - reference, places[0], value_at(table, high) - reference, OUT
        )
        if settled:
            return report_at(table, r + reference, low, high)
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if epsilon_at(problem, basins, own, places, value_at(table, middle)) > 0.0:
            low = middle
        else:
            high = middle


@njit(cache=True, error_model="numpy")
def cap_kink(problem: Any, basins: Any, own: float, place: int, end: float) -> Any:
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


@njit(cache=True, error_model="numpy")
def _integral_of(
    problem: Any,
    basins: Any,
    table: Any,
    cost: float,
    own: float,
    epsilon: float,
    top: float,
    tolerance: float,
    places: Any,
    cuts: Any,
) -> Any:
    """Integrate one seller's epsilon from their cost on; infinite if the table ends too early for it."""
    end = last_bought(problem, basins, table, own, places, cost)
    if end == table.edges[-1] and end < top:
        return np.inf, np.inf
    _set_cuts(problem, basins, table, cost, own, end, places, cuts)
    return integrate(problem, basins, table, own, places, cost, end, cuts, cost * epsilon, tolerance)


@njit(cache=True, error_model="numpy")
def _set_cuts(
    problem: Any, basins: Any, table: Any, cost: float, own: float, end: float, places: Any, cuts: Any
) -> None:
    """Fill in the reports between ``cost`` and ``end`` at which the seller's epsilon has a kink."""
    cuts[: table.walls.size] = table.walls
    cuts[table.walls.size] = cost
    if problem.regime == PATH and places.size == 1 and places[0] == CAPPED:
        kink = cap_kink(problem, basins, own, CAPPED, value_at(table, end))
        cuts[table.walls.size] = report_at(table, kink, cost, end)
    cuts.sort()


@njit(cache=True, error_model="numpy", nogil=True)
def _running_integrals(
    problem: Any,
    basins: Any,
    table: Any,
    own: float,
    reports: Any,
    epsilons: Any,
    top: float,
    tolerance: float,
    values: Any,
    errors: Any,
) -> None:
    places = np.empty(basins.bought.size, dtype=np.int64)
    for k in range(basins.bought.size):
        places[k] = place_of(problem, basins, k, own)
    first = reports[0]
    end = last_bought(problem, basins, table, own, places, first)
    if end == table.edges[-1] and end < top:
        values[:] = np.inf
        return
    cuts = np.empty(table.walls.size + 1)
    _set_cuts(problem, basins, table, first, own, end, places, cuts)
    total = error = 0.0
    right = end
    for i in range(reports.size - 1, -1, -1):
        left = reports[i]
        if left < right:
            # Payments fall with the report, so that errors in proportion to length add up to the tolerance.
            share = (right - left) / (end - first)
            already = left * epsilons[i] + total
            part, missing = integrate(
                problem, basins, table, own, places, left, right, cuts, already, tolerance * share
            )
            total += part
            error += missing
            right = left
        values[i] = total
        errors[i] = error


@njit(cache=True, error_model="numpy", nogil=True)
def _integrals(
    problem: Any,
    basins: Any,
    table: Any,
    costs: Any,
    virtual: Any,
    epsilons: Any,
    top: float,
    tolerance: float,
    values: Any,
    errors: Any,
) -> None:
    places = np.empty(basins.bought.size, dtype=np.int64)
    cuts = np.empty(table.walls.size + 1)
    for i in range(costs.size):
        for k in range(basins.bought.size):
            places[k] = place_of(problem, basins, k, virtual[i])
        values[i], errors[i] = _integral_of(
            problem, basins, table, costs[i], virtual[i], epsilons[i], top, tolerance, places, cuts
        )


def integrals(
    problem: Problem,
    basins: Basins,
    table: Any,
    costs: FloatArray,
    virtual: FloatArray,
    epsilons: FloatArray,
    top: float,
    tolerance: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the integral of each seller's epsilon over reports above their cost, and its error.

    A seller who is still bought from where the table ends below ``top`` gets infinity. ``virtual`` need
    not be among the problem's costs if there is one basin: the result is then the smooth continuation.
    """
    values, errors = np.empty(costs.size), np.empty(costs.size)

    def work(part: slice) -> None:
        _integrals(
            problem,
            basins,
            table,
            costs[part],
            virtual[part],
            epsilons[part],
            top,
            tolerance,
            values[part],
            errors[part],
        )

    _in_threads(work, costs.size, 16)
    return values, errors


def running_integrals(
    problem: Problem,
    basins: Basins,
    table: Any,
    own: float,
    reports: FloatArray,
    epsilons: FloatArray,
    top: float,
    tolerance: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the integral of one seller's epsilon above each of their increasing ``reports``, and its error.

    What :func:`integrals` gives for each report alone, in one pass from the highest report to the lowest.
    """
    values, errors = np.empty(reports.size), np.zeros(reports.size)
    _running_integrals(problem, basins, table, own, reports, epsilons, top, tolerance, values, errors)
    return values, errors


@njit(cache=True, error_model="numpy", nogil=True)
def _evaluate(table: Any, points: Any, values: Any) -> None:
    for i in range(points.size):
        values[i] = value_at(table, points[i])


def evaluate(table: Any, points: FloatArray) -> FloatArray:
    """Return a table's values at many points."""
    values = np.empty(points.size)
    _in_threads(lambda part: _evaluate(table, points[part], values[part]), points.size, 1 << 16)
    return values


def _in_threads(work: Callable[[slice], None], count: int, smallest: int) -> None:
    """Do ``work`` on slices of ``count`` elements, in as many threads as numba may use."""
    threads = int(get_num_threads())
    # More slices than threads: sellers differ in how much work they are.
    size = max(smallest, -(-count // (8 * threads)))
    parts = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    if threads == 1 or len(parts) == 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))
