"""The announced market of a campaign: public tables from its rules, and what a budget buys with them.

Every decision of a campaign follows from four public values: the table of virtual costs, the objective (the
error constants of what is released), the table of epsilon costs, and a number of people or of reports. A
delta is another table and other constants, a cost shape another table, and groups are several tables of
virtual costs; none is another kind of market. No report is an argument of anything here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.rules.columns import loss_of, norm_of
from dpmarket.campaign.rules.rules_file import Rules, rules_from, to_distribution
from dpmarket.costs.distribution import Mixture
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import Infeasible
from dpmarket.mechanisms.cross_pricing import price_for_budget, weight_for_budget
from dpmarket.mechanisms.epsilon_cost import EpsilonCost
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.groups import Coverage, Group, check_coverage, quotas
from dpmarket.mechanisms.objective import AnyObjective, Objective, PaperObjective, objective_from_dict
from dpmarket.mechanisms.outcome import Outcome, decided
from dpmarket.mechanisms.plan import SMALL_MARKET, Markets, Plan, Prospect, plan
from dpmarket.mechanisms.price_schedule import (
    CostBins,
    PricedMarket,
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

    @property
    def names(self) -> list[str]:
        """The groups' names."""
        return [group.name for group in self.groups]

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
        shares = [share for share in quotas(self.groups, sizes) if share > 0.0]
        kept = [g for g, size in enumerate(sizes) if size]
        groups = tuple(replace(self.groups[g], share=share) for g, share in zip(kept, shares, strict=True))
        return replace(self, groups=groups, distributions=tuple(self.distributions[g] for g in kept))

    def bins(self, people: int) -> list[CostBins]:
        """Return the typical market of so many people."""
        parts = zip(self.groups, self.distributions, strict=True)
        return [CostBins.typical(group, dist, group.share * people) for group, dist in parts]

    def market(self, people: int, unit: float) -> Markets:
        """Return the same with all that judges a rule; payments are rounded up to a unit of money."""
        each = [(g, dist, g.share * people) for g, dist in zip(self.groups, self.distributions, strict=True)]
        return Markets.typical(each, self.epsilon_cost, unit, difference=0.0)

    def for_budget(self, bins: Sequence[CostBins], budget: float, unit: float) -> tuple[float, PricedMarket]:
        """Return the payment weight at which a market spends a budget, and its prices."""
        return price_for_budget(bins, self.objective, self.epsilon_cost, budget, unit, coverage=self.coverage)

    def exact(self, objective: AnyObjective) -> OfflineMechanism:
        """Return the exact mechanism."""
        coverage: Coverage = self.coverage if math.isfinite(self.coverage) else "hard"
        return OfflineMechanism(
            None, objective, epsilon_cost=self.epsilon_cost, groups=self.groups, coverage=coverage
        )

    def markets(self, sizes: Sequence[int], uniform: FloatArray) -> list[tuple[FloatArray, IntArray]]:
        """Return costs and groups of markets with groups of these sizes, one for each row of quantiles."""
        members = np.repeat(np.arange(len(sizes)), sizes)
        costs = np.empty(uniform.shape)
        for g, distribution in enumerate(self.distributions):
            costs[:, members == g] = distribution.quantile(uniform[:, members == g])
        return [(row, members) for row in costs]

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


@remembered
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
    return Terms(groups, tuple(distributions), coverage, objective, epsilon_cost, delta)


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
def online_schedules(rules: Rules) -> tuple[tuple[PriceSchedule, ...], dict[str, Any]]:
    """Return the schedules by which sellers are quoted one by one, one per group, and all that decides.

    A function of the rules alone.
    """
    wanted, terms = rules.objective, terms_of(rules)
    if rules.campaign.mechanism == POSTED or wanted.confidence is None or wanted.budget is None:
        objective, schedules = _typical(rules, rules.people, wanted.budget)
    else:
        found = plan_for(rules, rules.people, wanted.budget)
        objective, schedules = found.objective, found.schedules
    if max(schedule.largest_epsilon for schedule in schedules) == 0.0:
        raise Infeasible("expected rules by which something is bought: raise the budget.")
    mechanism = "posted price" if rules.campaign.mechanism == POSTED else ONLINE
    offered = [schedule.to_dict() for schedule in schedules]
    return schedules, terms.public(mechanism, objective, schedules=offered)


def _typical(
    rules: Rules, people: int, budget: float | None
) -> tuple[AnyObjective, tuple[PriceSchedule, ...]]:
    """Return what is offered in the typical market of so many people, and the objective by which it is."""
    terms, unit = terms_of(rules), 1.0 / rules.money.minor_units
    if rules.campaign.mechanism == POSTED:
        return terms.objective, _posted(rules, people, budget or 0.0)
    if budget is None:
        priced = price_market(terms.bins(people), terms.objective, terms.epsilon_cost, terms.coverage)
        return terms.objective, priced.schedules
    weight, priced = terms.for_budget(terms.bins(people), budget, unit)
    return terms.objective.with_payment_weight(weight), priced.schedules


def _posted(rules: Rules, people: int, budget: float) -> tuple[PriceSchedule, ...]:
    """Return the posted price, of each group if there are several, with the least error for a budget."""
    found, terms = plan_for(rules, people, budget), terms_of(rules)
    several = len(terms.groups) > 1
    name = "posted price per group" if several else "best posted price"
    best = next((rule for rule in found.alternatives if rule.name == name), None)
    if best is None:
        raise Infeasible("expected a budget for which one price can be posted: raise it, or expect more.")
    if several:
        return best.schedules
    amount = terms.epsilon_cost.cost_of_epsilon(np.array([best.largest_epsilon]))
    price = best.largest_payment / float(amount[0])
    return (posted_price(price, best.largest_epsilon, terms.epsilon_cost),)


