"""The announced market of a campaign: public tables from its rules, and what a budget buys with them.

Every decision of a campaign follows from four public values: the table of virtual costs, the objective (the
error constants of what is released), the table of epsilon costs, and a number of people or of reports. A
delta is another table and other constants, a cost shape another table; neither is another kind of market. No
report is an argument of anything here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.campaign.rules.columns import loss_of, norm_of
from dpmarket.campaign.rules.rules_file import Rules, rules_from, to_distribution
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import Infeasible
from dpmarket.mechanisms.cross_pricing import price_for_budget, weight_for_budget
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Group
from dpmarket.mechanisms.objective import AnyObjective, Objective, PaperObjective, objective_from_dict
from dpmarket.mechanisms.outcome import Outcome, decided
from dpmarket.mechanisms.plan import SMALL_MARKET, Plan, Prospect, plan
from dpmarket.mechanisms.price_schedule import (
    CostBins,
    PriceSchedule,
    posted_price,
    price_market,
)

if TYPE_CHECKING:
    from dpmarket.costs import CostDistribution
    from dpmarket.statistics.release import StatisticError

ONLINE, POSTED, OFFLINE, CROSS_PRICED = "online", "posted", "offline", "cross-priced"
_MARKETS = 8  # of spread-out quantiles, on which a small market's payments are simulated
_CLOSE = 5e-3  # relative: how closely they meet a budget
_PAPER_CAP = 3.0  # small markets raise a weight cap to at most 2.25 times the mean


F = TypeVar("F", bound=Callable[..., Any])


def remembered(function: F) -> F:
    """Remember what a function gave for the last few rules: plans take long, and rules are frozen."""

    @lru_cache(maxsize=32)
    def computed(text: str, *others: Any) -> Any:
        return function(rules_from(text), *others)

    @wraps(function)
    def wrapped(rules: Rules, *others: Any) -> Any:
        return computed(rules.model_dump_json(exclude_none=True), *others)

    return cast(F, wrapped)


@dataclass(frozen=True)
class Terms:
    """The public tables of a campaign.

    The distribution of costs is for plans only, never for a decision about a report. The objective has the
    rules' payment weight; with a budget its weight is only where the search for it starts.
    """

    distribution: CostDistribution
    virtual_cost: VirtualCost
    objective: AnyObjective
    epsilon_cost: EpsilonCost
    delta: float

    @property
    def group(self) -> Group:
        """The one stratum of all sellers."""
        return Group("all", 1.0, self.virtual_cost)

    def bins(self, people: int) -> CostBins:
        """Return the typical market of so many people."""
        return CostBins.typical(self.group, self.distribution, people)

    def public(self, mechanism: str, objective: AnyObjective, **more: Any) -> dict[str, Any]:
        """Return all that decides, as plain data: what is kept with a round and certified."""
        return {
            "mechanism": mechanism,
            "distribution": self.distribution.to_dict(),
            "virtual_cost": self.virtual_cost.to_dict(),
            "objective": objective.to_dict(),
            "epsilon_cost": self.epsilon_cost.to_dict(),
            "delta": self.delta,
            **more,
        }


@remembered
def terms_of(rules: Rules) -> Terms:
    """Return the public tables of a campaign's rules."""
    wanted, distribution = rules.objective, to_distribution(rules.costs.distribution)
    delta, shape, virtual_cost = rules.delta, rules.costs.shape, VirtualCost.of(distribution)
    objective: AnyObjective
    if wanted.concentration is not None and wanted.noise is not None:
        objective, epsilon_cost = _paper_terms(rules), EpsilonCost.identity()
    else:
        objective = replace(
            _error_constants(rules),
            payment_weight=wanted.payment_weight or 1.0,
            weight_cap=wanted.weight_cap,
            max_mean_epsilon=wanted.max_mean_epsilon,
        )
        # So fine that a seller with quadratic costs gains less than a minor unit by a misreport.
        tolerance = 1.0 / (rules.money.minor_units * virtual_cost.reserve_price)
        if delta:
            epsilon_cost = EpsilonCost.of_delta(delta, wanted.max_epsilon, shape, tolerance)
        else:
            epsilon_cost = EpsilonCost.identity(wanted.max_epsilon, shape, tolerance)
    return Terms(distribution, virtual_cost, objective, epsilon_cost, delta)


