"""Turn a market file into prices, a plan and a curve: the file's own, or those of the least expected error.

Everything here follows from the market file, a number of people and a budget; no report is an argument.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpmarket.campaign.features import geometry_of_market
from dpmarket.campaign.market_file import Market, label_of, questions_of, to_distribution
from dpmarket.campaign.with_delta import gaussian_error_of, plan_for_budget
from dpmarket.errors import FileProblem

if TYPE_CHECKING:
    from dpmarket.allocation import BuyerObjective
    from dpmarket.mechanisms import Curve, PostedPrice
    from dpmarket.planning import ErrorModel, Plan, Prospect

# Planning takes a compiler along: it loads when something is planned.


def error_model_of(market: Market) -> ErrorModel:
    """Return what noise and few people cost the model that a market trains, or its statistics."""
    from dpmarket.planning import estimator_error, statistic_error

    asked = questions_of(market)
    if asked:
        from dpmarket.statistics import SeveralStatistics

        statistics = {name: question.statistic() for name, question in asked.items()}
        shares = {name: question.share or 1.0 for name, question in asked.items()}
        only = next(iter(statistics.values()))
        return statistic_error(only if len(asked) == 1 else SeveralStatistics(statistics, shares))
    if market.objective.delta is not None:
        return gaussian_error_of(market)
    rows = geometry_of_market(market)
    return estimator_error(rows.features, rows.shape, len(label_of(market).values))


def prices_for(market: Market, people: int, budget: float) -> BuyerObjective:
    """Return a market's objective: with its own prices, or with suggested ones where it has only a budget.

    Parameters
    ----------
    market
        A checked market file. With either price in it, nothing is suggested; the other one is then 1.
    people
        How many will be quoted.
    budget
        Expected total payment, money; without meaning if the file has a payment weight.

    Returns
    -------
    BuyerObjective
        With the file's payment weight, or one to start planning from.
    """
    from dpmarket.allocation import BuyerObjective
    from dpmarket.planning import freeze_prices

    wanted = market.objective
    if wanted.payment_weight is not None:
        mu, sigma = (1.0 if price is None else price for price in (wanted.concentration, wanted.noise))
        return BuyerObjective(mu, sigma, wanted.payment_weight, wanted.weight_cap, wanted.max_mean_epsilon)
    return freeze_prices(
        to_distribution(market.costs.distribution),
        people,
        budget,
        error_model_of(market),
        concentration=wanted.concentration,
        noise=wanted.noise,
        weight_cap=wanted.weight_cap,
        max_mean_epsilon=wanted.max_mean_epsilon,
    )


def plan_for(market: Market, people: int, budget: float, confidence: float | None = None) -> Plan:
    """Return the plan for a number of people and a budget, with a market's own or suggested prices.

    Parameters
    ----------
    market, people, budget
        As in :func:`prices_for`; the payment weight is planned.
    confidence
        The probability with which payments stay within the budget; None: they meet it on average.

    Raises
    ------
    InvalidInput, Infeasible, NotConverged
        What the plan refuses.
    """
    from dpmarket.planning import plan_payment_weight

    dist = to_distribution(market.costs.distribution)
    plan = plan_payment_weight(
        dist, prices_for(market, people, budget), people, budget, confidence=confidence
    )
    return replace(plan, error_model=error_model_of(market))


def prospect_for(market: Market, people: int, budget: float) -> Prospect:
    """Return what can be expected of a market's rule with another budget, met on average.

    Parameters
    ----------
    market, people, budget
        As in :func:`prices_for`.

    Raises
    ------
    InvalidInput, Infeasible, NotConverged
        What the plan refuses.
    """
    from dpmarket.planning import posted_prospect

    if market.objective.delta is not None:
        return plan_for_budget(market, people, budget).prospect
    if market.objective.mechanism == "posted price":
        return posted_prospect(_offer(market, people, budget), people, error_model_of(market))
    return plan_for(market, people, budget).prospect


def curve_for(market: Market, objective: BuyerObjective, people: int) -> Curve:
    """Return the curve by which sellers are quoted one by one: the best one, or one price for all.

    Parameters
    ----------
    market
        A checked market file; with a posted price it has a budget.
    objective
        As planned.
    people
        How many are expected.

    Raises
    ------
    FileProblem
        A posted price without a budget.
    InvalidInput, Infeasible
        What choosing the curve refuses.
    """
    from dpmarket.mechanisms import population_curve, posted_price_curve

    dist = to_distribution(market.costs.distribution)
    if market.objective.mechanism == "best":
        return population_curve(dist, objective, people)
    if market.objective.budget is None:
        raise FileProblem("objective.mechanism: expected a budget beside a posted price, found none.")
    offer = _offer(market, people, market.objective.budget)
    return posted_price_curve(dist, objective, people, offer.epsilon, offer.price)


def _offer(market: Market, people: int, budget: float) -> PostedPrice:
    from dpmarket.planning import best_posted_price

    return best_posted_price(
        to_distribution(market.costs.distribution),
        people,
        budget,
        error_model_of(market),
        weight_cap=market.objective.weight_cap,
        max_mean_epsilon=market.objective.max_mean_epsilon,
    )