def money_by_group(rules: Rules) -> list[float]:
    """Return each group's part of what online sellers are expected to be paid; parts add up to 1."""
    found = zip(online_schedules(rules)[0], terms_of(rules).bins(rules.people), strict=True)
    expected = np.array([float(bins.counts @ schedule.quote(bins.costs)[1]) for schedule, bins in found])
    parts: list[float] = (expected / expected.sum()).tolist()
    return parts


def cross_priced_terms(rules: Rules) -> dict[str, Any]:
    """Return all that decides where parts of the sellers are priced by the others, but the salt.

    The search for each part's payment weight starts from that of the typical market: a function of the rules
    alone, as everything here.
    """
    terms, unit, budget = terms_of(rules), 1.0 / rules.money.minor_units, rules.objective.budget
    assert budget is not None
    start, _ = terms.for_budget(terms.bins(rules.people), budget, unit)
    objective = terms.objective.with_payment_weight(start)
    return terms.public(CROSS_PRICED, objective, budget=budget, minor_unit=unit)


def objective_for(rules: Rules, sizes: Sequence[int]) -> AnyObjective:
    """Return the exact mechanism's objective for so many reports per group, at the weight for a budget.

    In a small market one seller's report moves everybody's prices, so that the typical market pays too little
    attention to money: the weight is corrected until the mechanism itself, on a few markets of spread-out
    quantiles, spends the budget. They are the same each time, so that anybody can plan again.
    """
    terms, wanted = terms_of(rules), rules.objective
    if wanted.budget is None:
        return terms.objective
    people = sum(sizes)
    if wanted.confidence is not None or people >= SMALL_MARKET:
        return plan_for(rules, tuple(sizes), wanted.budget).objective
    unit, rng = 1.0 / rules.money.minor_units, np.random.default_rng(0)
    places = np.concatenate([np.arange(size) for size in sizes])
    quantiles = (places + rng.random((_MARKETS, people))) / np.repeat(sizes, sizes)
    markets = terms.markets(sizes, quantiles)

    def spent(weight: float) -> float:
        mechanism = terms.exact(terms.objective.with_payment_weight(weight))
        return sum(float(mechanism.run(*each).rounded_payments(unit).sum()) for each in markets) / _MARKETS

    start, _ = terms.for_budget(terms.bins(people), wanted.budget, unit)
    weight = weight_for_budget(spent, wanted.budget, start, _CLOSE)
    return terms.objective.with_payment_weight(weight)


@remembered
def plan_for(rules: Rules, people: int | tuple[int, ...], budget: float) -> Plan:
    """Return what a budget buys from so many people, in all or by group: error, simpler rules, weight.

    Below 100 people markets are simulated, which takes seconds; :func:`prospect_for` does not.
    """
    terms = terms_of(rules)
    sizes = terms.sizes(people) if isinstance(people, int) else people
    if 0 in sizes:  # groups without a report leave their share to the others
        terms, sizes = terms.within(sizes), tuple(size for size in sizes if size)
    several = len(terms.groups) > 1
    return plan(
        terms.distributions if several else terms.distributions[0],
        terms.objective,
        [max(size, 2) for size in sizes] if several else max(sizes[0], 2),
        budget,
        probability=rules.objective.confidence,
        minor_unit=1.0 / rules.money.minor_units,
        epsilon_cost=terms.epsilon_cost,
        groups=terms.groups if several else None,
        coverage=terms.coverage if math.isfinite(terms.coverage) else "hard",
    )


def prospect_for(rules: Rules, people: int, budget: float) -> Prospect:
    """Return what a budget lets expect in the typical market of so many people, by the rules' mechanism."""
    terms, (_, schedules) = terms_of(rules), _typical(rules, people, budget)
    found = terms.market(people, 1.0 / rules.money.minor_units).quoted(
        rules.campaign.mechanism, terms.objective, schedules
    )
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


@remembered
def expected_error(rules: Rules) -> float | None:
    """Return the expected squared error of the release; None where the rules do not say of how many people.

    The paper's objective bounds another error; what is compared with guessing is always the squared one.
    """
    if rules.sellers.expected is None:
        return None
    schedules = _typical(rules, rules.people, rules.objective.budget)[1]
    market = terms_of(rules).market(rules.people, 1.0 / rules.money.minor_units)
    return market.quoted("", _error_constants(rules), schedules).error


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

    The market is everybody's report, or how many people the typical one has. Offline, one seller's own report
    moves the exact mechanism's prices a little, and each part of a cross-priced market has its own: these are
    the schedules of all of them together.
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
        return terms.for_budget(bins, public["budget"], public["minor_unit"])[1].schedules
    return price_market(bins, terms.objective, terms.epsilon_cost, terms.coverage).schedules


def terms_in(public: Mapping[str, Any]) -> Terms:
    """Return the tables of public rules, as :meth:`Terms.public` writes them."""
    from dpmarket.costs.text import distribution_from_dict

    return Terms(
        groups_in(public),
        tuple(map(distribution_from_dict, public["distributions"])),
        check_coverage(public["coverage"]),
        objective_from_dict(public["objective"]),
        EpsilonCost.from_dict(public["epsilon_cost"]),
        public["delta"],
    )


def groups_in(public: Mapping[str, Any]) -> tuple[Group, ...]:
    """Return the groups of public rules."""
    return tuple(
        Group(group["name"], group["share"], VirtualCost.from_dict(group["virtual_cost"]))
        for group in public["groups"]
    )


def everybodys_costs(public: Mapping[str, Any]) -> CostDistribution:
    """Return the distribution of everybody's costs, of public rules."""
    return terms_in(public).distribution