def _paper_terms(rules: Rules) -> PaperObjective:
    """Return the paper's objective, whose bounds together keep ``max_epsilon``: it has no table that ends."""
    wanted = rules.objective
    assert wanted.concentration is not None
    assert wanted.noise is not None
    cap = _PAPER_CAP if wanted.weight_cap is None else wanted.weight_cap
    mean = wanted.max_epsilon / max(cap, _PAPER_CAP)
    if wanted.max_mean_epsilon is not None:
        mean = min(mean, wanted.max_mean_epsilon)
    return PaperObjective(wanted.concentration, wanted.noise, wanted.payment_weight or 1.0, cap, mean)


def _error_constants(rules: Rules) -> Objective:
    """Return the expected squared error of what a campaign releases, from public facts."""
    if rules.statistics:
        error = _statistics_error(rules)
        return Objective(error.sampling, error.noise, 1.0)
    if rules.training.parameters is not None:
        return Objective.for_descent(rules.training.parameters)
    from dpmarket.privacy import Release

    norm, loss = norm_of(rules), loss_of(rules)
    if rules.objective.delta is not None:
        return Objective.for_descent(norm.n_coefficients * loss.outputs)
    return Objective(*Release(loss, norm, l2=1.0).error_constants(), 1.0)


def _statistics_error(rules: Rules) -> StatisticError:
    """Return the expected squared error of what is asked, and of guessing."""
    from dpmarket.statistics import SeveralStatistics

    statistics = {name: question.statistic() for name, question in rules.statistics.items()}
    shares = {name: question.share or 1.0 for name, question in rules.statistics.items()}
    only = next(iter(statistics.values()))
    return (only if len(statistics) == 1 else SeveralStatistics(statistics, shares)).error


@remembered
def online_schedule(rules: Rules) -> tuple[PriceSchedule, dict[str, Any]]:
    """Return the schedule by which sellers are quoted one by one, and all that decides as plain data.

    A function of the rules alone.
    """
    wanted, terms = rules.objective, terms_of(rules)
    if rules.campaign.mechanism == POSTED or wanted.confidence is None or wanted.budget is None:
        objective, schedule = _typical(rules, rules.people, wanted.budget)
    else:
        found = plan_for(rules, rules.people, wanted.budget)
        objective, schedule = found.objective, found.schedules[0]
    if schedule.largest_epsilon == 0.0:
        raise Infeasible("expected rules by which something is bought: raise the budget.")
    mechanism = "posted price" if rules.campaign.mechanism == POSTED else ONLINE
    return schedule, terms.public(mechanism, objective, schedule=schedule.to_dict())


def _typical(rules: Rules, people: int, budget: float | None) -> tuple[AnyObjective, PriceSchedule]:
    """Return what is offered in the typical market of so many people, and the objective by which it is."""
    terms, unit = terms_of(rules), 1.0 / rules.money.minor_units
    if rules.campaign.mechanism == POSTED:
        return terms.objective, _posted(rules, terms, people, budget or 0.0)
    bins = [terms.bins(people)]
    if budget is None:
        return terms.objective, price_market(bins, terms.objective, terms.epsilon_cost).schedules[0]
    weight, priced = price_for_budget(bins, terms.objective, terms.epsilon_cost, budget, unit)
    return terms.objective.with_payment_weight(weight), priced.schedules[0]


def _posted(rules: Rules, terms: Terms, people: int, budget: float) -> PriceSchedule:
    """Return the posted price with the least expected error for a budget."""
    found = plan_for(rules, people, budget)
    best = next((rule for rule in found.alternatives if rule.name == "best posted price"), None)
    if best is None:
        raise Infeasible("expected a budget for which one price can be posted: raise it, or expect more.")
    amount = terms.epsilon_cost.cost_of_epsilon(np.array([best.largest_epsilon]))
    return posted_price(best.largest_payment / float(amount[0]), best.largest_epsilon, terms.epsilon_cost)


