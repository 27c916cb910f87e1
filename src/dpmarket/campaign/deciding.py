"""Turn a market and reported costs into a decision: promises, payments, who is left out, what was planned.

Whatever is planned follows from the market file, the number of reports and earlier rounds; no report has any
part in it, so that truth stays everybody's best report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.market_file import Market, to_distribution
from dpmarket.campaign.pricing import curve_for, error_model_of, prices_for
from dpmarket.campaign.with_delta import decided_outcome, delta_curve, refuse_too_many
from dpmarket.errors import FileProblem, Infeasible, LedgerRefusal

if TYPE_CHECKING:
    from dpmarket.allocation import BuyerObjective
    from dpmarket.costs import CostDistribution
    from dpmarket.mechanisms import Curve, OnlineGaussianMechanism, Outcome
    from dpmarket.planning import Plan

# The mechanisms, which take a compiler along, load when they decide: most commands decide nothing.

_FEW = 10  # sellers; sums over fewer tell too much about each
_QUANTILES = 1 << 12  # of the typical market, from which its mean epsilon is taken


@dataclass(frozen=True)
class Remaining:
    """What earlier rounds of a campaign leave to the next one.

    Attributes
    ----------
    offline_rounds, online_rounds
        How many rounds were decided for all sellers at once, and how many seller by seller.
    available
        What of the budget is neither promised nor paid, in minor units; None without a budget.
    """

    offline_rounds: int = 0
    available: int | None = None
    online_rounds: int = 0


@dataclass(frozen=True, eq=False)
class Decision:
    """What was decided about the sellers of a file.

    Attributes
    ----------
    outcome
        Promises and payments of those who are quoted, in their order.
    amounts
        Their payments in minor units.
    quoted
        Which sellers of the file are quoted, shape (reports,); the others came when the budget was full.
    ceiling
        What nobody could be asked to give, known before any report; None if there is no such number.
    plan
        What a budget was planned to, as plain data; None without a budget.
    """

    outcome: Outcome
    amounts: IntArray
    quoted: BoolArray
    ceiling: float | None
    plan: Mapping[str, Any] | None


Decide = Callable[[Market, FloatArray, Remaining], Decision]
"""A way to turn a market and reported costs into a decision."""


def decide_offline(market: Market, costs: FloatArray, remaining: Remaining = Remaining()) -> Decision:  # noqa: B008
    """Decide for all sellers at once (the paper's Algorithm 2).

    Parameters
    ----------
    market
        A checked market file. With a budget, the payment weight is planned for as many people as reported, at
        most ``sellers.expected``: a count, which nobody's cost has any part in.
    costs
        Everybody's report, money per unit of epsilon, shape (m,).
    remaining
        What earlier rounds leave.

    Raises
    ------
    LedgerRefusal
        The budget was declared for fewer rounds.
    InvalidInput, Infeasible, NotConverged
        What the plan or the mechanism refuses.
    """
    from dpmarket.allocation import max_epsilon
    from dpmarket.mechanisms import OfflineMechanism

    if market.objective.delta is not None:
        return _decide_with_delta(market, costs, remaining)
    dist = to_distribution(market.costs.distribution)
    within = int((costs <= dist.support[1]).sum())
    objective, plan = offline_objective(market, costs.size, within, remaining)
    outcome = OfflineMechanism(dist, objective).run(costs)
    return Decision(
        outcome=_without_values_of_few(outcome),
        amounts=outcome.in_minor_units(market.money.minor_units).amounts,
        quoted=np.ones(costs.size, dtype=bool),
        ceiling=max_epsilon(objective),
        plan=None if plan is None else plan.to_dict(),
    )


def _decide_with_delta(market: Market, costs: FloatArray, remaining: Remaining) -> Decision:
    people = min(costs.size, market.sellers.expected or costs.size)
    outcome, ceiling, plan = decided_outcome(market, costs, people, float(_money(market, remaining)))
    amounts = outcome.in_minor_units(market.money.minor_units).amounts
    return Decision(outcome, amounts, np.ones(costs.size, dtype=bool), ceiling, plan)


def offline_objective(
    market: Market, reports: int, within: int, remaining: Remaining
) -> tuple[BuyerObjective, Plan | None]:
    """Return the objective by which all sellers are decided at once, and the plan of a budget.

    ``reports`` of them there are, ``within`` the distribution's upper end; no cost has any other part in it.
    """
    expected = market.sellers.expected
    people = reports if expected is None else min(reports, expected)
    objective, plan = planned_objective(market, people, _money(market, remaining), reports)
    if market.objective.weight_cap is None:
        objective = _for_few(objective, reports, within, market.objective.max_epsilon)
    return objective, plan


def decide_online(
    market: Market,
    costs: FloatArray,
    remaining: Remaining = Remaining(),  # noqa: B008
    *,
    planned: tuple[Curve | OnlineGaussianMechanism, Mapping[str, Any] | None] | None = None,
) -> Decision:
    """Decide seller by seller, in the file's order, by one curve fixed beforehand (the paper's Algorithm 3).

    What a seller is quoted depends on their own report only, so that a file may hold any part of the sellers
    who are expected, and others may follow in further files. With a budget, the curve's largest payment is
    set aside before a report is looked at; where there is no room for it, the budget is full for this seller
    and all who come later. Over all files the budget is never exceeded.

    Parameters
    ----------
    market
        A checked market file that says how many sellers are expected.
    costs
        As in :func:`decide_offline`.
    remaining
        What earlier rounds leave.
    planned
        What :func:`online_curve` returned for this market; None: it is planned now.

    Raises
    ------
    FileProblem
        The market file does not say how many sellers are expected.
    LedgerRefusal
        The budget is full for everybody in the file.
    """
    from dpmarket.mechanisms import Curve, OnlineMechanism

    curve, plan = online_curve(market) if planned is None else planned
    scale = market.money.minor_units
    _, amounts = curve.offers_in_minor_units(costs, scale)
    quoted = np.ones(costs.size, dtype=bool)
    if remaining.available is not None:
        before = np.cumsum(amounts) - amounts
        quoted = before <= remaining.available - curve.largest_amount(scale)
    refuse_full(market, curve, remaining, costs.size)
    refuse_too_many(market, int(quoted.sum()))
    rule = OnlineMechanism(curve.dist, curve) if isinstance(curve, Curve) else curve
    outcome = _without_values_of_few(rule.run(costs[quoted]))
    return Decision(outcome, amounts[quoted], quoted, curve.largest_epsilon, plan)


def refuse_full(
    market: Market, curve: Curve | OnlineGaussianMechanism, remaining: Remaining, sellers: int
) -> None:
    """Refuse so many sellers where what is left of the budget has no room for the first of them."""
    scale = market.money.minor_units
    if remaining.available is not None and remaining.available < curve.largest_amount(scale):
        raise LedgerRefusal(
            f"the budget is full: what is left of it is below {curve.largest_payment:.6g}, the curve's "
            f"largest payment. None of the {sellers} sellers can be quoted."
        )


def way_to_decide(market: Market, decide: Decide) -> Decide:
    """Return how a market decides: as asked for, or, where it posts one price for all, by that curve."""
    return decide_online if market.objective.mechanism == "posted price" else decide


def mechanism_of(decide: Decide) -> str:
    """Return the name of the mechanism that a way to decide is: ``online`` or ``offline``."""
    return "online" if decide is decide_online else "offline"


def is_one_by_one(mechanism: str) -> bool:
    """Whether a mechanism, by its name, quotes by one curve, with a delta or without."""
    return mechanism.startswith("online")


def online_curve(market: Market) -> tuple[Curve | OnlineGaussianMechanism, Mapping[str, Any] | None]:
    """Return the curve by which sellers who come one by one are quoted, and what a budget was planned to.

    A function of the market file alone.

    Raises
    ------
    FileProblem
        The market file does not say how many sellers are expected.
    """
    if market.sellers.expected is None:
        raise FileProblem(
            "sellers.expected: missing; expected a whole number >= 1, for which online quotes are planned."
        )
    budget_in_minor_units(market)  # refuses one with which nobody can be paid
    money = Fraction(market.objective.budget or 0)
    if market.objective.delta is not None:
        return delta_curve(market, market.sellers.expected, float(money))
    objective, plan = planned_objective(market, market.sellers.expected, money, market.sellers.expected)
    curve = curve_for(market, objective, market.sellers.expected)
    limit = market.objective.max_epsilon
    if curve.max_epsilon > limit:
        margin = min(curve.margin_epsilon, limit)
        curve = replace(curve, max_epsilon=limit, margin_epsilon=margin)
    return curve, None if plan is None else plan.to_dict()


def with_ceiling(market: Market, decide: Decide) -> tuple[float, Decide]:
    """Return what a market can ask of anybody, known before any report, and the way to decide that keeps it.

    Raises
    ------
    LedgerRefusal
        The market file says no such number.
    """
    if decide is decide_online:
        planned = online_curve(market)
        return planned[0].largest_epsilon, partial(decide_online, planned=planned)
    if market.objective.delta is not None:
        return market.objective.max_epsilon, decide
    cap, mean = market.objective.weight_cap, market.objective.max_mean_epsilon
    if cap is None or mean is None:
        raise LedgerRefusal(
            "sellers.lifetime_epsilon, of this campaign or of another one in the ledger, needs a number that "
            "nobody can be asked to exceed: set objective.weight_cap and objective.max_mean_epsilon, or "
            "quote --online."
        )
    return min(cap * mean, market.objective.max_epsilon), decide


def planned_objective(
    market: Market, people: int, money: Fraction, reports: int
) -> tuple[BuyerObjective, Plan | None]:
    """Return the buyer's objective for a number of people, and the plan of a budget if there is one.

    Parameters
    ----------
    market
        A checked market file.
    people
        For how many prices and payment weight are planned.
    money
        The budget, or what of it is for this round; without meaning where the file has none.
    reports
        How many will be quoted, at least as many: every payment is rounded up, so that more people cost more
        than was planned. Where that matters the payment weight is raised.

    Returns
    -------
    tuple[BuyerObjective, Plan | None]
        The objective, with bounds under which nobody can be asked for more than ``objective.max_epsilon``,
        and with the payment weight that meets the budget, rounding included; and the plan, or None.
    """
    wanted = market.objective
    dist = to_distribution(market.costs.distribution)
    objective = prices_for(market, people, float(money))
    if wanted.budget is None:
        return _limited(objective, dist, people, wanted.max_epsilon)[0], None
    from dpmarket.planning import plan_payment_weight
    from dpmarket.planning.budgets import stays_within

    def planned(objective: BuyerObjective, sellers: int) -> Plan:
        return plan_payment_weight(
            dist,
            objective,
            sellers,
            float(money),
            confidence=wanted.confidence,
            minor_units=market.money.minor_units,
        )

    plan = planned(objective, people)
    objective, narrow = _limited(plan.objective, dist, people, wanted.max_epsilon)
    if narrow:  # the limit changes what is bought, and so what it costs
        plan = planned(objective, people)
        objective = plan.objective
    scale, budget = market.money.minor_units, float(money)
    if reports > people and not stays_within(dist, objective, reports, budget, wanted.confidence, scale):
        for_all = planned(objective, reports)
        if for_all.objective.payment_weight > objective.payment_weight:
            plan, objective = for_all, for_all.objective
    return objective, replace(plan, objective=objective, error_model=error_model_of(market))


def budget_in_minor_units(market: Market) -> int | None:
    """Return the budget in whole minor units, rounded down; None if there is none.

    Raises
    ------
    Infeasible
        It is below the smallest unit.
    """
    if market.objective.budget is None:
        return None
    budget = math.floor(Fraction(market.objective.budget) * market.money.minor_units)
    if budget == 0:
        raise Infeasible(
            f"expected a budget of at least 1/{market.money.minor_units}, the smallest unit of money, got "
            f"{market.objective.budget!r}."
        )
    return budget


def round_budgets(market: Market) -> list[Fraction]:
    """Return what of the budget is declared for each offline round, in whole minor units over all of it.

    Raises
    ------
    Infeasible
        A budget with which nobody can be paid.
    """
    budget, units = market.objective.budget, budget_in_minor_units(market)
    if budget is None or units is None:
        return [Fraction(0)]
    whole = Fraction(units, market.money.minor_units)
    return [min(Fraction(budget) * Fraction(share), whole) for share in market.objective.shares or [1.0]]


def _money(market: Market, remaining: Remaining) -> Fraction:
    """Return what of the budget is for the next offline round: its declared share, or what is left."""
    objective = market.objective
    if objective.budget is None:
        return Fraction(0)
    if objective.shares is None and remaining.online_rounds:
        raise LedgerRefusal(
            "part of the budget was promised online: an offline round then needs its share of the budget "
            "beforehand (objective.shares)."
        )
    budgets = round_budgets(market)
    if remaining.offline_rounds >= len(budgets):
        declared, has = (
            ("the one round", "has") if len(budgets) == 1 else (f"the {len(budgets)} rounds", "have")
        )
        raise LedgerRefusal(
            f"the budget is used: {declared} for which it was declared {has} been quoted. Several offline "
            "rounds need their shares beforehand (objective.shares)."
        )
    money = budgets[remaining.offline_rounds]
    if remaining.available is not None:
        # Of earlier rounds only: nobody who reports now has any part in it.
        money = min(money, Fraction(remaining.available, market.money.minor_units))
    if money <= 0:
        raise LedgerRefusal("the budget is used: earlier rounds have left nothing of it.")
    return money


def _without_values_of_few(outcome: Outcome) -> Outcome:
    """Return an outcome without the objective's value where so few are bought from that it tells a cost."""
    few = int((outcome.epsilons > 0.0).sum()) < _FEW
    return replace(outcome, optimality=None) if few else outcome


