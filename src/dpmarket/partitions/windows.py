"""Choose the windows of sellers that decide, and solve the allocation exactly from them.

A window is a range of virtual costs. Around the cutoff and around the cost at which the cap begins to hold
single sellers count; of all others only how many they are, and the sums over them, which are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.allocation.kernels import segments
from dpmarket.allocation.kernels.walk import Members, Rules
from dpmarket.allocation.settings import PathSettings
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import Infeasible
from dpmarket.partitions import kernels
from dpmarket.partitions.path import (
    Leaving,
    Path,
    Prefixes,
    TooClose,
    least_between,
    leaving,
    path_at_edges,
)
from dpmarket.partitions.sums import BucketSums, as_float

Piece = tuple[int, FloatArray]
"""Sorted costs, and at which place among all of them they begin."""
# Buckets beyond those that bounds ask for, on either side: a re-solve may overshoot on its way.
_MARGIN = 4
# Of many edges one in so many is looked at first; then how many more, on either side of the best.
_SPARSE = 32
_AROUND = 96


@dataclass(frozen=True)
class Windows:
    """Numbers of edges: where the window of the cutoff and that of the cap begin and end.

    Attributes
    ----------
    low, high
        Of the cutoff.
    cap_low, cap_high
        Of the cap; equal where nobody is at the cap.
    start
        Where the walk begins: a cutoff for which the path is known.
    until
        The spread up to which they hold everybody who counts.
    """

    low: int
    high: int
    cap_low: int
    cap_high: int
    start: int
    until: float


@dataclass(frozen=True, eq=False)
class Gathered:
    """Sellers within windows, equal virtual costs together.

    Attributes
    ----------
    psi, counts
        Virtual costs, increasing, and how many have each.
    dearest
        The largest cost that has it.
    """

    psi: FloatArray
    counts: IntArray
    dearest: FloatArray


@dataclass(frozen=True, eq=False)
class Solved:
    """The best allocation.

    Attributes
    ----------
    psi
        Sorted virtual costs, of which only those within the windows are there.
    pieces
        Where these begin, and they themselves.
    row
        Of the table of minima (:mod:`dpmarket.allocation.kernels.segments`).
    sums
        Exactly: the sums over those at the cap, over those between, and the squares of those between.
    """

    psi: FloatArray
    pieces: tuple[Piece, ...]
    row: FloatArray
    sums: tuple[Fraction, Fraction, Fraction]


def choose_windows(known: Prefixes, rules: Rules, mean: float) -> Windows:
    """Return the windows that hold the best allocation, and every one with another report of one seller.

    Raises
    ------
    TooClose
        There may be several best allocations, or payments around the best need more than windows.
    """
    everywhere = range(known.edges.size)
    few = everywhere[::_SPARSE]
    if len(few) < _SPARSE:
        return _windows_at(known, rules, mean, everywhere)
    try:
        # Bounds hold whichever edges are looked at: first some, then all around where the best can lie.
        path = path_at_edges(known, rules, few)
        low, high = _best_between(known, path, leaving(known, path, rules), rules, mean)
        start, end = int(path.at[low]), int(path.at[min(high, path.at.size - 1)])
        close = everywhere[max(start - _AROUND, 0) : end + _AROUND]
        return _windows_at(known, rules, mean, sorted({*few, *close}))
    except TooClose:
        return _windows_at(known, rules, mean, everywhere)


def _best_between(known: Prefixes, path: Path, left: Leaving, rules: Rules, mean: float) -> tuple[int, int]:
    """Return the points between which the best allocation lies, also with another report of one seller.

    The second may be one more than there are.
    """
    least = rules.least_rate * rules.least_rate
    feasible = path.E[0] >= least
    worth = np.where(feasible, _value_without(path, left, rules), np.inf)
    if not np.isfinite(worth.min()):
        raise TooClose
    threshold = float(worth.min())
    lower = least_between(path, rules.rho, float(known.edges[0]), mean)
    reached = np.append(path.E[1], np.inf) + 2.0 * _append(left.most * left.other) >= least
    run = np.flatnonzero((lower <= threshold) & reached)
    first, last = int(run[0]), int(run[-1])
    if last - first + 1 > run.size or first == 0:
        raise TooClose
    # Interval k lies between the points k - 1 and k.
    return first - 1, last


def _windows_at(known: Prefixes, rules: Rules, mean: float, edges: Iterable[int]) -> Windows:
    """Return the windows that looking at some edges tells."""
    path = path_at_edges(known, rules, edges)
    left = leaving(known, path, rules)
    low, high = _best_between(known, path, left, rules, mean)
    points = path.at.size
    # At equal t a moved problem has another spread.
    lowest = path.E[0][low] - 2.0 * left.most[low] * left.other[low]
    while low > 0 and path.E[1][low] > lowest:
        low -= 1
    if path.E[1][low] > lowest:
        raise TooClose
    if high < points:
        highest = path.E[1][high] + left.most[high] ** 2
        while high < points and path.E[0][high] < highest:
            high += 1
    _refuse_doubt(known, path, left, rules, (low, min(high, points - 1)))
    return _around(known, path, left, (low, high))


def _append(values: FloatArray) -> FloatArray:
    return np.append(values, values[-1])


def _value_without(path: Path, left: Leaving, rules: Rules) -> FloatArray:
    """Return upper bounds on the least objective when any one seller has left."""
    E = path.E[1]
    with np.errstate(invalid="ignore", over="ignore"):
        more = E + 2.0 * left.most * left.other
        cost = path.D[1] + left.most * left.width / path.s[0]
        t = np.sqrt(np.maximum(E, rules.least_rate * rules.least_rate))
        value = path.norm[1] * np.sqrt(more / E) + rules.rho * t + cost / t
    return np.where(np.isfinite(value), value * (1.0 + 1e-9), np.inf)


def _refuse_doubt(known: Prefixes, path: Path, left: Leaving, rules: Rules, ends: tuple[int, int]) -> None:
    """Refuse where a moved problem may have two stationary points between two points of the path.

    The inequality is that of :mod:`dpmarket.payments.uniqueness`.
    """
    low, high = ends
    if not np.isfinite(left.shift[low : high + 1]).all():
        raise TooClose
    for k in range(low, max(high, low + 1)):
        end = min(k + 1, high)
        most, width = float(left.most[end]), float(left.width[end])
        bottom = max(int(path.cap_low[end]), 0)
        top = _edge_above(known, float(known.edges[path.at[end]] + left.shift[end]))
        reach = rules.cap * float(path.s[1][end]) + float(left.shift[end])
        V = _deviations(known, bottom, top) + min(width, reach) ** 2
        s, E = float(path.s[0][k]), float(path.E[0][k]) - most**2
        D = float(path.D[0][k]) - most * width / s
        if not (D > 0.0 and E > V and 2.0 * (E - V) * D * s > E * V * (1.0 + 1e-9)):
            raise TooClose


def _deviations(known: Prefixes, bottom: int, top: int) -> float:
    n = known.counts[top] - known.counts[bottom]
    S, Q = known.sums[top] - known.sums[bottom], known.squares[top] - known.squares[bottom]
    return as_float(Q - S * S // n, 2 * known.unit) if n else 0.0


def _edge_above(known: Prefixes, cost: float) -> int:
    return min(int(np.searchsorted(known.edges, cost)), known.edges.size - 1)


def _around(known: Prefixes, path: Path, left: Leaving, ends: tuple[int, int]) -> Windows:
    """Return windows a little wider than between two points, as far as a moved problem's cutoff can go."""
    points, last = path.at.size, known.edges.size - 1
    point = _point_before(known, path, ends[0])
    start, end, until = int(path.at[point]), last, np.inf
    low = _beyond(known, start, -1, _MARGIN)
    if ends[1] < points:
        until = float(path.s[1][ends[1]])
        end = _edge_above(known, float(known.edges[path.at[ends[1]]] + 4.0 * left.shift[ends[1]]))
        end = _beyond(known, end, 1, _MARGIN)
    if path.cap_high[point] < 0:
        return Windows(low, end, 0, 0, start, until)
    high = min(ends[1], points - 1)
    rise = float(known.edges[path.cap_high[point]] + 4.0 * left.shift[ends[0]])
    cap_high = _beyond(known, _edge_above(known, rise), 1, _MARGIN)
    cap_low = _beyond(known, max(int(path.cap_low[high]), 0), -1, _MARGIN)
    return Windows(low, end, min(cap_low, low), min(cap_high, low), start, until)


