"""What follows from a campaign's rules before anybody reports: the opening, and how reports are decided.

Opening a campaign builds no array of expected sellers; the typical market is quantile bins with counts.
"""

import math
from collections.abc import Mapping

import numpy as np

from dpmarket.campaign import money
from dpmarket.campaign.campaigns import Draft, Opening
from dpmarket.campaign.quoting import Decide, Decision, Reports, priced
from dpmarket.campaign.release import network_of
from dpmarket.campaign.rules import decision, pricing
from dpmarket.campaign.rules.encoding import record_bytes
from dpmarket.campaign.rules.rules_file import Rules, rules_from
from dpmarket.campaign.transaction import Campaign
from dpmarket.errors import Infeasible
from dpmarket.mechanisms.objective import AnyObjective
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.plan import SMALL_MARKET
from dpmarket.mechanisms.price_schedule import PriceSchedule, price_market

_SIMULATED = 60  # markets, for what escrow should hold for few sellers
_SURE = 3.5  # standard deviations: more than 99.9%, with room for their own error from so few markets
# Of the budget, for cross-priced campaigns: so much, and so much over the effective number of sellers who are
# paid. Above the 99% quantiles of docs/tables/budgets.md.
_CROSS_PRICED, _CROSS_PRICED_FEW = 0.02, 2.5
NO_CURRENCY = "XXX"


def opening_of(rules: Rules) -> Opening:
    """Return what is frozen when a campaign of these rules opens.

    Online that is the price schedule, its largest payment and epsilon; offline the rules' largest epsilon,
    and an escrow that payments exceed in at most one of a hundred markets.
    """
    if rules.training.model is not None:
        network_of(rules)  # refuses code that is not here, or another
    warning = pricing.noise_warning(rules)
    if rules.campaign.mechanism != pricing.OFFLINE:
        schedules, _ = pricing.online_schedules(rules)
        payments = np.array([schedule.largest_payment for schedule in schedules])
        largest = max(int(whole_units(payments, rules.money.minor_units).max()), 1)
        allot = _allotted(rules, largest)
        return Opening(
            offer={pool: one.to_dict() for pool, one in zip(pools_of(rules), schedules, strict=True)},
            largest=largest,
            ceiling=max(schedule.largest_epsilon for schedule in schedules),
            delta=rules.delta,
            escrow=max(largest, sum(allot.values())),
            allot=allot,
            warning=warning,
        )
    budget = decision.budget_in_minor_units(rules) or 0
    likely = 0 if rules.sellers.expected is None else likely_total(rules)
    escrow = max(likely, budget, 1)
    return Opening(ceiling=rules.objective.max_epsilon, delta=rules.delta, escrow=escrow, warning=warning)


def pools_of(rules: Rules) -> list[str]:
    """Return the account of escrow that sellers of each group are paid from."""
    return [money.pool_of(name) for name in rules.groups] or [money.pool_of(None)]


def _allotted(rules: Rules, largest: int) -> dict[str, int]:
    """Return each group's escrow: its expected part of the budget, or its quota times the largest payment."""
    budget, groups = decision.budget_in_minor_units(rules), rules.groups
    if budget is None:
        return {name: (group.quota or 0) * largest for name, group in groups.items()}
    rest = budget - len(groups) * largest
    if not groups:
        return {}
    if rest < 0:
        raise Infeasible(
            f"expected a budget of at least {len(groups) * largest} minor units, so that the largest payment "
            f"can be reserved in each of the {len(groups)} groups."
        )
    found = zip(pricing.online_schedules(rules)[0], pricing.terms_of(rules).bins(rules.people), strict=True)
    expected = np.array([float(bins.counts @ schedule.quote(bins.costs)[1]) for schedule, bins in found])
    ends = np.floor(rest * np.cumsum(expected / expected.sum())).astype(np.int64)
    ends[-1] = rest
    return dict(zip(groups, (largest + np.diff(ends, prepend=0)).tolist(), strict=True))


