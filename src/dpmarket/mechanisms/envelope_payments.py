r"""Myerson payments by the envelope theorem, for all sellers of an exact market at once.

The least objective J is, as a function of one seller's virtual cost, a minimum of linear functions with slope
:math:`\gamma H_i`. Over a piece of the virtual cost table with slope :math:`\kappa` the information rent is
therefore exactly

.. math:: \int_c^{c'} H_i\, dz = \frac{J(\psi') - J(\psi)}{\gamma \kappa},

and on a flat piece H times its width. A payment is :math:`c_i H_i` plus the rents of all pieces from the
report up to the reserve price.

J differs by O(1/m) between the two ends of a piece, so increases are computed directly and two values of J are
never subtracted. At a fixed entry of the menu duality gives the increase of the inner value K,

.. math:: \Delta K = \max_{t \ge 0} W(\psi_i, \rho + t) - W(\psi', \rho + t)
          - 2 u \int_0^t \left(S(\rho + s) - \pi\right) ds,

:math:`\rho` the group's level, S the supply of weight by everybody (with seller i as reported) and W the
squared hinges of :mod:`~dpmarket.mechanisms.water_filling`. The integral is over the sellers who start or
finish a chord just above the level, the same few for everybody: :class:`Replacement` tabulates them once. The
maximum is where the others make up for what seller i gives up; errors of t are of second order.

One seller's move can make another entry of the menu best. Entries qualify only if their gap to the best one
is at most the largest possible increase, that of the lowest seller at the reserve price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.mechanisms.water_filling import (
    Entry,
    Market,
    Move,
    Ramps,
    Stratum,
    balance,
    find_levels,
    inner_values,
    supply,
)

_ELEMENTS = 1 << 15  # pairs of seller and knot, times entries and chords, that are worked on at a time
_BALANCED = 1e-13  # relative to the seller's own weight
_MARGIN = 1e-6  # relative, of the largest possible increase


@dataclass(frozen=True, eq=False)
class Purchase:
    """What some sellers give and get.

    Attributes
    ----------
    weights, shares, amounts
        Weight a, share q of the total and H(q) of each, shape (n,).
    payments
        Money, before rounding to minor units.
    """

    weights: FloatArray
    shares: FloatArray
    amounts: FloatArray
    payments: FloatArray


@dataclass(frozen=True, eq=False)
class Replacement:
    """How supply grows above the level of a stratum at several entries, everybody's reports as they are.

    Attributes
    ----------
    reach
        How far above the level each entry is tabulated, shape (E,).
    keys
        Entry plus distance above its level divided by its reach, rising; the other arrays go with it.
    distances, supplies, integrals, slopes
        Distance above the level, supply beyond the quota, its integral, and its slope from there on.
    """

    reach: FloatArray
    keys: FloatArray
    distances: FloatArray
    supplies: FloatArray
    integrals: FloatArray
    slopes: FloatArray

    @classmethod
    def of(cls, stratum: Stratum, ramps: Ramps, levels: FloatArray, tops: FloatArray) -> Replacement:
        """Tabulate supply from each entry's level up to its top."""
        first, last, starts, signs = [], [], [], []
        for sign, places in ((1.0, ramps.starts), (-1.0, ramps.ends)):
            begin = (levels[:, None] - places) / ramps.steepness
            end = (tops[:, None] - places) / ramps.steepness
            first.append(np.searchsorted(stratum.excess, begin, side="right"))
            last.append(np.searchsorted(stratum.excess, end, side="right"))
            starts.append(places - levels[:, None])
            signs.append(np.full(ramps.starts.shape, sign))
        begin_at, counts = np.hstack(first).ravel(), (np.hstack(last) - np.hstack(first)).ravel()
        # One event for each seller who starts or finishes a chord, and one for the level itself.
        of_row = np.repeat(np.arange(counts.size), counts)
        seller = np.arange(of_row.size) - np.repeat(np.cumsum(counts) - counts, counts) + begin_at[of_row]
        chords = 2 * ramps.steepness.size
        slope = np.tile(ramps.steepness, 2)[of_row % chords]
        distance = np.hstack(starts).ravel()[of_row] + slope * stratum.excess[seller]
        change = np.hstack(signs).ravel()[of_row] * np.diff(stratum.counts)[seller]

        n = levels.size
        entry = np.concatenate((np.arange(n), of_row // chords))
        distance = np.concatenate((np.zeros(n), np.maximum(distance, 0.0)))
        active = supply(stratum, ramps, levels)[1] / ramps.pull
        change = np.concatenate((active, change))
        order = np.lexsort((np.arange(entry.size) >= n, distance, entry))
        entry, distance, change = entry[order], distance[order], change[order]
        heads = np.searchsorted(entry, np.arange(n))
        slopes = _restarted(np.cumsum(change), change, heads, entry) * ramps.pull[entry]
        steps = np.diff(distance, prepend=0.0)
        steps[heads] = 0.0
        supplied = np.roll(slopes, 1) * steps
        supplies = _restarted(np.cumsum(supplied), supplied, heads, entry)
        area = (supplies - 0.5 * supplied) * steps
        integrals = _restarted(np.cumsum(area), area, heads, entry)
        reach = np.maximum(tops - levels, 1e-300)
        return cls(reach, entry + np.minimum(distance / reach[entry], 1.0), distance, supplies, integrals, slopes)

    def piece(self, entry: IntArray, distance: FloatArray) -> IntArray:
        """Return the tabulated piece of each distance above an entry's level."""
        if self.reach.size == 1:
            return np.searchsorted(self.distances, distance, side="right") - 1
        key = entry + np.minimum(distance / self.reach[entry], 1.0)
        return np.searchsorted(self.keys, key, side="right") - 1


def _restarted(running: FloatArray, values: FloatArray, heads: IntArray, entry: IntArray) -> FloatArray:
    """Let running sums start anew at each entry's head."""
    found: FloatArray = running - (running[heads] - values[heads])[entry]
    return found


def largest_increase(market: Market, tables: Sequence[VirtualCost]) -> float:
    """Return at least as much as any one seller can raise the least objective by another report."""
    best, most = market.best(), 0.0
    entries = np.array([best.entry])
    for k, (stratum, table) in enumerate(zip(market.strata, tables, strict=True)):
        ramps = market.ramps(stratum, entries)
        move = Move(0.0, float(table.values[-1]) - stratum.lowest)
        level = np.array([best.levels[k]])
        moved = find_levels(stratum, ramps, level, move)
        more = inner_values(stratum, ramps, moved, move) - inner_values(stratum, ramps, level)
        more = np.maximum(more, 0.0) * (1.0 + _MARGIN) + 1e-12 * best.inner
        rise = market.objective.increase(entries, np.array([best.inner]), more, market.most)
        most = max(most, float(rise[0]))
    return most


class Payer:
    """Pays sellers of one stratum in a solved market.

    Parameters
    ----------
    market
        With all its sellers.
    k
        Position of the stratum.
    table
        The stratum's virtual costs.
    near
        The entries that one seller's move can make best, the best one first.
    """

    def __init__(self, market: Market, k: int, table: VirtualCost, near: Sequence[Entry]) -> None:
        self.market, self.table, self.near = market, table, near
        self.stratum = stratum = market.strata[k]
        self.entries = np.array([entry.entry for entry in near])
        self.inner = np.array([entry.inner for entry in near])
        self.gaps = np.array([entry.value - near[0].value for entry in near])
        self.ramps = market.ramps(stratum, self.entries)
        self.levels = np.array([entry.levels[k] for entry in near])
        top = float(table.values[-1]) - stratum.lowest
        tops = np.maximum(find_levels(stratum, self.ramps, self.levels, Move(0.0, top)), self.levels)
        self.replacement = Replacement.of(stratum, self.ramps, self.levels, tops * (1.0 + 1e-12))
        # Beyond this virtual cost nobody's move leaves anything to buy.
        cutoff = float(tops.max()) / float(self.ramps.steepness[0]) + stratum.lowest
        above = np.searchsorted(table.values, cutoff * (1.0 + 1e-12), side="left")
        self.last_knot = min(int(above), table.knots.size - 1)
        self.total = market.total(near[0])

    def pay(self, costs: FloatArray) -> Purchase:
        """Return what sellers with these reports, all at most the reserve price, give and get."""
        reports = np.maximum(costs, self.table.knots[0])
        excess = np.asarray(self.table(reports)) - self.stratum.lowest
        best = self.ramps.at(np.zeros(1, dtype=np.int64)) if len(self.near) > 1 else self.ramps
        weights = best.weights(excess, self.levels[:1])
        shares = weights * self.total
        amounts = self.market.table.cost(shares)
        payments = reports * amounts
        bought = np.flatnonzero(weights > 0.0)
        piece = np.searchsorted(self.table.knots, reports[bought], side="right") - 1
        if self.last_knot > 1:
            order = np.argsort(piece.astype(np.int16), kind="stable")
            bought, piece = bought[order], piece[order]
        start = 0
        while start < bought.size:
            first = int(piece[start])
            each = max(self.last_knot - first, 1) * self.ramps.steepness.size * len(self.near)
            chosen = bought[start : start + max(_ELEMENTS // each, 1)]
            start += chosen.size
            if first < self.last_knot:
                payments[chosen] += self._rents(reports[chosen], excess[chosen], amounts[chosen], first)
        return Purchase(weights, shares, amounts, payments)

    def _rents(self, costs: FloatArray, excess: FloatArray, amounts: FloatArray, first: int) -> FloatArray:
        """Return the rents of sellers whose reports lie on piece ``first`` of the table or above."""
        pieces = slice(first, self.last_knot)
        knots, values = self.table.knots[1:][pieces, None], self.table.values[1:][pieces, None]
        slopes = self.table.slopes[pieces, None]
        raised = np.maximum(values - self.stratum.lowest, excess)
        rises, given = self._increases(excess, raised)
        rises = np.diff(rises, axis=0, prepend=0.0)
        widths = np.diff(np.maximum(knots, costs), axis=0, prepend=costs[None, :])
        before = np.vstack((amounts[None, :], given[:-1]))
        with np.errstate(divide="ignore", invalid="ignore"):
            rents = rises / (self.market.objective.payment_weight * slopes)
        # On a flat piece nothing changes; elsewhere what is given never rises from one end to the other.
        rents = np.where(slopes > 0.0, np.clip(rents, np.minimum(given, before) * widths, before * widths),
                         before * widths)  # fmt: skip
        return np.asarray(rents.sum(axis=0))

    def _increases(self, excess: FloatArray, raised: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how much J rises, and what is still given, when each seller's excess is raised to this."""
        shape = (len(self.near), *raised.shape)
        entry = np.repeat(np.arange(shape[0]), raised.size)
        own = np.broadcast_to(excess, shape).ravel()
        new = np.broadcast_to(raised, shape).ravel()
        more, weights = self._inner_increases(entry, own, new)
        rises = self.market.objective.increase(self.entries[entry], self.inner[entry], more, self.market.most)
        values = (rises + self.gaps[entry]).reshape(shape)
        best = np.argmin(values, axis=0)[None]
        inner = np.take_along_axis((self.inner[entry] + more).reshape(shape), best, axis=0)[0]
        weight = np.take_along_axis(weights.reshape(shape), best, axis=0)[0]
        totals = self.market.objective.total(self.entries[best[0]], inner, self.market.most)
        amounts = self.market.table.cost(weight * totals)
        return np.take_along_axis(values, best, axis=0)[0], np.asarray(amounts)

    def _inner_increases(self, entry: IntArray, own: FloatArray, new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how much K rises at an entry when a seller's excess rises, and the weight that remains."""
        ramps, table = self.ramps, self.replacement
        pull, widths = ramps.pull[entry], ramps.widths[entry].T
        gap = ((self.levels[:, None] - ramps.starts) * ramps.pull[:, None])[entry].T
        steep = ramps.steepness[:, None] * pull
        own_hinge, new_hinge = gap - steep * own, gap - steep * new
        held = np.clip(own_hinge, 0.0, widths).sum(axis=0)

        def missing(distance: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
            whole = rows.size == entry.size
            of, u = (entry, pull) if whole else (entry[rows], pull[rows])
            width = widths if whole else widths[:, rows]
            piece = table.piece(of, distance)
            lack = -(table.supplies[piece] + table.slopes[piece] * (distance - table.distances[piece]))
            slope = table.slopes[piece]
            lift = u * distance
            for sign, hinges in ((1.0, own_hinge), (-1.0, new_hinge)):
                ramp = (hinges if whole else hinges[:, rows]) + lift
                within = np.clip(ramp, 0.0, width)
                lack += sign * within.sum(axis=0)
                slope = slope - sign * u * ((ramp > 0.0) & (ramp < width)).sum(axis=0)
            return lack, slope

        distance = balance(missing, table.reach[entry], np.zeros(entry.size), _BALANCED * held)
        piece = table.piece(entry, distance)
        beyond = distance - table.distances[piece]
        area = table.integrals[piece] + (table.supplies[piece] + 0.5 * table.slopes[piece] * beyond) * beyond
        more = -2.0 * pull * area
        for sign, hinges in ((1.0, own_hinge), (-1.0, new_hinge)):
            ramp = hinges + pull * distance
            within = np.clip(ramp, 0.0, widths)
            more += sign * (within * (2.0 * ramp - within)).sum(axis=0)
        return np.maximum(more, 0.0), within.sum(axis=0)
