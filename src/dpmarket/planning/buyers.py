"""Turn a budget into buyers that spend it in expectation: this project's, and simple ones at their best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from dpmarket.costs import CostDistribution
from dpmarket.mechanisms import CheapestK, OfflineMechanism, Outcome, SameForAll
from dpmarket.mechanisms.simple import expected_price
from dpmarket.planning.error_model import ErrorModel
from dpmarket.planning.prices import plan_prices
from dpmarket.planning.rules import best_posted_price

_COUNTS = 200  # numbers of winners that are tried


class Buyer(Protocol):
    """A mechanism that buys from all sellers at once."""

    def run(self, reported_costs: object, seller_ids: object = None) -> Outcome:
        """Decide every seller's promise and payment."""
        ...


Builder = Callable[[float], Buyer]


def standard_buyers(
    dist: CostDistribution,
    error_model: ErrorModel,
    sellers: int,
    *,
    concentration: float | None = None,
    noise: float | None = None,
    max_mean_epsilon: float | None = None,
) -> dict[str, Builder]:
    """Return this project's buyer and the simple ones, each at its own best for the same public facts.

    The offline mechanism gets the prices of the least expected error and the payment weight that meets the
    budget. The posted price and the number of cheapest sellers are those with the least expected error, too,
    so that the simple buyers know all that ours knows. Nothing but public facts decides.

    Parameters
    ----------
    dist
        The distribution of costs.
    error_model
        What noise and few people cost: :attr:`~dpmarket.planning.scoring.Trial.error_model` of a trial, or
        :func:`~dpmarket.planning.error_model.logistic_error`.
    sellers
        How many will report.
    concentration, noise
        Prices for this project's buyer in place of the suggested ones; with one of them the other is 1.
    max_mean_epsilon
        Upper bound of the mean epsilon over all sellers, whoever buys; simple buyers then leave money
        unspent.

    Returns
    -------
    dict
        Name to a function from a budget to a mechanism, as
        :func:`~dpmarket.planning.comparison.compare` takes it: "dpmarket", "posted price", "cheapest k" and
        "same for all".

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import logistic_error
    >>> buyers = standard_buyers(Uniform(1, 5), logistic_error(5, 1.2), sellers=1000)
    >>> for name, build in buyers.items():
    ...     outcome = build(400.0).run(np.linspace(1.002, 4.998, 1000))
    ...     print(f"{name:12} {outcome.total_payment:.0f} {(outcome.epsilons > 0).mean():.0%}")
    dpmarket     400 21%
    posted price 399 15%
    cheapest k   400 14%
    same for all 400 100%
    """

    def ours(budget: float) -> OfflineMechanism:
        plan = plan_prices(
            dist,
            sellers,
            budget,
            error_model,
            concentration=concentration,
            noise=noise,
            max_mean_epsilon=max_mean_epsilon,
        )
        return OfflineMechanism(dist, plan.objective)

    return {
        "dpmarket": ours,
        "posted price": lambda budget: best_posted_price(
            dist, sellers, budget, error_model, max_mean_epsilon=max_mean_epsilon
        ),
        "cheapest k": lambda budget: best_cheapest_k(
            dist, sellers, budget, error_model, max_mean_epsilon=max_mean_epsilon
        ),
        "same for all": lambda budget: _same_for_all(dist, sellers, budget, max_mean_epsilon),
    }


def best_cheapest_k(
    dist: CostDistribution,
    sellers: int,
    budget: float,
    error_model: ErrorModel,
    *,
    max_mean_epsilon: float | None = None,
) -> CheapestK:
    """Return the number of cheapest sellers with the least expected error for a budget.

    Parameters
    ----------
    dist
        The distribution of costs.
    sellers
        How many will report, at least 1.
    budget
        Expected total payment, money, above 0.
    error_model
        What noise and few people cost.
    max_mean_epsilon
        Upper bound of the mean epsilon over all sellers; it may leave money unspent.

    Returns
    -------
    CheapestK
        The best of up to 200 numbers.
    """
    most = math.inf if max_mean_epsilon is None else sellers * max_mean_epsilon
    counts = np.unique(np.geomspace(1, sellers, _COUNTS).round().astype(int))
    if np.isinf(dist.support[1]):
        counts = counts[counts < sellers]
    errors = [
        error_model.predict(1.0 / k, min(budget / expected_price(dist, sellers, k), most)).total
        for k in counts.tolist()
    ]
    found = CheapestK.for_budget(dist, sellers, budget, int(counts[int(np.argmin(errors))]))
    return replace(found, epsilon=min(found.epsilon, most / found.k))


def _same_for_all(
    dist: CostDistribution, sellers: int, budget: float, max_mean_epsilon: float | None
) -> SameForAll:
    found = SameForAll.for_budget(dist, sellers, budget)
    return found if max_mean_epsilon is None else replace(found, epsilon=min(found.epsilon, max_mean_epsilon))