def _limited(
    objective: BuyerObjective, dist: CostDistribution, people: int, limit: float
) -> tuple[BuyerObjective, bool]:
    """Return the objective with a weight cap and a mean epsilon whose product is at most the limit.

    Epsilon is at most their product. Where the buyer gave only one or neither, they are as far from the
    typical market's own as the limit allows, so that they rarely matter. Also returns whether they do in the
    typical market.
    """
    from dpmarket.mechanisms import population_curve

    cap, mean = objective.weight_cap, objective.max_mean_epsilon
    if mean is not None and cap is None:
        mean = min(mean, limit)
        cap = max(1.0, _quotient(limit, mean))
        return replace(objective, weight_cap=cap, max_mean_epsilon=mean), True
    if cap is not None and mean is not None:
        inside = cap * mean <= limit
        return replace(objective, max_mean_epsilon=mean if inside else _quotient(limit, cap)), not inside
    curve = population_curve(dist, objective, people)
    epsilons = curve.epsilons(dist.quantile((np.arange(_QUANTILES) + 0.5) / _QUANTILES))
    typical, largest = float(epsilons.mean()), float(epsilons.max())
    if cap is None:
        spread = largest / typical if typical > 0.0 else float(people)
        # Most of the room goes to the weights, of which a market of few sellers needs more.
        cap = max(1.0, spread * max(1.0, (limit / largest) ** 0.75 if largest > 0.0 else 1.0))
    mean = _quotient(limit, cap)
    return replace(objective, weight_cap=cap, max_mean_epsilon=mean), mean < typical


def _for_few(objective: BuyerObjective, reports: int, within: int, limit: float) -> BuyerObjective:
    """Return an objective under which few sellers within the distribution can have all of the weight.

    Whoever reports more than the distribution knows is never bought from. If so few are left that a weight
    cap of this module's own choice could not be kept, the limit bounds the total epsilon instead. Which of
    the two holds does not depend on what a seller within the distribution reports.
    """
    assert objective.weight_cap is not None
    if within * objective.weight_cap >= reports:
        return objective
    return without_cap(objective, reports, limit)


def without_cap(objective: BuyerObjective, sellers: int, limit: float) -> BuyerObjective:
    """Return an objective that caps no weight, and bounds the total epsilon by what one may be asked for."""
    return replace(objective, weight_cap=float(sellers), max_mean_epsilon=_quotient(limit, sellers))


def _quotient(limit: float, cap: float) -> float:
    """Return limit / cap, rounded down, so that their product is not above the limit."""
    return math.nextafter(limit / cap, 0.0)