def _point_before(known: Prefixes, path: Path, point: int) -> int:
    """Return a point of the path a few buckets that hold anything before another, as far as there is one."""
    start = _beyond(known, int(path.at[point]), -1, _MARGIN)
    return max(int(np.searchsorted(path.at, start, side="right")) - 1, 0)


def _beyond(known: Prefixes, edge: int, step: int, margin: int) -> int:
    """Return an edge so many buckets that hold anything farther up or down, or the last one there is."""
    for _ in range(margin):
        count = known.counts[edge]
        while 0 <= edge + step < known.edges.size and known.counts[edge] == count:
            edge += step
    return edge


def solve(
    known: Prefixes, windows: Windows, gathered: Gathered, rules: Rules, finite: int, zeros: int
) -> Solved:
    """Return the best allocation from the sellers within the windows; ``zeros``: how many cost nothing.

    Raises
    ------
    Infeasible
        The cheapest sellers cost nothing, and more epsilon is always better.
    TooClose
        The windows do not hold it.
    """
    psi = _placed(known, windows, gathered, finite)
    whole = _Sums(known, windows, psi)
    members, s = _members_at(whole, rules)
    count = known.counts[windows.high]
    most = finite if count == finite else count + 1
    where = (s, windows.until, most, known.counts[windows.cap_low])
    table, stayed = kernels.walk_windows(psi, finite, rules, members, where)
    if not stayed or len(table) == 0:
        raise TooClose
    row = table[int(segments.best_row(table))]
    needed = rules.first_capped + (rules.first_rest > 0.0)
    if zeros >= needed and rules.least_rate <= 0.0 and row[segments.VALUE] > 1.0 / math.sqrt(zeros):
        raise Infeasible(
            "expected virtual costs under which a best total promise exists, found that the cheapest sellers "
            "cost nothing, so that more epsilon is always better: set max_mean_epsilon."
        )
    capped, bought = int(row[segments.CAPPED]), int(row[segments.BOUGHT])
    (S_c, _), (S_l, Q_l), (_, Q_n) = whole.below(capped), whole.below(bought), whole.below(capped)
    ends = [(known.counts[windows.cap_low], known.counts[windows.cap_high])]
    ends.append((known.counts[windows.low], count))
    pieces = tuple((low, psi[low:high].copy()) for low, high in ends if low < high)
    return Solved(psi[:count], pieces, row, (S_c, S_l - S_c, Q_l - Q_n))


