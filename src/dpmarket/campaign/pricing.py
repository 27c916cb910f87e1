"""Turn a market file into prices, a plan and a curve: the file's own, or those of the least expected error.

Everything here follows from the market file, a number of people and a budget; no report is an argument.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpmarket.campaign.market_file import Market, to_distribution
from dpmarket.errors import FileProblem

if TYPE_CHECKING:
    from dpmarket.allocation import BuyerObjective
    from dpmarket.mechanisms import Curve
    from dpmarket.planning import ErrorModel, Plan

# Planning takes a compiler along: it loads when something is planned.


def error_model_of(market: Market) -> ErrorModel:
    """Return what noise and few people cost the model that a market trains."""
    from dpmarket.planning import estimator_error

    return estimator_error(len(market.features))


def prices_for(market: Market, people: int, budget: float) -> BuyerObjective:
    """Return a market's objective: with its own prices, or with suggested ones where it has only a budget.

    Parameters
    ----------
    market : a checked market file. With either price in it, nothing is suggested; the other one is then 1.
    people : how many will be quoted.
    budget : expected total payment, money; without meaning if the file has a payment weight.

    Returns
    -------
    BuyerObjective
        With the file's payment weight, or one to start planning from.
    """
    from dpmarket.allocation import BuyerObjective
    from dpmarket.planning import freeze_prices

    wanted = market.objective
    if wanted.budget is None or wanted.concentration is not None or wanted.noise is not None:
        return BuyerObjective(
            1.0 if wanted.concentration is None else wanted.concentration,
            1.0 if wanted.noise is None else wanted.noise,
            1.0 if wanted.payment_weight is None else wanted.payment_weight,
            wanted.weight_cap,
            wanted.max_mean_epsilon,
        )
    return freeze_prices(
        to_distribution(market.costs.distribution),
        people,
        budget,
        error_model_of(market),
        weight_cap=wanted.weight_cap,
        max_mean_epsilon=wanted.max_mean_epsilon,
    )


def plan_for(market: Market, people: int, budget: float) -> Plan:
    """Return the plan for a number of people and a budget, with a market's own or suggested prices.

    Parameters
    ----------
    market, people, budget : as in :func:`prices_for`; the payment weight is planned.

    Raises
    ------
    InvalidInput, Infeasible, NotConverged : what the plan refuses.
    """
    from dpmarket.planning import plan_payment_weight

    dist = to_distribution(market.costs.distribution)
    objective = prices_for(market, people, budget)
    plan = plan_payment_weight(dist, objective, people, budget, market.objective.confidence)
    return replace(plan, error_model=error_model_of(market))


def curve_for(market: Market, objective: BuyerObjective, people: int) -> Curve:
    """Return the curve by which sellers are quoted one by one: the best one, or one price for all.

    Parameters
    ----------
    market : a checked market file; with a posted price it has a budget.
    objective : as planned.
    people : how many are expected.

    Raises
    ------
    FileProblem : a posted price without a budget.
    InvalidInput, Infeasible : what choosing the curve refuses.
    """
    from dpmarket.mechanisms import population_curve, posted_price_curve
    from dpmarket.planning import best_posted_price

    dist = to_distribution(market.costs.distribution)
    if market.objective.mechanism == "best":
        return population_curve(dist, objective, people)
    if market.objective.budget is None:
        raise FileProblem("objective.mechanism: expected a budget beside a posted price, found none.")
    offer = best_posted_price(
        dist,
        people,
        market.objective.budget,
        error_model_of(market),
        weight_cap=objective.weight_cap,
        max_mean_epsilon=objective.max_mean_epsilon,
    )
    return posted_price_curve(dist, objective, people, offer.epsilon, offer.price)
