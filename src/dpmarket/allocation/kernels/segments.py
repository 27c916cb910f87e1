"""Find the local minima on one segment of the path, on which the same sellers are at the cap and between.

On a segment the weights' norm and their mean cost are ``|a|^2 = weight + V/s^2`` and
``<a, psi> = level - V/s``, so that ``s*H(s) = rho*weight*s^3 - (level - rho*V)*s + V`` is a cubic, convex for
``s > 0``, which has at most one upward crossing (:mod:`dpmarket.allocation.kernels.walk` says what H is).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmarket.compiling import compiled

SPREAD, CAPPED, BOUGHT, BASE, GAP, NORM, COST, RATE, VALUE, AT_BOUND = range(10)
"""Columns of a table of minima.

``SPREAD`` s; ``CAPPED`` N; ``BOUGHT`` l; ``BASE`` psi_{l-1}, the dearest cost bought; ``GAP`` r - BASE,
at least 0; ``NORM`` |a|; ``COST`` <a, psi>; ``RATE`` t = s*|a|, inversely proportional to the total
epsilon; ``VALUE`` objective / concentration; ``AT_BOUND`` 1 where the bound on the total promise holds
with equality.
"""
COLUMNS = 10

_TANGENT = 2.0 / (3.0 * np.sqrt(3.0))
_DIP = 2.0 / np.sqrt(3.0)


class Segment(NamedTuple):
    """Spreads from ``start`` to ``end`` (infinity: it never ends) with the constants that hold there."""

    start: float
    end: float
    weight: float
    level: float
    V: float


@compiled()
def upper_root(weight: float, level: float, V: float, rho: float) -> float:
    """Return the larger positive root of ``rho*weight*s^3 - (level - rho*V)*s + V``.

    With ``s = w*x`` it reads ``x^3 - x + k = 0``, whose larger root lies in [1/sqrt(3), 1]. Where
    rounding leaves no root, the point of tangency is returned.
    """
    q = level - rho * V
    if q <= 0.0:
        return 0.0
    w = np.sqrt(q / (rho * weight))
    # Not 0/0 where q*w is too small for a float.
    k = min(V / (q * w), _TANGENT) if V > 0.0 else 0.0
    x = _DIP * np.cos(np.arccos(-k / _TANGENT) / 3.0)
    slope = 3.0 * x * x - 1.0
    if slope > 1e-3:
        x -= (x * x * x - x + k) / slope
    root: float = w * x
    return root


@compiled(forceinline=True)
def square_rate(segment: Any, s: float) -> float:
    """Return ``t^2 = (s*|a|)^2`` at a spread of the segment."""
    square: float = segment.weight * s * s + segment.V
    return square


@compiled(forceinline=True)
def scaled_slope(segment: Any, s: float, rho: float) -> float:
    """Return ``s*H(s)``: below 0 where more spread, that is less epsilon, is better."""
    value: float = s * (rho * square_rate(segment, s) - segment.level) + segment.V
    return value


@compiled(forceinline=True)
def from_bound(segment: Any, least: float) -> Any:
    """Return the part of a segment on which ``t^2 >= least``, which its end fulfils."""
    start, end, weight, level, V = segment
    at_bound = np.sqrt(max(least - V, 0.0) / weight)
    return Segment(min(max(at_bound, start), end), end, weight, level, V)


@compiled(forceinline=True)
def crosses_upwards(segment: Any, under: Any, rho: float) -> tuple[bool, bool]:
    """Tell whether H goes from minus to plus on the segment, and whether it is below 0 at its end.

    ``under`` tells whether it is below 0 at the start.
    """
    end = segment.end
    rises = end == np.inf or scaled_slope(segment, end, rho) >= 0.0
    crossing = rises
    if rises and not under:
        # Above 0 at both ends: convex as it is, s*H may still dip below 0 between them.
        turn = segment.level - rho * segment.V
        steep = 3.0 * rho * segment.weight
        crossing = segment.start * segment.start * steep < turn and turn < end * end * steep
        if crossing:
            crossing = scaled_slope(segment, np.sqrt(turn / steep), rho) < 0.0
    return crossing, not rises


@compiled(forceinline=True)
def crossing_on(segment: Any, rho: float) -> float:
    """Return where H crosses upwards, if it does."""
    root = upper_root(segment.weight, segment.level, segment.V, rho)
    point: float = min(max(root, segment.start), segment.end)
    return point


@compiled(forceinline=True)
def describe(row: Any, segment: Any, s: float, rho: float) -> None:
    """Write what the point ``s`` of a segment is worth into a row of a table."""
    t = np.sqrt(square_rate(segment, s))
    row[SPREAD] = s
    row[NORM] = t / s
    row[COST] = segment.level - segment.V / s
    row[RATE] = t
    row[VALUE] = row[NORM] + rho * t + row[COST] / t


@compiled()
def with_room(table: Any, found: int) -> Any:
    """Return the table, or a longer copy of it where all its rows are taken."""
    if found < table.shape[0]:
        return table
    longer = np.empty((2 * found, COLUMNS))
    for i in range(found):
        for j in range(COLUMNS):
            longer[i, j] = table[i, j]
    return longer


@compiled()
def best_row(table: Any) -> int:
    """Return the row of least value; among equal values the last, which has the least total promise."""
    best = 0
    for i in range(1, table.shape[0]):
        if table[i, VALUE] <= table[best, VALUE]:
            best = i
    return best