def draft_of(rules: Rules, **more: object) -> Draft:
    """Return the draft of a campaign of these rules; ``more`` are its channel, times, consent and funding."""
    data = rules.to_data() | {"record_bytes": record_bytes(rules)}
    data["campaign"].pop("database", None)  # it may hold a password
    return Draft.model_validate(
        {
            "name": rules.campaign.name,
            "mechanism": rules.campaign.mechanism,
            "rules": data,
            "currency": rules.money.currency or NO_CURRENCY,
            "minor_units": rules.money.minor_units,
            **more,
        }
    )


def rules_of(found: Campaign) -> Rules:
    """Return a campaign's rules as they were frozen."""
    return rules_from(found.rules)


def decide_for(rules: Rules, binding: decision.Binding = decision.UNBOUND) -> Decide:
    """Return the mechanism of these rules, as a function of frozen reports.

    Online each report is quoted by the public schedule. Offline all are decided about at once, with the salt
    that ``binding`` fixes together with the reports (:func:`~dpmarket.campaign.certificate.binding_of`).
    """
    pools = pools_of(rules)
    if rules.campaign.mechanism != pricing.OFFLINE:
        offer = dict(zip(pools, pricing.online_schedules(rules)[0], strict=True))
        return by_schedules(offer, rules.money.minor_units)

    def decide(reports: Reports) -> Decision:
        costs = np.asarray(reports.costs, dtype=float)
        members = np.array([pools.index(pool) for pool in reports.pools], dtype=np.int64)
        outcome, amounts, public = decision.decide_offline(rules, reports.names, costs, members, binding)
        return Decision(outcome.epsilons, amounts, public)

    return decide


def by_schedules(schedules: Mapping[str, PriceSchedule], minor_units: int) -> Decide:
    """Return the mechanism that quotes each report by the price schedule of its pool."""

    def decide(reports: Reports) -> Decision:
        costs, pools = np.asarray(reports.costs, dtype=float), np.array(reports.pools, dtype=object)
        epsilons, amounts = np.zeros(costs.size), np.zeros(costs.size, dtype=np.int64)
        for pool, schedule in schedules.items():
            of = pools == pool
            epsilons[of], amounts[of] = priced(schedule, costs[of], minor_units)
        offer = {pool: schedule.to_dict() for pool, schedule in schedules.items()}
        return Decision(epsilons, amounts, offer)

    return decide


def likely_total(rules: Rules) -> int:
    """Return a total, in minor units, that an offline campaign exceeds at most once in a hundred times."""
    terms, units, people = pricing.terms_of(rules), rules.money.minor_units, rules.people
    if decision.is_cross_priced(rules, people):
        budget = float(rules.objective.budget or 0.0)
        priced = terms.for_budget(terms.bins(people), budget)[1]
        few = priced.squared_payments / priced.payment**2 if priced.payment > 0.0 else 1.0
        return math.ceil(budget * units * (1.0 + _CROSS_PRICED + _CROSS_PRICED_FEW * few))
    mean, deviation = _moments(terms, pricing.objective_for(rules, terms.sizes(people)), people, units)
    return math.ceil(mean + _SURE * deviation)


def _moments(terms: pricing.Terms, objective: AnyObjective, people: int, units: int) -> tuple[float, float]:
    """Return mean and standard deviation of the exact mechanism's payments, in minor units."""
    if people >= SMALL_MARKET:
        priced = price_market(terms.bins(people), objective, terms.epsilon_cost, terms.coverage)
        variance = max(priced.squared_payments - priced.payment**2 / people, 0.0)
        return priced.payment * units + 0.5 * priced.bought, math.sqrt(variance) * units
    sizes = terms.sizes(people)
    uniform = np.random.default_rng(0).random((_SIMULATED, sum(sizes)))  # public: anybody can do this again
    sales = terms.markets(sizes, uniform).decide(objective, terms.coverage)
    totals = np.array([paid.sum() for _, _, paid in sales]) * units
    return float(totals.mean()), float(totals.std(ddof=1))