def cross_priced_terms(rules: Rules) -> dict[str, Any]:
    """Return all that decides where parts of the sellers are priced by the others, but the salt.

    The search for each part's payment weight starts from that of the typical market: a function of the rules
    alone, as everything here.
    """
    terms, unit, budget = terms_of(rules), 1.0 / rules.money.minor_units, rules.objective.budget
    assert budget is not None
    bins = terms.bins(rules.people)
    start, _ = price_for_budget([bins], terms.objective, terms.epsilon_cost, budget, unit)
    objective = terms.objective.with_payment_weight(start)
    return terms.public(CROSS_PRICED, objective, budget=budget, minor_unit=unit)


def objective_for(rules: Rules, people: int) -> AnyObjective:
    """Return the exact mechanism's objective for so many reports, with the payment weight for a budget.

    In a small market one seller's report moves everybody's prices, so that the typical market pays too little
    attention to money: the weight is corrected until the mechanism itself, on a few markets of spread-out
    quantiles, spends the budget. They are the same each time, so that anybody can plan again.
    """
    terms, wanted = terms_of(rules), rules.objective
    if wanted.budget is None:
        return terms.objective
    if wanted.confidence is not None or people >= SMALL_MARKET:
        return plan_for(rules, people, wanted.budget).objective
    unit, rng = 1.0 / rules.money.minor_units, np.random.default_rng(0)
    quantiles = (np.arange(people) + rng.random((_MARKETS, people))) / people
    markets = [np.asarray(terms.distribution.quantile(row)) for row in quantiles]

    def spent(weight: float) -> float:
        objective = terms.objective.with_payment_weight(weight)
        mechanism = OfflineMechanism(terms.virtual_cost, objective, epsilon_cost=terms.epsilon_cost)
        return sum(float(mechanism.run(costs).rounded_payments(unit).sum()) for costs in markets) / _MARKETS

    bins = [terms.bins(people)]
    start, _ = price_for_budget(bins, terms.objective, terms.epsilon_cost, wanted.budget, unit)
    weight = weight_for_budget(spent, wanted.budget, start, _CLOSE)
    return terms.objective.with_payment_weight(weight)


@remembered
def plan_for(rules: Rules, people: int, budget: float) -> Plan:
    """Return what a budget buys from so many people: payment weight, expected error, simpler rules.

    Below 100 people markets are simulated, which takes seconds; :func:`prospect_for` does not.
    """
    terms = terms_of(rules)
    return plan(
        terms.distribution,
        terms.objective,
        max(people, 2),
        budget,
        probability=rules.objective.confidence,
        minor_unit=1.0 / rules.money.minor_units,
        epsilon_cost=terms.epsilon_cost,
    )


def prospect_for(rules: Rules, people: int, budget: float) -> Prospect:
    """Return what a budget lets expect in the typical market of so many people, by the rules' mechanism."""
    terms, unit = terms_of(rules), 1.0 / rules.money.minor_units
    bins, schedule = terms.bins(people), _typical(rules, people, budget)[1]
    epsilons, payments = schedule.quote(bins.costs)
    shares = terms.epsilon_cost.share(epsilons)
    total, bought = float(bins.counts @ shares), float(bins.counts[epsilons > 0.0].sum())
    if bought == 0.0:
        raise Infeasible("expected a budget that buys something: raise it.")
    squared_norm = float(bins.counts @ shares**2) / total**2
    return Prospect(
        rules.campaign.mechanism,
        float(bins.counts @ payments) + 0.5 * unit * bought,
        *terms.objective.errors(squared_norm, total),
        bought / people,
        float(bins.counts @ epsilons) / people,
        schedule.largest_epsilon,
        schedule.largest_payment,
    )