def _placed(known: Prefixes, windows: Windows, gathered: Gathered, finite: int) -> FloatArray:
    """Return sorted costs with those of the windows at their places, see :func:`at_places`.

    After the last comes the cost at which its window ends, unless that is everybody.
    """
    count = known.counts[windows.high]
    pieces = []
    for low, high in ((windows.cap_low, windows.cap_high), (windows.low, windows.high)):
        inside = (gathered.psi >= known.edges[low]) & (gathered.psi < known.edges[high])
        there = np.repeat(gathered.psi[inside], gathered.counts[inside])
        if there.size != known.counts[high] - known.counts[low]:
            raise TooClose
        if there.size:
            pieces.append((known.counts[low], there))
    if known.counts[windows.low] == count:
        raise TooClose
    if count < finite:
        start, there = pieces.pop()
        pieces.append((start, np.append(there, known.edges[windows.high])))
    return at_places(pieces, float(known.edges[0]))


def at_places(pieces: Sequence[Piece], least: float) -> FloatArray:
    """Return sorted costs of which only those in some pieces are known, at their places.

    Parameters
    ----------
    pieces
        Where each begins, and the costs in it; one after the other. None is empty.
    least
        At most the cheapest cost, and below those in pieces that do not begin with it.

    Returns
    -------
    FloatArray
        Up to the end of the last piece. Memory of those who are not known is never touched, and holds zeros,
        but at the places where a search by halving for a cost within a piece looks: there stands a cost
        between those of the pieces, so that the search ends where it would if all were known.

    Raises
    ------
    TooClose
        Sellers who cost nothing, before others who are not known: a zero would be taken for one of them.
    """
    starts = [start for start, _ in pieces]
    ends = [start + values.size for start, values in pieces]
    psi = np.zeros(ends[-1])
    gaps, before = [], (0, least)
    for (start, values), end in zip(pieces, ends, strict=True):
        psi[start:end] = values
        if start > before[0]:
            if values[0] == 0.0 or (before[0] and before[1] == 0.0):
                raise TooClose
            gaps.append((before[0], start, 0.5 * (before[1] + values[0]) if before[0] else least))
        before = end, float(values[-1])
    for aim in {0, *starts, *ends}:
        for place in _looked_at(aim, psi.size):
            for low, high, between in gaps:
                if low <= place < high:
                    psi[place] = between
    return psi


