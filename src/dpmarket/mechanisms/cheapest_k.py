"""The cheapest k: one epsilon from each of the k lowest reports, at the price of the next one.

A uniform-price procurement auction. Each seller with one of the k lowest reports sells the same epsilon, and
is paid for it at the (k+1)-th lowest report, or at the reserve price if there is none below it: up to that
report they would still sell. So truth is the best report and nobody loses by taking part.
"""

from __future__ import annotations

import numpy as np

from dpmarket import checks
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.objective import AnyObjective
from dpmarket.mechanisms.outcome import Outcome, decided, with_report


class CheapestK:
    """Buy one epsilon from the k lowest reports, at one price for all.

    Parameters
    ----------
    k, epsilon
        From how many sellers, at least 1, and what each of them sells, above 0.
    reserve_price
        Reports above it sell nothing.
    objective, epsilon_cost
        What the outcome's expected errors are computed with, and the cost function; the default is linear.

    Examples
    --------
    >>> from dpmarket.mechanisms.objective import Objective
    >>> rule = CheapestK(2, 0.5, reserve_price=5.0, objective=Objective.for_model(10))
    >>> rule.run([3.0, 1.0, 4.0, 2.0]).payments.tolist()
    [0.0, 1.5, 0.0, 1.5]
    """

    def __init__(
        self, k: int, epsilon: float, reserve_price: float, objective: AnyObjective,
        epsilon_cost: EpsilonCost | None = None,
    ) -> None:  # fmt: skip
        self.k = checks.whole("k", k, minimum=1)
        self.epsilon = checks.positive("epsilon", epsilon)
        self.reserve_price = checks.positive("reserve_price", reserve_price)
        self.objective = objective
        self.epsilon_cost = EpsilonCost.identity() if epsilon_cost is None else epsilon_cost
        if self.epsilon > self.epsilon_cost.max_epsilon:
            raise InvalidInput(f"expected an epsilon of at most {self.epsilon_cost.max_epsilon!r}.")

    def run(self, reported_costs: object) -> Outcome:
        """Decide and pay for all sellers; of equal reports the earlier come first."""
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        order = np.argsort(costs, kind="stable")
        order = order[costs[order] <= self.reserve_price]
        bought = order[: self.k]
        price = float(costs[order[self.k]]) if order.size > self.k else self.reserve_price
        epsilons, payments, weights = np.zeros((3, costs.size))
        single = np.array([self.epsilon])
        epsilons[bought] = self.epsilon
        payments[bought] = price * self.epsilon_cost.cost_of_epsilon(single)
        weights[bought] = 1.0 / max(bought.size, 1)
        total = bought.size * float(self.epsilon_cost.share(single)[0])
        return decided(epsilons, payments, weights, total, self.objective)

    def respond(self, reported_costs: object, i: int, report: float) -> tuple[float, float]:
        """Return seller ``i``'s epsilon and payment for another report, the others' reports as given."""
        outcome = self.run(with_report(reported_costs, i, report))
        return float(outcome.epsilons[i]), float(outcome.payments[i])
