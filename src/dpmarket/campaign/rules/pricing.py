"""The announced market of a campaign: public tables from its rules, and what a budget buys with them.

A delta is another table and other constants, a cost shape another table, and groups are several tables of
virtual costs; none is another kind of market. No report is an argument of anything here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.rules.columns import loss_of, norm_of
from dpmarket.campaign.rules.questions import several_of
from dpmarket.campaign.rules.rules_file import Rules, to_distribution
from dpmarket.costs.distribution import Mixture
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import Infeasible
from dpmarket.mechanisms.cross_pricing import price_for_budget
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.groups import Group, check_coverage, quotas
from dpmarket.mechanisms.objective import AnyObjective, Objective, PaperObjective, objective_from_dict
from dpmarket.mechanisms.outcome import Outcome, decided
from dpmarket.mechanisms.plan import SMALL_MARKET, Markets, Plan, Prospect, plan
from dpmarket.mechanisms.price_schedule import CostBins, PricedMarket, PriceSchedule, price_market

if TYPE_CHECKING:
    from dpmarket.costs import CostDistribution
    from dpmarket.statistics.release import StatisticError

ONLINE, POSTED, OFFLINE, CROSS_PRICED = "online", "posted", "offline", "cross-priced"
_SPREAD_OUT, _AT_RANDOM = 8, 60  # markets that are simulated: for an expectation, for a quantile
_REMEMBERED = 32  # rules of which plans are kept: they take long
_PAPER_CAP = 3.0  # small markets raise a weight cap to at most 2.25 times the mean


@dataclass(frozen=True)
class Terms:
    """The public tables of a campaign.

    Distributions of costs are for plans only, never for a decision about a report. The objective has the
    rules' payment weight; with a budget its weight is only where the search for it starts. Without
    ``[groups]`` there is one group of all sellers.
    """

    groups: tuple[Group, ...]
    distributions: tuple[CostDistribution, ...]  # one per group
    coverage: float  # infinite where shares are hard
    objective: AnyObjective
    epsilon_cost: EpsilonCost
    delta: float
    unit: float  # of money, to which payments are rounded up

    @property
    def distribution(self) -> CostDistribution:
        """The distribution of everybody's costs."""
        if len(self.groups) == 1:
            return self.distributions[0]
        return Mixture(self.distributions, [group.share for group in self.groups])

    @property
    def reserve_price(self) -> float:
        """The highest cost that anybody is bought from at."""
        return max(group.virtual_cost.reserve_price for group in self.groups)

    def sizes(self, people: int) -> tuple[int, ...]:
        """Return how many of so many people to expect in each group: its share."""
        return tuple(max(round(group.share * people), 1) for group in self.groups)

    def within(self, sizes: Sequence[int]) -> Terms:
        """Return the terms without the groups that nobody is in; the others' shares grow in proportion."""
        if 0 not in sizes:
            return self
        shares = [share for share in quotas(self.groups, sizes) if share > 0.0]
        kept = [g for g, size in enumerate(sizes) if size]
        groups = tuple(replace(self.groups[g], share=share) for g, share in zip(kept, shares, strict=True))
        return replace(self, groups=groups, distributions=tuple(self.distributions[g] for g in kept))

    def bins(self, people: int) -> list[CostBins]:
        """Return the typical market of so many people."""
        parts = zip(self.groups, self.distributions, strict=True)
        return [CostBins.typical(group, dist, group.share * people) for group, dist in parts]

    def market(self, sizes: Sequence[float]) -> Markets:
        """Return the typical market with all that judges a rule, from the number of people in each group."""
        each = list(zip(self.groups, self.distributions, sizes, strict=True))
        return Markets.typical(each, self.epsilon_cost, self.unit, difference=0.0)

    def markets(self, sizes: Sequence[int], uniform: FloatArray) -> Markets:
        """Return markets with groups of these sizes, one for each row of quantiles of their costs."""
        members, costs = np.repeat(np.arange(len(sizes)), sizes), np.empty(uniform.shape)
        for g, distribution in enumerate(self.distributions):
            costs[:, members == g] = distribution.quantile(uniform[:, members == g])
        ones = np.ones(members.size)
        return replace(self.market(sizes), membership=members, counts=ones, costs=tuple(costs))

    def for_budget(self, bins: Sequence[CostBins], budget: float) -> tuple[AnyObjective, PricedMarket]:
        """Return the objective with which a market spends a budget, and its prices."""
        tables, unit = self.epsilon_cost, self.unit
        weight, priced = price_for_budget(bins, self.objective, tables, budget, unit, coverage=self.coverage)
        return self.objective.with_payment_weight(weight), priced

    def public(self, mechanism: str, objective: AnyObjective, **more: Any) -> dict[str, Any]:
        """Return all that decides, as plain data: what is kept with a round and certified."""
        return {
            "mechanism": mechanism,
            "groups": [group.to_dict() for group in self.groups],
            "distributions": [distribution.to_dict() for distribution in self.distributions],
            "coverage": self.coverage if math.isfinite(self.coverage) else "hard",
            "objective": objective.to_dict(),
            "epsilon_cost": self.epsilon_cost.to_dict(),
            "delta": self.delta,
            **more,
        }


