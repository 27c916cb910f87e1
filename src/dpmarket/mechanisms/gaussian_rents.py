r"""Turn minima of the buyer's objective at several costs into the integral of a promise over costs.

With J the minimum as a function of one seller's virtual cost, the promise is :math:`e = J' / \gamma`, and it
never rises. Between two costs, where :math:`\psi` is its chord of slope :math:`\kappa` plus a deviation d
that vanishes at both ends,

.. math:: \int e\, dz = \frac{1}{\kappa} \left[ \frac{\Delta J}{\gamma} + \int d\, de \right],

so that the integral over the costs is known from J alone but for :math:`|\int d\, de| \le \max |d|\, |\Delta
e|`. Uniform costs have no deviation, and one piece; for others the support is cut into many, and what is left
open is added to the payment: it errs towards the seller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs import CostDistribution, Uniform, virtual_costs
from dpmarket.payments.interpolation import tabulate_virtual_costs

_PIECES = 128
_INSIDE = np.linspace(0.0, 1.0, 17)[1:-1]
_ROOM = 1.5  # for what lies between the points at which the deviation is looked at

Minima = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]
"""J, and the promise, of sellers by their position, each at a virtual cost of its own."""


@dataclass(frozen=True, eq=False)
class CostPieces:
    """The support of costs, cut into pieces on which virtual costs are nearly straight.

    Attributes
    ----------
    edges, psi
        The costs at which pieces end, and their virtual costs, rising.
    deviations, means
        The largest deviation of psi from its chord on each piece, and the mean one.
    beyond
        From the last edge to the top, where virtual costs are infinite.
    """

    edges: FloatArray
    psi: FloatArray
    deviations: FloatArray
    means: FloatArray
    beyond: float = 0.0

    @classmethod
    def of(cls, dist: CostDistribution) -> CostPieces:
        """Cut the support of a distribution with an upper end."""
        low, high = dist.support
        if isinstance(dist, Uniform):
            edges = np.array([low, high])
            return cls(edges, np.asarray(virtual_costs(edges, dist)), np.zeros(1), np.zeros(1))
        smooth = tabulate_virtual_costs(dist, high).edges
        edges = np.unique(np.clip(np.concatenate([np.linspace(low, high, _PIECES + 1), smooth]), low, high))
        psi = np.asarray(virtual_costs(edges, dist))
        # Where nobody has the highest cost its virtual cost is infinite: pieces end just before it.
        edges, psi = edges[np.isfinite(psi)], psi[np.isfinite(psi)]
        inside = edges[:-1, None] + np.diff(edges)[:, None] * _INSIDE
        straight = psi[:-1, None] + np.diff(psi)[:, None] * _INSIDE
        off = np.asarray(virtual_costs(inside.ravel(), dist)).reshape(inside.shape) - straight
        beyond = high - float(edges[-1])
        return cls(edges, psi, _ROOM * np.abs(off).max(axis=1), off.mean(axis=1), beyond)

    def rents(
        self, who: IntArray, costs: FloatArray, own: FloatArray, gamma: float, minima: Minima
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the integral of each seller's promise from the own cost to the top, its error, the promise.

        Parameters
        ----------
        who, costs, own
            Sellers by position, with a cost within the support and its virtual cost for each.
        gamma
            The payment weight.
        minima
            J and promises.
        """
        costs, own = np.minimum(costs, self.edges[-1]), np.minimum(own, self.psi[-1])
        first = np.minimum(np.searchsorted(self.edges, costs, side="right"), self.edges.size - 1)
        counts = self.edges.size - first
        starts = np.concatenate([[0], np.cumsum(counts + 1)[:-1]])
        asked, position = np.repeat(np.arange(costs.size), counts + 1), np.arange(int((counts + 1).sum()))
        place = first[asked] + position - starts[asked] - 1  # the edge; -1 of the first is the own cost
        is_own = position == starts[asked]
        at = np.where(is_own, costs[asked], self.edges[place])
        psi = np.where(is_own, own[asked], self.psi[place])
        # Edges above several costs of one seller are the same question: each is asked once.
        questions, answers = np.unique(
            np.stack([who[asked].astype(np.float64), psi]), axis=1, return_inverse=True
        )
        values, promises = (
            found[answers.ravel()] for found in minima(questions[0].astype(np.intp), questions[1])
        )
        piece = np.minimum(place[:-1], self.deviations.size - 1)
        inside = ~is_own[1:]  # between two points of one seller
        width, rise = np.diff(at), np.diff(psi)
        gained, fall = np.diff(values) / gamma, -np.diff(promises)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(rise > 0.0, width / rise * (gained - fall * self.means[piece]), 0.0)
            open_ = np.where(rise > 0.0, width / rise * 2.0 * self.deviations[piece] * fall, 0.0)
        # Whatever the deviation, a promise that never rises lies between those at the two ends.
        most, least = width * np.maximum(promises[:-1], promises[1:]), width * promises[1:]
        part = np.where(rise > 0.0, np.clip(part, least, most), width * promises[1:])
        open_ = np.minimum(np.maximum(open_, 0.0), most - least)
        if self.deviations.size == 1 and self.deviations[0] == 0.0:
            part = np.where(rise > 0.0, width / np.where(rise > 0.0, rise, 1.0) * gained, 0.0)
        sums = [np.bincount(asked[1:][inside], values_[inside], costs.size) for values_ in (part, open_)]
        last = promises[starts + counts]
        return np.asarray(sums[0]), np.asarray(sums[1] + last * self.beyond), promises[starts]
