"""Bound the path of best allocations from bucket sums: where on it the best one can lie.

With the cutoff r at the edge of a bucket, and ``y_i = s*a_i = min(max(r - psi_i, 0), c)``, ``c = cap*s``, all
sums over sellers are exact, except that r - c, where the cap begins to hold, lies inside of some bucket. Of
what depends on c, ``E = |y|^2``, ``s`` and ``|a| = |y|/sum y`` increase and ``D = <a, psi>`` falls, so that
the edges of that bucket bound them. Along the path ``t = sqrt(E)`` and D increase, and the least objective
at t has the slope ``rho - D/t^2``: that bounds it between two points, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np

from dpmarket.allocation.kernels.walk import Rules
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import NotConverged
from dpmarket.partitions.sums import BucketSums, as_float

_SLACK = 1e-11
# How many edges above the cap's to begin with those among whom a seller's share is divided.
_STEPS = (0, *(1 << k for k in range(24)))
# Which gaps between sellers are wide, relative to costs; at how many places to look in one, evenly and ever
# closer to its lower end.
_WIDE = 2.0**-12
_IN_GAP = 64
_CLOSEST = 44


class TooClose(NotConverged):
    """What buckets tell does not single out one best allocation, or the payments around it.

    Examples
    --------
    >>> issubclass(TooClose, NotConverged)
    True
    """

    def __init__(self) -> None:
        super().__init__(
            "expected a market with one clearly best allocation, found several that are almost as good, or "
            "a limit such as a concentration of 0, and more sellers than half of the free memory holds one "
            "by one (100 bytes each): free some, or, in Python, raise most_gathered. Nothing was written."
        )


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Exact sums over all sellers below each edge.

    Attributes
    ----------
    unit
        Sums are in 2**unit, squares in its square.
    edges
        All edges of buckets, increasing.
    places
        The same as whole numbers of the unit.
    counts, sums, squares
        How many lie below each edge, and the sums over them.
    """

    unit: int
    edges: FloatArray
    places: list[int]
    counts: list[int]
    sums: list[int]
    squares: list[int]


def prefixes(sums: BucketSums) -> Prefixes:
    """Return the sums below edges: where the sellers of buckets begin and end, and some in gaps between."""
    unit = sums.unit
    first, second = sums.moments(unit)
    edges = _edges_of(sums)
    # How many buckets lie below each edge: none holds an edge inside.
    below = np.searchsorted(sums.ends[1], edges, side="left")
    counts, totals, squares = (
        np.array([0, *accumulate(part)], dtype=object)[below].tolist()
        for part in (sums.counts.tolist(), first, second)
    )
    return Prefixes(unit, edges, wholes_of(edges, unit), counts, totals, squares)


def wholes_of(values: FloatArray, unit: int) -> list[int]:
    """Return numbers of at least 0 as whole multiples of 2**unit, rounded down where they are none."""
    fractions, exponents = np.frexp(values)
    significands = np.ldexp(fractions, 53).astype(np.int64).tolist()
    shifts = (exponents - 53 - unit).tolist()
    return [m << k if k >= 0 else m >> -k for m, k in zip(significands, shifts, strict=True)]


def _edges_of(sums: BucketSums) -> FloatArray:
    """Return costs at which to look: no seller of a bucket lies above one and another one below."""
    low, high = sums.ends
    end = np.nextafter(high, np.inf)
    gaps = np.append(low[1:], np.inf) - end
    wide = np.flatnonzero(gaps > _WIDE * end)
    parts = [low, end[wide]]
    fine = 4 if wide.size <= _IN_GAP else 1
    atom = (low == high) & (sums.counts > 1)
    for k in wide.tolist():
        is_last = k + 1 == low.size
        last = gaps[k] if np.isfinite(gaps[k]) else 2.0**20 * (end[k] - low[0] + end[k])
        steps = 0 if is_last else int(min(last / (_WIDE * max(end[k], 1e-200)), _IN_GAP))
        parts.append(end[k] + last * np.arange(1, steps) / max(steps, 1))
        if is_last or atom[k]:  # equal costs may be all that is between, and the cutoff lie close above them
            powers = 4 * fine if is_last else fine
            parts.append(end[k] + last * 2.0 ** (np.arange(-_CLOSEST * powers, int(is_last)) / powers))
    found = np.unique(np.concatenate(parts))
    return found[found < np.inf]