@lru_cache(maxsize=_REMEMBERED)
def terms_of(rules: Rules) -> Terms:
    """Return the public tables of a campaign's rules."""
    wanted, delta, shape = rules.objective, rules.delta, rules.costs.shape
    everybody = to_distribution(rules.costs.distribution)
    distributions = [
        everybody if own.distribution is None else to_distribution(own.distribution)
        for own in rules.groups.values()
    ] or [everybody]
    named = zip(rules.shares.items(), distributions, strict=True)
    groups = tuple(Group(name, share, VirtualCost.of(dist)) for (name, share), dist in named)
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
        highest = max(group.virtual_cost.reserve_price for group in groups)
        tolerance = 1.0 / (rules.money.minor_units * highest)
        if delta:
            epsilon_cost = EpsilonCost.of_delta(delta, wanted.max_epsilon, shape, tolerance)
        else:
            epsilon_cost = EpsilonCost.identity(wanted.max_epsilon, shape, tolerance)
    coverage = check_coverage("hard" if wanted.coverage is None else wanted.coverage)
    unit = 1.0 / rules.money.minor_units
    return Terms(groups, tuple(distributions), coverage, objective, epsilon_cost, delta, unit)


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
    squared = norm.row_bound_2**2  # for rows of length 1, so that errors compare over features
    sampling, noise = Release(loss, norm, l2=1.0).error_constants()
    return Objective(sampling / squared, noise / squared, 1.0)


def _statistics_error(rules: Rules) -> StatisticError:
    """Return the expected squared error of what is asked, and of guessing."""
    several = several_of(rules.statistics)
    only = next(iter(several.statistics.values()))
    return (only if len(several.statistics) == 1 else several).error


@lru_cache(maxsize=_REMEMBERED)
def online_schedules(rules: Rules) -> tuple[tuple[PriceSchedule, ...], dict[str, Any]]:
    """Return the schedules for sellers one by one, one per group, and all that decides."""
    wanted, terms = rules.objective, terms_of(rules)
    if rules.campaign.mechanism == POSTED or wanted.confidence is None or wanted.budget is None:
        objective, schedules = _typical(rules, rules.people, wanted.budget)
    else:
        objective, bins = objective_for(rules, terms.sizes(rules.people)), terms.bins(rules.people)
        schedules = price_market(bins, objective, terms.epsilon_cost, terms.coverage).schedules
    if max(schedule.largest_epsilon for schedule in schedules) == 0.0:
        raise Infeasible("expected rules by which something is bought: raise the budget.")
    mechanism = "posted price" if rules.campaign.mechanism == POSTED else ONLINE
    offered = [schedule.to_dict() for schedule in schedules]
    return schedules, terms.public(mechanism, objective, schedules=offered)


def _typical(
    rules: Rules, people: int, budget: float | None
) -> tuple[AnyObjective, tuple[PriceSchedule, ...]]:
    """Return what is offered in the typical market of so many people, and the objective by which it is."""
    terms = terms_of(rules)
    if rules.campaign.mechanism == POSTED:
        name = "best posted price" if len(terms.groups) == 1 else "posted price per group"
        rules_of_one_price = plan_for(rules, people, budget or 0.0).alternatives
        best = next((rule.schedules for rule in rules_of_one_price if rule.name == name), None)
        if best is None:
            raise Infeasible("expected a budget for which one price can be posted: raise it, or expect more.")
        return terms.objective, best
    if budget is None:
        priced = price_market(terms.bins(people), terms.objective, terms.epsilon_cost, terms.coverage)
        return terms.objective, priced.schedules
    objective, priced = terms.for_budget(terms.bins(people), budget)
    return objective, priced.schedules