def guessing_error(rules: Rules) -> float:
    """Return the expected error at which a release is no better than a guess without any record.

    For statistics the squared error of guessing the middle of the public range; for a model the spread of one
    single record's gradient, which says nothing about everybody's.
    """
    if rules.statistics:
        return _statistics_error(rules).signal
    return _error_constants(rules).sampling_error


@remembered
def expected_error(rules: Rules) -> float | None:
    """Return the expected squared error of the release; None where the rules do not say of how many people.

    The paper's objective bounds another error; what is compared with guessing is always the squared one.
    """
    if rules.sellers.expected is None:
        return None
    terms, bins = terms_of(rules), terms_of(rules).bins(rules.people)
    schedule = _typical(rules, rules.people, rules.objective.budget)[1]
    shares = terms.epsilon_cost.share(schedule.quote(bins.costs)[0])
    total = float(bins.counts @ shares)
    if total == 0.0:
        return math.inf
    return sum(_error_constants(rules).errors(float(bins.counts @ shares**2) / total**2, total))


def noise_warning(rules: Rules) -> str | None:
    """Say that what is bought will probably be no better than a guess, in the buyer's words; None: it may."""
    try:
        expected = expected_error(rules)
    except Infeasible:
        expected = math.inf
    if expected is None or expected < guessing_error(rules):
        return None
    if rules.statistics:
        what = "the statistics will probably be no better than a guess without any record"
    elif rules.target is not None:
        what = "the model will probably be no better than always predicting the same number"
    else:
        assert rules.label is not None
        what = f"the model will probably be no better than always answering {rules.label.values[0]!r}"
    return f"With these rules {what}. Raise the budget, ask more people, or use fewer features."


def errors_of(rules: Rules, epsilons: FloatArray) -> tuple[float, float]:
    """Return the expected error of a release from people with these epsilons, by sampling and by noise."""
    terms = terms_of(rules)
    shares = terms.epsilon_cost.share(epsilons)
    total = float(shares.sum())
    if total == 0.0:
        return math.inf, math.inf
    return terms.objective.errors(float(shares @ shares) / total**2, total)


def budget_words(rules: Rules) -> str:
    """Say what a budget means under these rules, in the same words wherever a budget is shown."""
    if rules.campaign.mechanism != OFFLINE:
        return "never exceeded"
    if rules.objective.confidence is not None:
        return f"kept with a probability of {rules.objective.confidence:g} if the costs are as announced"
    return "met on average, within a few percent from 50 reports on"


def outcome_of(public: Mapping[str, Any], epsilons: FloatArray, payments: FloatArray) -> Outcome:
    """Return the outcome of epsilons and payments that were decided by these rules."""
    shares = EpsilonCost.from_dict(public["epsilon_cost"]).share(epsilons)
    total = float(shares.sum())
    weights = shares / total if total > 0.0 else shares
    return decided(epsilons, payments, weights, total, objective_from_dict(public["objective"]))


def schedule_of(public: Mapping[str, Any], reported_costs: FloatArray | int) -> PriceSchedule:
    """Return what rules offer at each cost: their schedule, or the optimum of a market.

    The market is everybody's report, or how many people the typical one has. Offline, one seller's own report
    moves the exact mechanism's prices a little, and each part of a cross-priced market has its own: this is
    the schedule of all of them together.
    """
    if "schedule" in public:
        return PriceSchedule.from_dict(public["schedule"])
    from dpmarket.costs import distribution_from_dict

    group = Group("all", 1.0, VirtualCost.from_dict(public["virtual_cost"]))
    if isinstance(reported_costs, int):
        bins = CostBins.typical(group, distribution_from_dict(public["distribution"]), reported_costs)
    else:
        bins = CostBins(group, np.sort(reported_costs), np.ones(reported_costs.size))
    objective, table = objective_from_dict(public["objective"]), EpsilonCost.from_dict(public["epsilon_cost"])
    if "budget" in public:
        priced = price_for_budget([bins], objective, table, public["budget"], public["minor_unit"])[1]
    else:
        priced = price_market([bins], objective, table)
    return priced.schedules[0]
