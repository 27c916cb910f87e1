"""Hold a solved market, and integrate single sellers' epsilons over their reports.

The integral of a seller's epsilon over higher reports, divided by their epsilon, is what they get above their
cost per unit of epsilon: the *premium*. In a large market it depends on the seller only through their own
cost, and smoothly: others enter and leave one by one, each changing it by O(1/n^2). So for many different
costs the premium is tabulated once and evaluated for everybody, and sellers chosen across the market are
integrated on their own to measure what that misses; if it is too much, or if there are few different costs,
every single cost is integrated, once. So are the few sellers next to where a cap begins to hold, who have a
function of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dpmarket.allocation import Allocation, BuyerObjective
from dpmarket.allocation.settings import path_settings
from dpmarket.allocation.sorting import sorted_costs
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.costs import CostDistribution, largest_cost_at
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.payments.cases import Case, case_of, slower_case
from dpmarket.payments.interpolation import PiecewiseSeries, tabulate, tabulate_virtual_costs
from dpmarket.payments.kernels.alone import Alone, many_may_enter
from dpmarket.payments.kernels.integrals import Asked, epsilons_at, integrals, running_integrals
from dpmarket.payments.kernels.limits import CHEAPEST, Limit
from dpmarket.payments.kernels.tables import evaluate
from dpmarket.payments.ties import distinct_costs
from dpmarket.payments.zones import NOWHERE, cap_walls, cap_zone, inside, widened

TOLERANCE = 2e-10
"""Relative error of a payment at which the integrals stop; the contract is 1e-9."""
LEAST = 2e-11
"""A table's relative error is stated as no less: it is known of sellers who were asked, not of others."""
_FINE = 1e-12
# What a table may miss next to a cap's edge, before those there are integrated, too.
CLOSE = TOLERANCE / 4.0
_SAMPLE = 256
_DEAREST = 32
_SMALLEST, _LARGEST, _LARGEST_EXPONENT = 1e-80, 1e80, 320

Integrals = Callable[[Case, PiecewiseSeries, Asked, float, float], tuple[FloatArray, FloatArray]]


