"""Find the sellers next to where a weight cap begins, whose premium is no smooth function of their cost.

While such a seller's report moves, so does the cap's edge, over the places of sellers around it, of whom they
are one themselves. A table of premiums, made from costs that nobody need have, does not know that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.payments.kernels.alone import Alone, moves
from dpmarket.payments.kernels.moves import CAPPED, INTERIOR, OUT, Mover
from dpmarket.payments.kernels.resolve import resolve

Zone = tuple[float, float]
NOWHERE: Zone = (np.inf, -np.inf)
"""The zone where nobody is at a cap: nothing lies in it."""
_BEYOND = 4.0
_RING = 8.0
_ASKED = 64


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


def widened(zone: Zone, virtual: FloatArray, is_good: Callable[[IntArray], bool]) -> Zone:
    """Return a zone outside of which a table holds for those who were asked: the nearest, and some around.

    Parameters
    ----------
    zone
        To begin with.
    virtual
        Of sellers.
    is_good
        Tells of some of them, by their places, whether the table holds for all.
    """
    while zone[0] <= zone[1]:
        low, high = zone
        width = _RING * max(high - low, 1e-12 * abs(high))
        ring = np.flatnonzero(inside(virtual, (low - width, high + width)) & ~inside(virtual, zone))
        away = np.maximum(low - virtual[ring], virtual[ring] - high)
        order = ring[np.argsort(away, kind="stable")]
        spread = np.linspace(0, max(ring.size - 1, 0), _ASKED // 2).astype(np.int64)
        asked = np.unique(np.concatenate((order[: _ASKED // 2], order[spread[: ring.size]])))
        if asked.size == 0 or is_good(asked):
            break
        zone = low - width, high + width
    return zone