def _looked_at(aim: int, size: int) -> Iterator[int]:
    """Give the places at which halving looks that ends at one of them."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        yield middle
        if middle < aim:
            low = middle + 1
        else:
            high = middle


@dataclass(frozen=True, eq=False)
class _Sums:
    """Exact sums over the cheapest sellers, as many as reach into a window."""

    known: Prefixes
    windows: Windows
    psi: FloatArray

    def below(self, count: int) -> tuple[Fraction, Fraction]:
        """Return the sum and the sum of squares of the ``count`` cheapest."""
        known, windows = self.known, self.windows
        edge = windows.low if count >= known.counts[windows.low] else windows.cap_low
        total, square = known.sums[edge], known.squares[edge]
        part = self.psi[known.counts[edge] : count]
        unit = known.unit
        if part.size:
            first, second = BucketSums.of(part).moments(unit)
            total, square = total + sum(first), square + sum(second)
        scale = Fraction(2) ** unit
        return total * scale, square * scale * scale


def _members_at(whole: _Sums, rules: Rules) -> tuple[Members, float]:
    """Return who is where with the cutoff at the low end of its window, and the spread there."""
    known, windows, psi = whole.known, whole.windows, whole.psi
    bought = known.counts[windows.start]
    if bought <= known.counts[windows.low]:
        raise TooClose
    cutoff = Fraction(float(known.edges[windows.start]))
    dearest = Fraction(float(psi[bought - 1]))
    S_l, Q_l = whole.below(bought)
    capped = _capped_at(whole, rules, bought, cutoff)
    S_c, Q_c = whole.below(capped)
    n, S, Q = bought - capped, S_l - S_c, Q_l - Q_c
    rest = rules.first_rest + (rules.first_capped - capped) * rules.cap
    if n <= 0 or rest <= 0.0:
        raise TooClose
    first = Fraction(float(psi[capped])) if capped else Fraction(0)
    pairs = [
        _pair(value) for value in (n * dearest - S, S - n * first if capped else 0, Q - S * S / n, S, S_c)
    ]
    above, below, V, S_pair, S_c_pair = pairs
    on_plateau = rules.first_rest == 0.0
    members = Members(
        N=capped,
        l=bought,
        n=n,
        dearest=float(dearest),
        entries=bought - rules.first_capped - (not on_plateau),
        rest=rest,
        per_rest=1.0 / rest,
        per_n=1.0 / n,
        first_room=0.0 if on_plateau else rules.cap - rules.first_rest,
        above=above[0],
        above_low=above[1],
        below=below[0],
        below_low=below[1],
        V=V[0],
        V_low=V[1],
        S=S_pair[0],
        S_low=S_pair[1],
        S_c=S_c_pair[0],
        S_c_low=S_c_pair[1],
    )
    return members, float((n * cutoff - S) / Fraction(rest))


def _capped_at(whole: _Sums, rules: Rules, bought: int, cutoff: Fraction) -> int:
    """Return how many are at the cap when the cutoff is this: the first who is not, by halving."""
    known, windows, psi = whole.known, whole.windows, whole.psi
    if not rules.first_capped:
        return 0
    S_l, _ = whole.below(bought)
    cap = Fraction(rules.cap)
    low, high = known.counts[windows.cap_low], known.counts[windows.cap_high]
    if windows.cap_high == windows.low:  # one window
        high = bought
    while low < high:
        middle = (low + high) // 2
        # Whether this one would have more than the cap if all cheaper ones had it.
        own = cutoff - Fraction(float(psi[middle]))
        total = middle * own + (bought - middle) * cutoff - (S_l - whole.below(middle)[0])
        if cap * total < own:
            low = middle + 1
        else:
            high = middle
    return low


def _pair(value: Fraction | int) -> tuple[float, float]:
    high = float(value)
    return high, float(value - Fraction(high))


def rule_of(
    solved: Solved, settings: PathSettings, objective: BuyerObjective, bound: float
) -> tuple[float, ...]:
    """Return what :func:`dpmarket.partitions.kernels.write_promises` asks for."""
    row = solved.row
    total = settings.max_total_promise
    if not row[segments.AT_BOUND] > 0.0:
        total = min(settings.epsilon_rate / float(row[segments.RATE]), total)
    base, gap, spread = (float(row[k]) for k in (segments.BASE, segments.GAP, segments.SPREAD))
    return base, gap, spread, settings.max_weight, total, bound