@lru_cache(maxsize=_REMEMBERED)
def objective_for(rules: Rules, sizes: tuple[int, ...]) -> AnyObjective:
    """Return the exact mechanism's objective for so many reports per group, at the weight for a budget.

    In a small market one seller's report moves everybody's prices, so that the typical market pays too little
    attention to money: the weight is corrected until the mechanism itself, on a few markets of spread-out
    quantiles, spends the budget. They are the same each time, so that anybody can plan again.
    """
    terms, budget, confidence = terms_of(rules), rules.objective.budget, rules.objective.confidence
    if budget is None:
        return terms.objective
    terms, sizes = terms.within(sizes), tuple(size for size in sizes if size)
    market, people = terms.market(sizes), sum(sizes)
    if people >= SMALL_MARKET:
        return market.for_budget(terms.objective, budget, confidence, terms.coverage)
    start = market.for_budget(terms.objective, budget, None, terms.coverage)
    rng = np.random.default_rng(0)
    if confidence is None:
        places = np.concatenate([np.arange(size) for size in sizes])
        quantiles = (places + rng.random((_SPREAD_OUT, people))) / np.repeat(sizes, sizes)
    else:
        quantiles = rng.random((_AT_RANDOM, people))
    return terms.markets(sizes, quantiles).for_budget(start, budget, confidence, terms.coverage)


@lru_cache(maxsize=_REMEMBERED)
def plan_for(rules: Rules, people: int, budget: float) -> Plan:
    """Return what a budget buys from so many people: error, simpler rules, weight."""
    terms = terms_of(rules)
    sizes, several = terms.sizes(people), len(terms.groups) > 1
    return plan(
        terms.distributions if several else terms.distributions[0],
        terms.objective,
        [max(size, 2) for size in sizes] if several else max(sizes[0], 2),
        budget,
        probability=rules.objective.confidence,
        minor_unit=1.0 / rules.money.minor_units,
        epsilon_cost=terms.epsilon_cost,
        groups=terms.groups if several else None,
        coverage=terms.coverage,
    )


@lru_cache(maxsize=_REMEMBERED)
def prospect_for(rules: Rules, people: int, budget: float | None) -> Prospect:
    """Return what a budget lets expect in the typical market, always the squared error, by the rules."""
    terms, (_, schedules) = terms_of(rules), _typical(rules, people, budget)
    market = terms.market([group.share * people for group in terms.groups])
    found = market.quoted(rules.campaign.mechanism, _error_constants(rules), schedules)
    if found.share_bought == 0.0:
        raise Infeasible("expected a budget that buys something: raise it.")
    return found


def guessing_error(rules: Rules) -> float:
    """Return the expected error at which a release is no better than a guess without any record.

    For statistics the squared error of guessing the middle of the public range; for a model the spread of one
    single record's gradient, which says nothing about everybody's.
    """
    if rules.statistics:
        return _statistics_error(rules).signal
    return _error_constants(rules).sampling_error


def noise_warning(rules: Rules) -> str | None:
    """Say that what is bought will probably be no better than a guess, in the buyer's words; None: it may."""
    if rules.sellers.expected is None:
        return None
    with contextlib.suppress(Infeasible):
        found = prospect_for(rules, rules.people, rules.objective.budget)
        if found.error < guessing_error(rules):
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
    return terms.objective.errors(float(shares @ shares) / max(total, 1e-150) ** 2, total)


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


def schedules_of(
    public: Mapping[str, Any], reported_costs: FloatArray | int, membership: IntArray | None = None
) -> tuple[PriceSchedule, ...]:
    """Return what rules offer each group at each cost: their schedules, or the optimum of a market.

    The market is everybody's report, or how many people the typical one has. Of a cross-priced market, whose
    parts have their own schedules, these are the ones of all parts together.
    """
    if "schedules" in public:
        return tuple(map(PriceSchedule.from_dict, public["schedules"]))
    terms = terms_in(public)
    if isinstance(reported_costs, int):
        bins = terms.bins(reported_costs)
    else:
        members = np.zeros(reported_costs.size, dtype=np.int64) if membership is None else membership
        own = [np.sort(reported_costs[members == g]) for g in range(len(terms.groups))]
        bins = [CostBins(group, one, np.ones(one.size)) for group, one in zip(terms.groups, own, strict=True)]
    if "budget" in public:
        return terms.for_budget(bins, public["budget"])[1].schedules
    return price_market(bins, terms.objective, terms.epsilon_cost, terms.coverage).schedules


def terms_in(public: Mapping[str, Any]) -> Terms:
    """Return the tables of public rules, as :meth:`Terms.public` writes them."""
    from dpmarket.costs.text import distribution_from_dict

    return Terms(
        tuple(
            Group(group["name"], group["share"], VirtualCost.from_dict(group["virtual_cost"]))
            for group in public["groups"]
        ),
        tuple(map(distribution_from_dict, public["distributions"])),
        check_coverage(public["coverage"]),
        objective_from_dict(public["objective"]),
        EpsilonCost.from_dict(public["epsilon_cost"]),
        public["delta"],
        public.get("minor_unit", 0.01),
    )
