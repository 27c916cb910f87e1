r"""The exact offline mechanism: the paper's Algorithm 2 on public tables.

The mechanism buys the purchase that minimises the announced objective, exactly and globally
(:mod:`~dpmarket.mechanisms.water_filling`), and pays by the envelope theorem
(:mod:`~dpmarket.mechanisms.envelope_payments`). Whatever the others report, and whether or not the announced
tables describe them, no report gives a seller with cost c more payment less c H than the true one (up to
rounding, and up to less than one minor unit once payments are rounded up), and truth never loses money.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.costs.distribution import CostDistribution
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.mechanisms.envelope_payments import Payer, largest_increase
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.groups import Coverage, Group, check_coverage, check_membership, groups_of
from dpmarket.mechanisms.objective import AnyObjective
from dpmarket.mechanisms.outcome import Outcome, decided, with_report
from dpmarket.mechanisms.water_filling import Entry, Market, announced_terms, check_terms

_BLOCK = 1 << 14  # sellers paid at a time: they stay in the processor's cache


class OfflineMechanism:
    """Buy the optimum from sellers who all report at once, and pay so that truth is their best report.

    Parameters
    ----------
    costs
        The distribution of costs, or its announced table of virtual costs; None if there are groups, which
        have their own.
    objective
        What the buyer minimises; its payment weight is fixed before anybody reports.
    epsilon_cost
        What a share of the total costs its seller; the default is the paper's, pure epsilon at a linear cost.
    groups, coverage
        Strata with quotas, None: one for all; and how binding quotas are: ``"hard"``, or the weight D of soft
        ones.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.objective import Objective
    >>> mechanism = OfflineMechanism(Uniform(1, 5), Objective.for_model(10, payment_weight=0.01))
    >>> outcome = mechanism.run([1.5, 2.0, 4.0])
    >>> bool((outcome.payments >= np.array([1.5, 2.0, 4.0]) * outcome.epsilons).all())
    True
    >>> mechanism.respond([1.5, 2.0, 4.0], 0, 6.0)
    (0.0, 0.0)
    """

    def __init__(
        self, costs: CostDistribution | VirtualCost | None, objective: AnyObjective, *,
        epsilon_cost: EpsilonCost | None = None, groups: Sequence[Group] | None = None,
        coverage: Coverage = "hard",
    ) -> None:  # fmt: skip
        self.objective = objective
        self.coverage = check_coverage(coverage)
        self.epsilon_cost = check_terms(objective, epsilon_cost)
        self.groups = groups_of(costs, groups)

    def run(self, reported_costs: object, membership: object = None) -> Outcome:
        """Decide and pay for all sellers; ``membership`` is each one's group as a position in ``groups``."""
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        members = check_membership(membership, costs.size, len(self.groups))
        epsilons, payments, weights = np.zeros((3, costs.size))
        reports = self._reports(costs, members)
        if not any(own.size for _, own, _ in reports):
            return decided(epsilons, payments, weights, 0.0, self.objective)
        market, near = self._solve(reports)
        for k, g in enumerate(market.present):
            payer = Payer(market, k, near)
            of = self._sellers(costs, members, g, payer.highest_cost)
            curve = payer.curve(of.size)
            for start in range(0, of.size, _BLOCK):
                block = of[start : start + _BLOCK]
                weights[block], payments[block] = payer.pay(costs[block], curve)
                epsilons[block] = self.epsilon_cost.epsilon(weights[block] * payer.total)
        return decided(epsilons, payments, weights, market.total(market.best()), self.objective)

    def respond(
        self, reported_costs: object, i: int, report: float, membership: object = None
    ) -> tuple[float, float]:
        """Return seller ``i``'s epsilon and payment for another report, the others' reports as given."""
        costs = with_report(reported_costs, i, report)
        members = check_membership(membership, costs.size, len(self.groups))
        g = int(members[i])
        if costs[i] > self.groups[g].virtual_cost.reserve_price:
            return 0.0, 0.0
        market, near = self._solve(self._reports(costs, members))
        payer = Payer(market, market.present.index(g), near)
        weights, payments = payer.pay(costs[i : i + 1])
        return float(self.epsilon_cost.epsilon(weights * payer.total)[0]), float(payments[0])

    def rules(self) -> dict[str, Any]:
        """Return all that decides, as plain data: what is announced and certified."""
        return announced_terms("offline", self.objective, self.epsilon_cost, self.groups, self.coverage)

    def _sellers(self, costs: FloatArray, members: IntArray, g: int, highest: float) -> IntArray:
        """Return the sellers of a group whose reports are at most this."""
        low = costs <= highest
        return np.flatnonzero(low if len(self.groups) == 1 else low & (members == g))

    def _reports(self, costs: FloatArray, members: IntArray) -> list[tuple[Group, FloatArray, None]]:
        """Return each group's reports up to its reserve price, in rising order."""
        found = []
        for g, group in enumerate(self.groups):
            own = costs[self._sellers(costs, members, g, group.virtual_cost.reserve_price)]
            own.sort()
            found.append((group, own, None))
        return found

    def _solve(self, reports: Sequence[tuple[Group, FloatArray, None]]) -> tuple[Market, list[Entry]]:
        """Return the solved market, and the entries that one seller's report can make best."""
        market = Market(reports, self.objective, self.epsilon_cost, self.coverage)
        return market, market.near(largest_increase(market))
