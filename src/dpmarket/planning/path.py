r"""Walk the path of best weights once, and read off what any budget buys at the least expected error.

Of a budget ``P``, with virtual costs psi, the buyer wants the weights ``a`` and the total promise ``eta``
that minimise

.. math:: A |a|^2 + B / \eta^2 \quad\text{subject to}\quad \eta \langle a, \psi \rangle \le P,\;
    0 \le a_i \le cap,\; \sum a_i = 1,\; \eta \le \eta_{max}.

In ``(a, 1/eta)`` this is a convex quadratic programme: at a budget there is one best purchase, whatever the
costs. (With money as a term ``payment_weight * eta * <a, psi>`` of the objective instead there can be several
local minima, and budgets that no payment weight meets.) Its weights lie on the path
``a_i(s) = clip((r - psi_i)/s, 0, cap)`` with ``r`` fixed by ``sum a = 1``, which depends on no price. Between
two events of the path (one more seller enters, or leaves the cap) ``|a|^2 = weight + V/s^2`` and
``<a, psi> = level - V/s`` with constants of that segment, and the conditions of optimality say

* where the budget binds alone: ``s * <a, psi> = A P^2 / B``; the left side is ``level*s - V`` on a segment
  and never falls, so one segment and one division give the best ``s``;
* where ``eta`` is at its bound: ``<a, psi> = P / eta_max``, which never falls with ``s`` either.

The sums are kept as in :mod:`dpmarket.allocation.kernels`: only non-negative terms are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput

_LEAST = 1e-100


@dataclass(frozen=True)
class BestPurchase:
    """What a budget buys at the least expected error, of a market whose virtual costs are known.

    Attributes
    ----------
    spread
        How much dearer a seller must be to lose one unit of weight (s).
    squared_norm
        Of the weights.
    total_promise
        The sum of the promises (eta).
    price
        What a unit of epsilon costs on average, ``<a, psi>``.
    bought
        How many sellers have a weight.
    """

    spread: float
    squared_norm: float
    total_promise: float
    price: float
    bought: int


@dataclass(frozen=True, eq=False)
class Path:
    """The path of best weights of one market, segment by segment; arrays are read-only.

    Attributes
    ----------
    ends
        The spread s at which each segment ends, rising; infinite for the last one.
    weights, levels, variances
        The segment's constants: ``|a|^2 = weight + variance/s^2`` and ``<a, psi> = level - variance/s``.
    bought
        How many sellers have a weight within the segment.
    """

    ends: FloatArray
    weights: FloatArray
    levels: FloatArray
    variances: FloatArray
    bought: FloatArray

    def best_for(
        self, budget: float, sampling: float, noise: float, max_total_promise: float = math.inf
    ) -> BestPurchase:
        """Return the purchase that minimises ``sampling * |a|^2 + noise / eta^2`` within a budget.

        Parameters
        ----------
        budget
            What the purchase may cost in virtual costs, money, above 0.
        sampling, noise
            The error model's numbers, above 0.
        max_total_promise
            What the promises may add up to.

        Raises
        ------
        InvalidInput
            A budget whose square is beyond the range of floats.
        """
        if not _LEAST <= budget <= 1.0 / _LEAST:
            raise InvalidInput(f"expected a budget between {_LEAST:g} and {1.0 / _LEAST:g}, got {budget!r}.")
        goal = sampling * budget**2 / noise
        reached = self.levels * self.ends - self.variances
        reached[-1] = math.inf
        k = int(np.searchsorted(reached, goal))
        spread = (goal + self.variances[k]) / self.levels[k]
        purchase = self._at(k, float(spread), budget)
        if purchase.total_promise <= max_total_promise:
            return purchase
        return self._at_bound(budget, max_total_promise)

    def _at(self, segment: int, spread: float, budget: float) -> BestPurchase:
        variance = float(self.variances[segment])
        price = float(self.levels[segment]) - variance / spread
        squared_norm = float(self.weights[segment]) + variance / spread**2
        return BestPurchase(spread, squared_norm, budget / price, price, int(self.bought[segment]))

    def _at_bound(self, budget: float, total_promise: float) -> BestPurchase:
        """Return the most even weights whose price the budget covers at the bound; all equal at the end."""
        goal = budget / total_promise
        prices = self.levels - self.variances / self.ends
        k = min(int(np.searchsorted(prices, goal)), prices.size - 1)
        distance = float(self.levels[k]) - goal
        variance = float(self.variances[k])
        spread = variance / distance if distance > 0.0 and variance > 0.0 else math.inf
        if math.isinf(spread):
            price, squared_norm = float(self.levels[k]), float(self.weights[k])
        else:
            price, squared_norm = goal, float(self.weights[k]) + variance / spread**2
        return BestPurchase(spread, squared_norm, total_promise, price, int(self.bought[k]))


def walk_path(virtual_costs: FloatArray, cap: float, first_capped: int, first_rest: float) -> Path:
    """Return the path of best weights.

    Parameters
    ----------
    virtual_costs
        Rising, finite, at least 0, and not all 0.
    cap, first_capped, first_rest
        The largest weight, how many sellers a total weight of 1 admits at it, and what is left, as
        :func:`~dpmarket.allocation.simplex.split_cap` splits it.

    Returns
    -------
    Path
        In O(m): at most two events for every seller.
    """
    psi: list[float] = virtual_costs.tolist()
    sellers = len(psi)
    rows: list[tuple[float, float, float, float, float]] = []
    # Sellers [0, capped) are at the cap, [capped, last) between, the rest at 0.
    capped, last, rest = first_capped, first_capped, first_rest
    inside = 0
    above = below = variance = total = 0.0  # over those between, see allocation.kernels
    at_cap = math.fsum(psi[:capped])
    room = cap - rest
    if rest > 0.0:
        total, last, inside = psi[last], last + 1, 1
    spread = 0.0
    while True:
        entry = leave = math.inf
        if inside == 0:  # a corner: those at the cap have all weight, whatever s
            weight, level = capped * cap * cap, cap * at_cap
            if last < sellers:
                entry = (psi[last] - psi[last - 1]) / cap
        else:
            weight = capped * cap * cap + rest * rest / inside
            level = cap * at_cap + rest * total / inside
            if last < sellers:
                entry = (above + inside * (psi[last] - psi[last - 1])) / rest
            if capped > 0:
                leave = (below + inside * (psi[capped] - psi[capped - 1])) / room
        end = min(entry, leave)
        if end > spread:
            rows.append((end, weight, level, variance, last))
            spread = end
        if math.isinf(end):
            break
        if inside == 0:
            capped -= 1
            at_cap -= psi[capped]
            total, inside, rest, room = psi[capped], 1, cap, 0.0
        if entry <= leave:
            above += inside * (psi[last] - psi[last - 1])
            variance += (above / inside) * (above / (inside + 1))
            total += psi[last]
            if capped > 0:
                below += psi[last] - psi[capped]
            room += cap
            last += 1
        else:
            below += inside * (psi[capped] - psi[capped - 1])
            variance += (below / inside) * (below / (inside + 1))
            capped -= 1
            total += psi[capped]
            at_cap = at_cap - psi[capped] if capped else 0.0
            above += psi[last - 1] - psi[capped]
            rest = first_rest + (first_capped - capped) * cap
        inside += 1
    return Path(*(read_only(np.array(column)) for column in zip(*rows, strict=True)))
