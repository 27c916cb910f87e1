"""Pay every seller exactly: as if the whole problem were re-solved at every report up to the top.

A seller's payment is ``c*eps`` plus the integral of their epsilon over higher reports, each of which is a
re-solved problem (:mod:`dpmarket.payments.kernels`). That integral divided by epsilon is what the seller
gets above their cost per unit of epsilon: the *premium*. In a large market it depends on the seller only
through their own cost, and smoothly: others enter and leave one by one, each changing it by O(1/n^2). So
for many sellers the premium is tabulated once and evaluated for everybody, and sellers chosen across the
market are integrated on their own to measure what that misses; if it is too much, everybody is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpmarket.allocation import Allocation, BuyerObjective
from dpmarket.allocation.settings import PathSettings, path_settings
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution, largest_cost_at
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.payments import integral_kernels, kernels
from dpmarket.payments.interpolation import PiecewiseSeries, tabulate, tabulate_virtual_costs
from dpmarket.payments.uniqueness import candidate_basins

TOLERANCE = 2e-10
"""Relative error of a payment at which the integrals stop; the contract is 1e-9."""
_FINE = 1e-12
_SAMPLE = 256
_SMALLEST, _LARGEST, _LARGEST_EXPONENT = 1e-80, 1e80, 320


@dataclass(frozen=True)
class Payments:
    """Payments in money and estimates of their absolute errors, seller by seller.

    Attributes
    ----------
    payments, errors
        Shape (sellers,), in the sellers' order.
    """

    payments: FloatArray
    errors: FloatArray


def exact_payments(
    costs: FloatArray,
    virtual_costs: FloatArray,
    allocation: Allocation,
    objective: BuyerObjective,
    dist: CostDistribution,
) -> Payments:
    """Return ``c_i*eps_i(c_i)`` plus the integral of ``eps_i`` over reports from ``c_i`` to the top.

    Parameters
    ----------
    costs, virtual_costs
        Reports and their virtual costs under ``dist``, checked.
    allocation
        What :func:`dpmarket.allocation.allocate` gives for them.
    objective, dist
        The buyer's objective and the distribution of costs.

    Returns
    -------
    Payments
        Payments of 0 for sellers with epsilon 0. A payment is rounded up, so that it is at least
        ``cost*epsilon`` in exact arithmetic; its relative error is below 1e-9.

    Raises
    ------
    Infeasible
        Costs are unbounded and some seller is needed at every price.
    NotConverged
        A cost so close to 0 that promises or payments leave the range of floats.
    """
    bought = np.flatnonzero(allocation.epsilons > 0.0)
    own = np.maximum(costs[bought], dist.support[0])
    market = _Market(virtual_costs, allocation, objective, dist)
    premiums, errors = market.premiums(own, virtual_costs[bought], allocation.epsilons[bought])
    payments = allocation.epsilons[bought] * (own + premiums)
    _refuse_nonsense(allocation.epsilons, payments)
    del market  # its sorted costs take as much memory as a result
    full, full_errors = np.zeros(costs.size), np.zeros(costs.size)
    full[bought] = round_up(payments)
    full_errors[bought] = allocation.epsilons[bought] * errors + 1e-15 * payments
    return Payments(full, full_errors)


def response(
    virtual_costs: FloatArray,
    own: int,
    reports: FloatArray,
    allocation: Allocation,
    objective: BuyerObjective,
    dist: CostDistribution,
) -> tuple[FloatArray, FloatArray]:
    """Return the epsilons and payments of seller ``own`` at several reports, the others' unchanged.

    Parameters
    ----------
    virtual_costs, allocation
        Everybody's, with the lowest of ``reports`` as seller ``own``'s.
    own
        The seller's position.
    reports
        Shape (n,), within the support.
    objective, dist
        The buyer's objective and the distribution of costs.

    Returns
    -------
    tuple[FloatArray, FloatArray]
        Epsilons and payments, shape (n,) each, as :func:`exact_payments` would pay at every single report.

    Raises
    ------
    Infeasible, NotConverged
        As :func:`exact_payments`.
    """
    market = _Market(virtual_costs, allocation, objective, dist)
    seller = float(virtual_costs[own])
    psi = dist.virtual_cost(reports)
    epsilons = np.zeros(reports.size)
    finite = psi < np.inf
    epsilons[finite] = kernels.epsilons_at(market.problem, market.basins, seller, psi[finite])
    payments = np.zeros(reports.size)
    bought = epsilons > 0.0
    if bought.any():
        order = np.flatnonzero(bought)
        order = order[np.argsort(reports[order], kind="stable")]
        premiums, _ = market.integrated_above(reports[order], seller, epsilons[order], TOLERANCE)
        payments[order] = round_up(epsilons[order] * (reports[order] + premiums))
    _refuse_nonsense(epsilons, payments)
    return epsilons, payments


def round_up(payments: FloatArray) -> FloatArray:
    """Participation must hold in exact arithmetic: the product was rounded, so go two floats up."""
    return np.nextafter(np.nextafter(payments, np.inf), np.inf)


def _refuse_nonsense(epsilons: FloatArray, payments: FloatArray) -> None:
    """Refuse promises or payments that are no numbers, which costs of almost 0 lead to."""
    if not (np.isfinite(epsilons).all() and np.isfinite(payments).all()):
        raise NotConverged(
            "expected promises and payments within the range of floats, found that a cost lies too close to "
            "0 for that: set max_mean_epsilon."
        )


class _Market:
    """The solved market around which single sellers' reports move."""

    def __init__(
        self,
        virtual_costs: FloatArray,
        allocation: Allocation,
        objective: BuyerObjective,
        dist: CostDistribution,
    ) -> None:
        finite = virtual_costs[virtual_costs < np.inf]
        finite.sort()  # a copy of its own: a second one would take as long as the sorting
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
                "measure money in another unit."
            )
        self.dist = dist
        self.allocation = allocation
        self.problem = _problem(finite, settings, objective)
        self.basins = candidate_basins(
            self.problem, allocation.local_minima, objective.concentration, settings.unit
        )
        lowest = float(self.problem.psi[0])
        self._set_reach(math.frexp(allocation.cutoff + (allocation.cutoff - lowest))[1])

    def premiums(
        self, costs: FloatArray, virtual: FloatArray, epsilons: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return what sellers get above their cost, per unit of epsilon, and its error."""
        smooth = np.zeros(costs.size, dtype=bool)
        if self.problem.regime == kernels.CHEAPEST:
            # Those at the margin, who get what is left, follow another function of their cost.
            smooth = epsilons == self.allocation.max_weight * self.allocation.total_promise
        elif self.basins.bought.size == 1:
            smooth[:] = True
        found = None
        if np.count_nonzero(smooth) > 4 * _SAMPLE:
            found = self._tabulated(costs[smooth], virtual[smooth], epsilons[smooth])
        if found is None:
            return self.integrated(costs, virtual, epsilons, TOLERANCE)
        if smooth.all():
            return found
        premiums, errors = np.empty(costs.size), np.empty(costs.size)
        premiums[smooth], errors[smooth] = found
        rest = self.integrated(costs[~smooth], virtual[~smooth], epsilons[~smooth], TOLERANCE)
        premiums[~smooth], errors[~smooth] = rest
        return premiums, errors

    def _set_reach(self, exponent: int) -> None:
        """Tabulate psi up to 2^exponent: as far as anybody could still be bought from."""
        self.exponent = exponent
        self.psi = _table(self.dist, exponent)

    def integrated(
        self, costs: FloatArray, virtual: FloatArray, epsilons: FloatArray, tolerance: float
    ) -> tuple[FloatArray, FloatArray]:
        """Integrate everybody's epsilon over higher reports; return the premiums and their errors."""
        return self._per_epsilon(
            lambda: integral_kernels.integrals(
                self.problem, self.basins, self.psi, costs, virtual, epsilons, self.top, tolerance
            ),
            costs,
            epsilons,
        )

    def integrated_above(
        self, reports: FloatArray, own: float, epsilons: FloatArray, tolerance: float
    ) -> tuple[FloatArray, FloatArray]:
        """Integrate one seller's epsilon above each of their increasing reports; as :meth:`integrated`."""
        return self._per_epsilon(
            lambda: integral_kernels.running_integrals(
                self.problem, self.basins, self.psi, own, reports, epsilons, self.top, tolerance
            ),
            reports,
            epsilons,
        )

    def _per_epsilon(
        self, integrals: Callable[[], tuple[FloatArray, FloatArray]], costs: FloatArray, epsilons: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Divide integrals by epsilon, after tabulating psi as far as they need it."""
        while True:
            values, errors = integrals()
            if not np.isposinf(values).any():
                errors += self.psi.error * (costs * epsilons + values)
                return values / epsilons, errors / epsilons
            if self.psi.edges[-1] >= self.top or self.exponent > _LARGEST_EXPONENT:
                raise Infeasible(
                    "expected a best allocation at every report that a seller could make, found that at some "
                    "more epsilon is always better, as sellers cost nothing: set max_mean_epsilon."
                )
            self._set_reach(self.exponent + 1)

    def _tabulated(
        self, costs: FloatArray, virtual: FloatArray, epsilons: FloatArray
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return premiums from a table, or None where sellers integrated on their own show it wrong."""
        table = self._premium_table(float(costs.min()), float(costs.max()))
        premiums = integral_kernels.evaluate(table, costs)
        sample = np.unique(np.linspace(0, costs.size - 1, _SAMPLE).astype(np.int64))
        # Sparse regions count as much as dense ones: one seller from each of as many stretches of cost.
        spread = np.full(_SAMPLE + 1, -1)
        share = (costs - costs.min()) / max(float(np.ptp(costs)), 1e-300)
        spread[(share * _SAMPLE).astype(np.int64)] = np.arange(costs.size)
        sample = np.unique(np.concatenate((sample, spread[spread >= 0], [costs.argmin(), costs.argmax()])))
        exact, _ = self.integrated(costs[sample], virtual[sample], epsilons[sample], _FINE)
        error = 4.0 * float(np.max(np.abs(premiums[sample] - exact) / (costs[sample] + exact)))
        if not error <= TOLERANCE:
            return None
        return premiums, (error + _FINE + self.psi.error) * (costs + premiums)

    def _premium_table(self, low: float, high: float) -> PiecewiseSeries:
        allocation = self.allocation
        edge = allocation.cutoff - allocation.max_weight * allocation.spread
        walls = [*self.psi.walls, *self.psi.edges]
        if allocation.n_capped:
            walls.append(largest_cost_at(edge, self.dist))
        inner = [wall for wall in walls if low < wall < high]

        def premium(points: FloatArray) -> FloatArray:
            costs = points.reshape(-1)
            virtual = integral_kernels.evaluate(self.psi, costs)
            weights = np.full(costs.size, allocation.max_weight)
            if self.problem.regime == kernels.PATH:
                weights = np.minimum((allocation.cutoff - virtual) / allocation.spread, weights)
            epsilons = weights * allocation.total_promise
            premiums, _ = self.integrated(costs, virtual, np.maximum(epsilons, 1e-300), _FINE)
            return premiums.reshape(points.shape)

        return tabulate(premium, np.unique([low, *inner, high]), 1e-11, 4)


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


def _problem(psi: FloatArray, settings: PathSettings, objective: BuyerObjective) -> kernels.Problem:
    regime, rate = kernels.PATH, settings.epsilon_rate
    if settings.needs_cheapest or settings.needs_all_equal:
        regime = kernels.CHEAPEST if settings.needs_cheapest else kernels.EQUAL
        rate = math.sqrt(objective.noise / objective.payment_weight)
    return kernels.Problem(
        psi=psi,
        regime=regime,
        most_epsilon=settings.max_total_promise,
        sums=np.append(0.0, np.cumsum(psi)) if regime == kernels.CHEAPEST else np.empty(0),
        total=float(psi.sum()),
        cap=settings.max_weight,
        first_capped=settings.first_capped,
        first_rest=settings.first_rest,
        rho=settings.rho,
        least_rate=settings.least_rate,
        epsilon_rate=rate,
    )