@dataclass(frozen=True, eq=False)
class Path:
    """Bounds on the path at the cutoffs that are edges; arrays of one element for each.

    Attributes
    ----------
    at
        The number of the edge.
    cap_low, cap_high
        The numbers of edges between which the cap begins to hold; -1 where nobody is at the cap.
    s, E, D, norm, value : FloatArray of shape (2, points)
        Lower and upper bounds: the spread, ``|y|^2``, the mean virtual cost bought, ``|a|``, the objective.
    """

    at: IntArray
    cap_low: IntArray
    cap_high: IntArray
    s: FloatArray
    E: FloatArray
    D: FloatArray
    norm: FloatArray
    value: FloatArray


def path_at_edges(known: Prefixes, rules: Rules, edges: Iterable[int]) -> Path:
    """Return bounds on the path at every one of some edges, in increasing order, at which there is one."""
    cap = Fraction(rules.cap)
    is_capped = rules.first_capped > 0
    needed = rules.first_capped + 1 if is_capped else 1
    rows: list[tuple[float, ...]] = []
    at, below = [], []
    pointer = len(known.places) - 1
    for j in edges:
        if known.counts[j] < needed:
            continue
        pointer = min(pointer, j)
        bracket = _cap_bracket(known, j, pointer, cap) if is_capped else -1
        pointer = bracket + 1 if is_capped else pointer
        if bracket + 1 >= j:  # everybody between lies in one bucket
            continue
        at.append(j)
        below.append(bracket)
        rows.append(_bounds(known, j, bracket, rules))
    if not rows:
        raise TooClose
    columns = np.array(rows).T
    s, E, D, norm = (columns[2 * k : 2 * k + 2] for k in range(4))
    low = np.array(below, dtype=np.int64)
    return Path(
        at=np.array(at, dtype=np.int64),
        cap_low=low,
        cap_high=np.where(low >= 0, low + 1, -1),
        s=s,
        E=E,
        D=D,
        norm=norm,
        value=_values(E, D, norm, rules.rho),
    )


def _cap_bracket(known: Prefixes, j: int, start: int, cap: Fraction) -> int:
    """Return the edge below which the cap holds for certain, with the next one above it; -1: nobody is there.

    That is the last edge x at which those below r, held down to ``c = r - x``, have less than ``c/cap``. What
    they have is concave in c, and nothing at 0: so it is at every edge below that one, too. The cap's edge
    only falls along the path, so that the search goes down from the last one's, in steps that double.
    """
    r, count, total = known.places[j], known.counts[j], known.sums[j]

    def holds(k: int) -> bool:
        c, below = r - known.places[k], known.counts[k]
        given = (count - below) * r - (total - known.sums[k])
        return (given + below * c) * cap.numerator < c * cap.denominator

    step, high, low = 1, start + 1, start
    while low >= 0 and not holds(low):
        high, low, step = low, max(low - step, 0) if low > 0 else -1, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _bounds(known: Prefixes, j: int, bracket: int, rules: Rules) -> tuple[float, ...]:
    """Return lower and upper bounds on s, E, D and the norm, with the cutoff at edge ``j``."""
    if bracket < 0:
        s, E, cost = _sums_at(known, j, 0)
        return (s, s, E, E, cost, cost, math.sqrt(E) / s, math.sqrt(E) / s)
    if known.counts[bracket] == known.counts[bracket + 1]:
        s, E, cost = _exactly_at(known, j, bracket, Fraction(rules.cap))
        return (s, s, E, E, cost, cost, math.sqrt(E) / s, math.sqrt(E) / s)
    at_high, at_low = _sums_at(known, j, bracket), _sums_at(known, j, bracket + 1)
    unit = known.unit
    most = as_float(known.places[j] - known.places[bracket], unit) / rules.cap
    least = as_float(known.places[j] - known.places[bracket + 1], unit) / rules.cap
    return (
        max(at_low[0], least),
        min(at_high[0], most),
        at_low[1],
        at_high[1],
        at_high[2],
        at_low[2],
        math.sqrt(at_low[1]) / at_low[0],
        math.sqrt(at_high[1]) / at_high[0],
    )


def _sums_at(known: Prefixes, j: int, k: int) -> tuple[float, float, float]:
    """Return sum and square of y, and the mean cost, for the cutoff at edge j and the cap's at edge k."""
    r, x, unit = known.places[j], known.places[k], known.unit
    n, S = known.counts[j] - known.counts[k], known.sums[j] - known.sums[k]
    Q = known.squares[j] - known.squares[k]
    c = r - x
    total = n * r - S + known.counts[k] * c
    square = n * r * r - 2 * r * S + Q + known.counts[k] * c * c
    cost = r * S - Q + c * known.sums[k]
    mean = cost / (total << -unit) if unit < 0 else (cost << unit) / total
    return as_float(total, unit), as_float(square, 2 * unit), mean


