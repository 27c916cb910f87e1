"""Turn a market whose promises have a delta into prices, a curve, and a decision about all sellers at once.

The siblings of what :mod:`dpmarket.campaign.deciding` does without a delta. What is planned follows from the
market file, a number of people and a budget; no report is an argument.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpmarket.campaign.features import gaussian_rows, rows_of_market
from dpmarket.campaign.market_file import Market, label_of, to_distribution
from dpmarket.errors import LedgerRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpmarket.arrays import FloatArray
    from dpmarket.mechanisms import OnlineGaussianMechanism, Outcome
    from dpmarket.planning import ErrorModel, GaussianPlan, GaussianTask, NoiseComparison, Plan


def delta_of(market: Market) -> float:
    """Return the delta of a market's promises, 0 without one."""
    return market.objective.delta or 0.0


def most_people(delta: float) -> int:
    """Return how many people may have promises with a delta together: the deltas of all add up to a tenth."""
    most = max(math.floor(0.1 / delta) - 1, 0)
    while 1.0 / (10.0 * (most + 1)) >= delta:
        most += 1
    return most


def refuse_too_many(market: Market, people: int) -> None:
    """Refuse more people than a market's delta allows.

    Raises
    ------
    LedgerRefusal
        Says how many it allows, and why.
    """
    delta = delta_of(market)
    if delta and people > most_people(delta):
        raise LedgerRefusal(
            f"objective.delta = {delta:g} allows promises to at most {most_people(delta):,} people, whose "
            f"deltas add up to a tenth, and these would be {people:,}: publishing the records of a few "
            "people drawn at random would keep such promises. Nothing was promised."
        )


def gaussian_error_of(market: Market) -> ErrorModel:
    """Return what few people and Gaussian noise cost the model that a market trains, in units of all mu."""
    from dpmarket.planning import gaussian_error

    rows = gaussian_rows(market)
    return gaussian_error(rows.n_coefficients, rows.row_bound, len(label_of(market).values))


def error_with_delta(market: Market, people: int, promised: float) -> float:
    """Return the error to expect of so many people with even weights and so much epsilon in all.

    What a promise lets noise move is taken at the mean promise, without the penalty's share.
    """
    import numpy as np

    from dpmarket.privacy.gaussian import vertex_bounds

    bound = vertex_bounds(len(label_of(market).values), market.sellers.rows_per_person)[0]
    mean = np.array([promised / people])
    mu = float(bound.largest_mu(mean, np.array([delta_of(market)]), 1e50)[0])
    return gaussian_error_of(market).predict(1.0 / people, mu * people).total


def task_of(market: Market, people: int) -> GaussianTask:
    """Return what is public about a market with a delta, for so many people."""
    from dpmarket.planning import GaussianTask

    rows = gaussian_rows(market)
    return GaussianTask(
        dist=to_distribution(market.costs.distribution),
        sellers=people,
        error_model=gaussian_error_of(market),
        delta=delta_of(market),
        n_coefficients=rows.n_coefficients,
        row_bound=rows.row_bound,
        n_classes=len(label_of(market).values),
        rows_per_person=market.sellers.rows_per_person,
        max_epsilon=market.objective.max_epsilon,
    )


def plan_all_at_once(market: Market, people: int, budget: float) -> GaussianPlan:
    """Return the prices for all sellers at once: with the file's payment weight, or planned for a budget."""
    from dpmarket.planning import gaussian_prices, plan_gaussian_market

    task, weight = task_of(market, people), market.objective.payment_weight
    if weight is not None:
        return gaussian_prices(task, weight)
    return plan_gaussian_market(task, budget, market.money.minor_units)


def plan_for_budget(market: Market, people: int, budget: float) -> GaussianPlan:
    """Return the prices for all sellers at once that another budget, or number of people, would have.

    More people than the market's delta allows are refused.
    """
    from dpmarket.planning import plan_gaussian_market

    refuse_too_many(market, people)
    return plan_gaussian_market(task_of(market, people), budget, market.money.minor_units)


def gain_by_delta(market: Market, plan: Plan) -> NoiseComparison | None:
    """Return what a delta would gain a plan of a market without one; None where no model is trained."""
    from dpmarket.planning import delta_gain

    if market.label is None:
        return None
    rows = rows_of_market(market)
    return delta_gain(plan, rows.features, len(label_of(market).values), rows.shape)


def noises_for(market: Market, plan: GaussianPlan) -> NoiseComparison:
    """Return the error of a plan with every noise, if those bought from were promised its mean epsilon."""
    from dpmarket.planning import compare_noises

    rows, people = rows_of_market(market), max(round(plan.share_bought * plan.sellers), 1)
    return compare_noises(
        [plan.mean_promise] * people,
        rows.features,
        delta_of(market),
        noise_shape=rows.shape,
        n_classes=len(label_of(market).values),
    )


def plan_one_by_one(market: Market, people: int, budget: float) -> GaussianPlan:
    """Return the prices for sellers who come one by one."""
    from dpmarket.planning import gaussian_prices, plan_gaussian

    task, weight = task_of(market, people), market.objective.payment_weight
    if weight is not None:
        return gaussian_prices(task, weight)
    return plan_gaussian(task, budget, market.money.minor_units)


def decided_outcome(
    market: Market, costs: FloatArray, people: int, budget: float
) -> tuple[Outcome, float, Mapping[str, Any] | None]:
    """Return what is decided for all sellers at once, what nobody could be asked to exceed, and the plan.

    Raises
    ------
    LedgerRefusal
        More sellers than the delta allows.
    InvalidInput, Infeasible
        What planning or the mechanism refuses.
    """
    from dpmarket.mechanisms import GaussianMechanism

    refuse_too_many(market, costs.size)
    plan = plan_all_at_once(market, people, budget)
    objective = plan.objective
    outcome = GaussianMechanism(to_distribution(market.costs.distribution), objective).run(costs)
    told = None if market.objective.budget is None else plan.to_dict()
    return outcome, objective.ceiling, told


def delta_curve(market: Market, people: int, budget: float) -> tuple[OnlineGaussianMechanism, Any]:
    """Return the curve by which sellers who come one by one are quoted, and the plan of a budget."""
    from dpmarket.mechanisms import OnlineGaussianMechanism

    plan = plan_one_by_one(market, people, budget)
    rule = OnlineGaussianMechanism(to_distribution(market.costs.distribution), plan.objective)
    told = None if market.objective.budget is None else plan.to_dict()
    return OnlineGaussianMechanism(
        rule.dist, rule.objective, rule.planned.noise_rate, rule.planned.multiplier
    ), told