class Market:
    """The solved market around which single sellers' reports move."""

    def __init__(
        self,
        virtual_costs: FloatArray,
        allocation: Allocation,
        objective: BuyerObjective,
        dist: CostDistribution,
    ) -> None:
        # Copied no more than once: a copy takes as long as a part of the sorting.
        is_finite = float(virtual_costs.max()) < np.inf
        finite = sorted_costs(virtual_costs if is_finite else virtual_costs[virtual_costs < np.inf])
        settings = path_settings(objective, virtual_costs.size)
        needed = settings.first_capped + (settings.first_rest > 0.0)
        self.top = dist.support[1]
        if math.isinf(self.top) and finite.size - 1 < needed:
            raise Infeasible(
                "expected the others to suffice when one seller leaves, because costs have no upper end; "
                "found that a seller is needed at every price: raise weight_cap, or cut the distribution."
            )
        if math.isfinite(allocation.cutoff) and not _SMALLEST < allocation.cutoff < _LARGEST:
            raise NotConverged(
                f"expected costs between {_SMALLEST:g} and {_LARGEST:g}, found a cutoff outside: "
                "measure money in another unit, or set max_mean_epsilon."
            )
        self.dist = dist
        self.objective = objective
        self.allocation = allocation
        self.case = case_of(finite, settings, objective, allocation)
        reach = allocation.cutoff + (allocation.cutoff - float(finite[0]))
        if math.isinf(reach):
            reach = min(float(dist.virtual_cost(self.top)), _LARGEST)
        self._set_reach(math.frexp(reach)[1])

    def premiums(self, asked: Asked) -> tuple[FloatArray, FloatArray]:
        """Return what sellers get above their cost, per unit of epsilon, and its error."""
        distinct = distinct_costs(asked.costs)
        if distinct is None:
            return self._premiums(asked)
        premiums, errors = self._premiums(_chosen(asked, distinct.first))
        return premiums[distinct.which], errors[distinct.which]

    def _premiums(self, asked: Asked) -> tuple[FloatArray, FloatArray]:
        smooth = self._smooth(asked.epsilons)
        found = None
        if np.count_nonzero(smooth) > 4 * _SAMPLE:
            found = self.tabulated(_chosen(asked, smooth))
        if found is None:
            return self.integrated(asked, TOLERANCE)
        if smooth.all():
            return found
        premiums, errors = np.empty(smooth.size), np.empty(smooth.size)
        premiums[smooth], errors[smooth] = found
        premiums[~smooth], errors[~smooth] = self.integrated(_chosen(asked, ~smooth), TOLERANCE)
        return premiums, errors

    def _smooth(self, epsilons: FloatArray) -> BoolArray:
        """Tell whose premium may be a smooth function of their cost."""
        if isinstance(self.case, Limit) and self.case.regime == CHEAPEST:
            # Those at the margin, who get what is left, follow another function of their cost.
            smooth: BoolArray = epsilons == self.allocation.max_weight * self.allocation.total_promise
            return smooth
        return np.full(epsilons.size, isinstance(self.case, Alone) and not many_may_enter(self.case))

    def _set_reach(self, exponent: int) -> None:
        """Tabulate psi up to 2^exponent: as far as anybody could still be bought from."""
        self.exponent = exponent
        self.psi = _table(self.dist, exponent)

    def epsilons_at(self, own: float, reports: FloatArray) -> FloatArray:
        """Return the epsilons of the seller with virtual cost ``own`` at other virtual costs, none below."""
        values = epsilons_at(self.case, own, reports)
        case = self.case
        while np.isnan(values).any() and (slower := self._slower(case)) is not None:
            case, rest = slower, np.isnan(values)
            values[rest] = epsilons_at(case, own, reports[rest])
        return values

    def integrated(self, asked: Asked, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """Integrate everybody's epsilon over higher reports; return the premiums and their errors."""
        values, errors = self._within_reach(integrals, self.case, asked, tolerance)
        case = self.case
        while np.isnan(values).any() and (slower := self._slower(case)) is not None:
            case, rest = slower, np.isnan(values)
            values[rest], errors[rest] = self._within_reach(integrals, case, _chosen(asked, rest), tolerance)
        return values / asked.epsilons, errors / asked.epsilons

    def integrated_above(self, asked: Asked, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """Integrate one seller's epsilon above each of their increasing reports; as :meth:`integrated`."""
        values, errors = self._within_reach(running_integrals, self.case, asked, tolerance)
        case = self.case
        while np.isnan(values).any() and (slower := self._slower(case)) is not None:
            case = slower
            values, errors = self._within_reach(running_integrals, case, asked, tolerance)
        return values / asked.epsilons, errors / asked.epsilons

    def _slower(self, case: Case) -> Case | None:
        return slower_case(case, self.objective, self.allocation)

    def _within_reach(
        self, function: Integrals, case: Case, asked: Asked, tolerance: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return integrals and their errors, after tabulating psi as far as they need it."""
        while True:
            values, errors = function(case, self.psi, asked, self.top, tolerance)
            if not np.isposinf(values).any():
                return values, errors + self.psi.error * (asked.costs * asked.epsilons + values)
            if self.psi.edges[-1] >= self.top or self.exponent > _LARGEST_EXPONENT:
                raise Infeasible(
                    "expected a best allocation at every report that a seller could make, found that at some "
                    "more epsilon is always better, as sellers cost nothing: set max_mean_epsilon."
                )
            self._set_reach(self.exponent + 1)

    def tabulated(self, asked: Asked) -> tuple[FloatArray, FloatArray] | None:
        """Return premiums from a table, or None where sellers integrated on their own show it wrong."""
        costs = asked.costs
        zone = cap_zone(self.case) if isinstance(self.case, Alone) else NOWHERE
        if zone is None or _are_most(inside(asked.virtual, zone)):
            return None
        table = self._premium_table(float(costs.min()), float(costs.max()))
        premiums = evaluate(table, costs)

        def missed(rows: IntArray) -> float:
            exact, _ = self.integrated(_chosen(asked, rows), _FINE)
            return float(np.max(np.abs(premiums[rows] - exact) / (costs[rows] + exact)))

        ordered = self.case.problem.psi if isinstance(self.case, Alone) else np.zeros(0)
        zone, around = widened(zone, asked.virtual, ordered, missed, CLOSE)
        near = inside(asked.virtual, zone)
        if _are_most(near):
            return None
        sample = _across(asked, ordered)
        sample = sample[~near[sample]]
        error = max(4.0 * max(missed(sample), around), LEAST) if sample.size else np.inf
        if not error <= TOLERANCE:
            return None
        errors = (error + _FINE + self.psi.error) * (costs + premiums)
        if near.any():
            premiums[near], errors[near] = self.integrated(_chosen(asked, near), _FINE)
        return premiums, errors

    def _premium_table(self, low: float, high: float) -> PiecewiseSeries:
        allocation = self.allocation
        edge = allocation.cutoff - allocation.max_weight * allocation.spread
        walls = [*self.psi.walls, *self.psi.edges]
        if isinstance(self.case, Alone):
            walls += cap_walls(self.case.anchor, edge, self.dist)
        elif allocation.n_capped:
            walls.append(largest_cost_at(edge, self.dist))
        inner = [wall for wall in walls if low < wall < high]

        def premium(points: FloatArray) -> FloatArray:
            costs = points.reshape(-1)
            virtual = evaluate(self.psi, costs)
            weights = np.full(costs.size, allocation.max_weight)
            if not isinstance(self.case, Limit):
                weights = np.minimum((allocation.cutoff - virtual) / allocation.spread, weights)
            epsilons = np.maximum(weights * allocation.total_promise, 1e-300)
            premiums, _ = self.integrated(Asked(costs, virtual, epsilons), _FINE)
            return premiums.reshape(points.shape)

        return tabulate(premium, np.unique([low, *inner, high]), 1e-11, 4)


def _across(asked: Asked, ordered: FloatArray) -> IntArray:
    """Return sellers from all of the market; ``ordered`` are all virtual costs, or none."""
    costs, virtual = asked.costs, asked.virtual
    sample = np.linspace(0, costs.size - 1, _SAMPLE).astype(np.int64)
    # Sparse regions count as much as dense ones: one seller from each of as many stretches of cost.
    spread = np.full(_SAMPLE + 1, -1)
    share = (costs - costs.min()) / max(float(np.ptp(costs)), 1e-300)
    spread[(share * _SAMPLE).astype(np.int64)] = np.arange(costs.size)
    # And the dearest, above whom there are so few that each of them counts.
    dearest: IntArray = np.array([costs.argmax()])
    if ordered.size:
        last = int(np.searchsorted(ordered, virtual.max()))
        dearest = np.flatnonzero(virtual >= ordered[max(last - _DEAREST, 0)])[: 2 * _DEAREST]
    return np.unique(np.concatenate((sample, spread[spread >= 0], dearest, [costs.argmin()])))


def _are_most(near: BoolArray) -> bool:
    return 2 * int(np.count_nonzero(near)) > near.size


def _chosen(asked: Asked, which: BoolArray | np.ndarray) -> Asked:
    return Asked(asked.costs[which], asked.virtual[which], asked.epsilons[which])


@lru_cache(maxsize=64)
def _table(dist: CostDistribution, exponent: int) -> PiecewiseSeries:
    """Tabulate psi up to 2^exponent or the top; markets with the same distribution share it."""
    top = min(largest_cost_at(math.ldexp(1.0, exponent), dist), dist.support[1])
    if not top > dist.support[0]:
        raise NotConverged(
            "expected prices of the same order as the costs: the virtual cost from which on nobody is bought "
            "from is beyond the range of floats. Use a larger payment_weight."
        )
    return tabulate_virtual_costs(dist, top)