def _exactly_at(known: Prefixes, j: int, k: int, cap: Fraction) -> tuple[float, float, float]:
    """Return the same where the cap's edge lies in a gap: all below it are at the cap, all others not."""
    unit = Fraction(2) ** known.unit
    r, S_c, N = known.places[j] * unit, known.sums[k] * unit, known.counts[k]
    n, S = known.counts[j] - N, known.sums[j] * unit - S_c
    Q = (known.squares[j] - known.squares[k]) * unit * unit
    s = (n * r - S) / (1 - cap * N)
    c = cap * s
    return float(s), float(n * r * r - 2 * r * S + Q + N * c * c), float((r * S - Q + c * S_c) / s)


def _values(E: FloatArray, D: FloatArray, norm: FloatArray, rho: float) -> FloatArray:
    """Return bounds on the objective / concentration at the points."""
    t = np.maximum(np.sqrt(E), 1e-300)  # costs of almost 0 have no square
    best = np.clip(np.sqrt(D[0] / rho), t[0], t[1])
    low = norm[0] + rho * best + D[0] / best
    ends = [rho * end + D[1] / end for end in t]
    return np.stack([low * (1.0 - _SLACK), (norm[1] + np.maximum(*ends)) * (1.0 + _SLACK)])


def least_between(path: Path, rho: float, cheapest: float, mean: float) -> FloatArray:
    """Return lower bounds on the objective before the first point, between the points, and after the last.

    Shape (points + 1,). ``cheapest`` is at most the least virtual cost, ``mean`` at least the mean of all.
    """
    t = np.sqrt(path.E)
    lower = path.value[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        # From a point upwards: the slope is at least rho - D/t^2 with the next point's D.
        dear = np.append(path.D[1][1:], max(mean, float(path.D[1][-1])))
        ends = np.append(t[1][1:], np.inf)
        turn = np.clip(np.sqrt(dear / rho), t[0], np.maximum(ends, t[0]))
        rises = lower + (rho * turn + dear / turn) - (rho * t[0] + dear / t[0])
        # From a point downwards: it is at most rho - D/t^2 with the point before's D.
        cheap = np.append(min(cheapest, float(path.D[0][0])), path.D[0][:-1])
        starts = np.append(0.0, t[0][:-1])
        turn = np.clip(np.sqrt(cheap / rho), starts, t[1])
        left = np.where(turn > 0.0, rho * turn + cheap / turn, 0.0)
        falls = lower - np.maximum((rho * t[1] + cheap / t[1]) - left, 0.0)
    found = np.append(-np.inf, rises)
    found[:-1] = np.maximum(found[:-1], falls)
    least: FloatArray = found - _SLACK * np.abs(np.append(lower, lower[-1]))
    return least


@dataclass(frozen=True, eq=False)
class Leaving:
    """What leaving of any one seller can do, at each point.

    Attributes
    ----------
    most
        The most that one seller's y is.
    shift
        By how much the cutoff rises at the most.
    width
        The new cutoff less the least cost, at the most.
    other
        The most that another one's y is then.
    """

    most: FloatArray
    shift: FloatArray
    width: FloatArray
    other: FloatArray


def leaving(known: Prefixes, path: Path, rules: Rules) -> Leaving:
    """Return bounds on what leaving of one seller does, infinite where there is none.

    What the seller had goes to those between, none of whom gets more than an equal share of it as long as
    nobody among whom it is divided comes to the cap by that.
    """
    r = known.edges[path.at]
    cheapest = float(known.edges[0])
    most = np.minimum(r - cheapest, rules.cap * path.s[1])
    shift = np.full(r.size, np.inf)
    counts = np.array(known.counts, dtype=np.float64)
    for step in _STEPS:
        start = np.maximum(path.cap_high, 0) + np.where(path.cap_high >= 0, step, 0)
        inside = start < path.at
        start = np.minimum(start, path.at)
        with np.errstate(divide="ignore"):
            # One fewer than there are: the one who leaves may be among them.
            share = most / np.maximum(counts[path.at] - counts[start] - 1.0, 0.0)
        room = np.where(path.cap_high >= 0, known.edges[start] - (r - rules.cap * path.s[0]), np.inf)
        fits = inside & (share <= room)
        shift = np.where(fits, np.minimum(shift, share), shift)
        if not inside.any():
            break
    width = r + shift - cheapest
    return Leaving(most, shift, width, np.minimum(width, rules.cap * path.s[1]))
