"""Find the sellers next to where a weight cap begins, whose premium is no smooth function of their cost.

While such a seller's report moves, so does the cap's edge, over the places of sellers around it, of whom they
are one themselves. A table of premiums, made from costs that nobody need have, does not know that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.costs import CostDistribution, largest_cost_at
from dpmarket.payments.kernels.alone import Alone, moves
from dpmarket.payments.kernels.moves import CAPPED, INTERIOR, OUT, Anchor, Mover
from dpmarket.payments.kernels.resolve import resolve

Zone = tuple[float, float]
NOWHERE: Zone = (np.inf, -np.inf)
"""The zone where nobody is at a cap: nothing lies in it."""
_BEYOND = 4.0
_RING = 8.0
_ASKED = 16  # on either side, nearest and spread


def cap_zone(case: Alone) -> Zone | None:
    """Return virtual costs between which the cap begins to hold in problems with one report moved.

    Nobody knows how far the edge moves between the reports that are looked at here: :func:`widened` asks
    sellers around. None: not known.
    """
    problem, anchor = case
    if not anchor.capped:
        return NOWHERE
    edges: list[float] = []
    for own in (anchor.last_capped - anchor.reference, float(problem.psi[anchor.capped]) - anchor.reference):
        kind = CAPPED if not edges else INTERIOR
        movers = [Mover(own, own), Mover(own, 0.5 * own), Mover(own, 0.0), Mover(own, np.inf)]
        for mover, state in zip(movers, (kind, INTERIOR, INTERIOR, OUT), strict=True):
            found = resolve(problem, anchor, mover, state, moves(problem))
            if not found.settled:
                return None
            edges.append(found.r - problem.rules.cap * found.s + anchor.reference)
    low, high = min(edges), max(edges)
    return low - _BEYOND * (high - low), high + _BEYOND * (high - low)


def inside(virtual: FloatArray, zone: Zone) -> BoolArray:
    """Tell which virtual costs lie in a zone."""
    there: BoolArray = (zone[0] <= virtual) & (virtual <= zone[1])
    return there


def cap_walls(anchor: Anchor, edge: float, dist: CostDistribution) -> list[float]:
    """Return the costs at which premiums jump next to a cap; none where nobody is at it.

    One is where the cap begins to hold, at the virtual cost ``edge``. The other is above the dearest seller
    at the cap: who would cost more, and less than the edge, is none of those at the cap.
    """
    if not anchor.capped:
        return []
    dearest = float(largest_cost_at(anchor.last_capped, dist))
    return [float(np.nextafter(dearest, np.inf)), float(largest_cost_at(edge, dist))]


def widened(
    zone: Zone, virtual: FloatArray, ordered: FloatArray, missed: Callable[[IntArray], float], most: float
) -> tuple[Zone, float]:
    """Return a zone outside of which a table holds for those who were asked, and what it misses for them.

    Asked are, on either side, the nearest sellers, however far they are, and some around.

    Parameters
    ----------
    zone
        To begin with.
    virtual, ordered
        Virtual costs of sellers, and all there are in increasing order.
    missed
        Tells of some of the sellers, by their places, what the table misses at most.
    most
        What it may miss.
    """
    worst = 0.0
    while ordered.size and zone[0] <= zone[1]:
        low, high = zone
        width = _RING * max(high - low, 1e-12 * abs(high))
        first, end = np.searchsorted(ordered, low), np.searchsorted(ordered, high, side="right")
        reach = (
            min(low - width, float(ordered[max(int(first) - _ASKED, 0)])),
            max(high + width, float(ordered[min(int(end) + _ASKED, ordered.size) - 1])),
        )
        misses = []
        for there in ((reach[0] <= virtual) & (virtual < low), (high < virtual) & (virtual <= reach[1])):
            asked = _nearest_and_spread(virtual, np.flatnonzero(there), 0.5 * (low + high))
            misses.append(missed(asked) if asked.size else 0.0)
        worst = max(misses)
        is_good = [miss <= most for miss in misses]
        if all(is_good):
            break
        zone = low if is_good[0] else reach[0], high if is_good[1] else reach[1]
    return zone, worst


def _nearest_and_spread(virtual: FloatArray, rows: IntArray, middle: float) -> IntArray:
    """Return some of the rows: those nearest to a place, and as many from all of them."""
    order = rows[np.argsort(np.abs(virtual[rows] - middle), kind="stable")]
    spread = np.linspace(0, max(rows.size - 1, 0), _ASKED).astype(np.int64)
    return np.unique(np.concatenate((order[:_ASKED], order[spread[: rows.size]])))
