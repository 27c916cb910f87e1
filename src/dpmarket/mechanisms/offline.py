"""All sellers at once: reports in, promises and truthful payments out (the paper's Algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective, allocate
from dpmarket.arrays import FloatArray, read_only
from dpmarket.costs import CostDistribution, distribution_from_dict, virtual_costs
from dpmarket.mechanisms.inputs import check_dist_and_objective, one_cost, position, settings_of
from dpmarket.mechanisms.outcome import Optimality, Outcome, checked_ids
from dpmarket.mechanisms.protocol import Response
from dpmarket.payments import exact_payments, response


@dataclass(frozen=True)
class ResponseCurve:
    """What one seller would get, report by report; arrays are read-only.

    Attributes
    ----------
    reports
        What the seller could report, money per unit of epsilon, shape (n,).
    epsilons
        The promise at each report.
    payments
        The payment at each report, money.

    Examples
    --------
    Whatever a seller says, the truth (here 2.0) is worth most to them.

    >>> from dpmarket.costs import Uniform
    >>> mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    >>> curve = mechanism.response_curve([1.5, 2.0, 2.5], i=1, reports=[1.0, 2.0, 3.0, 4.0])
    >>> utilities = curve.utilities(cost=2.0)
    >>> curve.reports[utilities.argmax()].item()
    2.0
    """

    reports: FloatArray
    epsilons: FloatArray
    payments: FloatArray

    def utilities(self, cost: float) -> FloatArray:
        """Return payment less ``cost*epsilon``: what each report is worth to a seller with this true cost."""
        return self.payments - cost * self.epsilons


@dataclass(frozen=True)
class OfflineMechanism:
    """Buy from all sellers at once, trading model error against payments.

    Step 1 minimises ``concentration*|a| + noise/eta + payment_weight*eta*<a, psi>`` globally; step 2 pays
    by the payment identity. Truth is every seller's best report whatever the others report, and nobody
    loses by taking part: payment >= reported cost * epsilon, in exact arithmetic.

    Parameters
    ----------
    dist
        The distribution of costs, common knowledge.
    objective
        The buyer's objective. Choose it before the reports are in: an objective that depends on reports makes
        lying pay.

    Notes
    -----
    Reports below the support count as its lower end; reports above it get epsilon 0 and payment 0. Where
    the support starts at 0, set ``max_mean_epsilon``: a report of exactly 0 makes more epsilon free, and
    without a bound no best allocation exists then.
    No seller gains more than 1e-9 of their payment by any misreport: that is the payments' accuracy.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    >>> outcome = mechanism.run([1.5, 2.0, 4.9])
    >>> bool((outcome.payments >= outcome.epsilons * [1.5, 2.0, 4.9]).all())
    True
    """

    name: ClassVar[str] = "offline"
    dist: CostDistribution
    objective: BuyerObjective

    def __post_init__(self) -> None:
        check_dist_and_objective(self.dist, self.objective)

    def run(self, reported_costs: object, seller_ids: object = None) -> Outcome:
        """Decide every seller's promise and payment.

        Parameters
        ----------
        reported_costs
            Money per unit of epsilon, finite, at least 0, shape (m,).
        seller_ids
            Texts or whole numbers, all different, in the same order; None: 0, 1, 2, ...

        Raises
        ------
        InvalidInput
            Reports that are no costs, ids that do not match.
        Infeasible
            No allocation meets the weight cap, or none is best; costs without an upper end when some seller
            is needed at every price. The message says what to change.
        """
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        ids = checked_ids(seller_ids, costs.size)
        psi = virtual_costs(costs, self.dist)
        allocation = allocate(psi, self.objective)
        paid = exact_payments(costs, psi, allocation, self.objective, self.dist)
        return Outcome(
            mechanism=self.name,
            seller_ids=ids,
            epsilons=allocation.epsilons,
            payments=paid.payments,
            payment_errors=paid.errors,
            planned_weights=allocation.loss_weights,
            planned_noise_rate=allocation.total_promise,
            parameters=self._parameters(),
            optimality=Optimality(
                allocation.concentration_part,
                allocation.noise_part,
                allocation.payment_part,
                allocation.cutoff,
                allocation.kkt_residual,
            ),
        )

    def respond(self, reported_costs: object, i: int, report: float) -> Response:
        """Return what seller ``i`` gets if they report ``report`` and the others report as given."""
        curve = self.response_curve(reported_costs, i, one_cost("report", report))
        return Response(float(curve.epsilons[0]), float(curve.payments[0]))

    def response_curve(self, reported_costs: object, i: int, reports: object) -> ResponseCurve:
        """Return seller ``i``'s epsilon and payment at each of several reports, for plots and audits.

        Much cheaper than as many calls of ``respond``: the market is solved once.
        """
        costs = checks.non_negative_vector("reported_costs", reported_costs).copy()
        i = position(costs, i)
        asked = checks.non_negative_vector("reports", reports)
        low, high = self.dist.support
        possible = asked <= high
        epsilons, payments = np.zeros(asked.size), np.zeros(asked.size)
        if possible.any():
            inside = np.maximum(asked[possible], low)
            costs[i] = inside.min()
            psi = virtual_costs(costs, self.dist)
            allocation = allocate(psi, self.objective)
            epsilons[possible], payments[possible] = response(
                psi, i, inside, allocation, self.objective, self.dist
            )
        return ResponseCurve(read_only(asked.copy()), read_only(epsilons), read_only(payments))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same mechanism."""
        return {"mechanism": self.name, **self._parameters()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OfflineMechanism:
        """Make the mechanism whose ``to_dict()`` gave this data."""
        dist, objective = settings_of(data, cls.name, "distribution", "objective")
        return cls(distribution_from_dict(dist), BuyerObjective.from_dict(objective))

    def _parameters(self) -> dict[str, Any]:
        return {"distribution": self.dist.to_dict(), "objective": self.objective.to_dict()}
