"""What follows from a campaign's rules before anybody reports: the opening, and how reports are decided.

Functions of the rules alone: no report, and nobody's arrival, has any part in them. Opening a campaign builds
no array of expected sellers; the typical market is quantile bins with counts.
"""

from __future__ import annotations

import math

import numpy as np

from dpmarket.campaign import money
from dpmarket.campaign.campaigns import Draft, Opening
from dpmarket.campaign.quoting import Decide, Decision, Reports
from dpmarket.campaign.rules.decision import (
    UNBOUND,
    Binding,
    budget_in_minor_units,
    decide_offline,
    is_cross_priced,
    largest_amount,
)
from dpmarket.campaign.rules.encoding import record_bytes
from dpmarket.campaign.rules.network import network_of
from dpmarket.campaign.rules.pricing import (
    OFFLINE,
    Terms,
    noise_warning,
    objective_for,
    online_schedule,
    terms_of,
)
from dpmarket.campaign.rules.rules_file import Rules, rules_from
from dpmarket.campaign.transaction import Campaign
from dpmarket.mechanisms.cross_pricing import price_for_budget
from dpmarket.mechanisms.exact import OfflineMechanism
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
    warning = noise_warning(rules)
    if rules.campaign.mechanism != OFFLINE:
        schedule, _ = online_schedule(rules)
        largest = largest_amount(schedule, rules.money.minor_units)
        allot = allotted(rules, largest)
        return Opening(
            offer={money.ESCROW: schedule.to_dict()},
            largest=max(largest, 1),
            ceiling=schedule.largest_epsilon,
            delta=rules.delta,
            escrow=max(largest, sum(allot.values()), 1),
            allot=allot,
            warning=warning,
        )
    budget = budget_in_minor_units(rules) or 0
    likely = 0 if rules.sellers.expected is None else likely_total(rules)
    escrow = max(likely, budget, 1)
    return Opening(ceiling=rules.objective.max_epsilon, delta=rules.delta, escrow=escrow, warning=warning)


def allotted(rules: Rules, largest: int) -> dict[str, int]:
    """Return the escrow of each group: the budget in proportion to the quotas, or the largest payments.

    At least one seller of each group can be paid the largest payment.
    """
    budget, places = budget_in_minor_units(rules), sum(group.quota for group in rules.groups.values())
    return {
        name: group.quota * largest if budget is None else max(budget * group.quota // places, largest)
        for name, group in rules.groups.items()
    }


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


def decide_for(rules: Rules, binding: Binding = UNBOUND) -> Decide:
    """Return the mechanism of these rules, as a function of frozen reports.

    Online each report is quoted by the public schedule. Offline all are decided about at once; the offer of
    the decision then has the public tables, the objective, and the salt of cross-pricing, which ``binding``
    fixes together with the reports (:func:`~dpmarket.campaign.certificate.binding_of`).
    """
    if rules.campaign.mechanism != OFFLINE:
        return by_schedule(online_schedule(rules)[0], rules.money.minor_units)

    def decide(reports: Reports) -> Decision:
        costs = np.asarray(reports.costs, dtype=float)
        outcome, amounts, public = decide_offline(rules, reports.names, costs, binding)
        return Decision(outcome.epsilons, outcome.payments, public, amounts)

    return decide


def by_schedule(schedule: PriceSchedule, minor_units: int) -> Decide:
    """Return the mechanism that quotes each report by a price schedule, and pays at least its loss."""

    def decide(reports: Reports) -> Decision:
        costs = np.asarray(reports.costs, dtype=float)
        epsilons, payments = schedule.quote(costs)
        amounts = whole_units(payments, minor_units, costs, schedule.amount(costs))
        amounts = np.where(epsilons > 0.0, np.maximum(amounts, 1), 0)
        return Decision(epsilons, payments, {money.ESCROW: schedule.to_dict()}, amounts)

    return decide


def likely_total(rules: Rules) -> int:
    """Return a total, in minor units, that an offline campaign exceeds at most once in a hundred times."""
    terms, units, people = terms_of(rules), rules.money.minor_units, rules.people
    if is_cross_priced(rules, people):
        budget = float(rules.objective.budget or 0.0)
        bins = [terms.bins(people)]
        priced = price_for_budget(bins, terms.objective, terms.epsilon_cost, budget, 1.0 / units)[1]
        few = priced.squared_payments / priced.payment**2 if priced.payment > 0.0 else 1.0
        return math.ceil(budget * units * (1.0 + _CROSS_PRICED + _CROSS_PRICED_FEW * few))
    mean, deviation = _moments(terms, objective_for(rules, people), people, units)
    return math.ceil(mean + _SURE * deviation)


def _moments(terms: Terms, objective: AnyObjective, people: int, units: int) -> tuple[float, float]:
    """Return mean and standard deviation of the exact mechanism's payments, in minor units."""
    if people >= SMALL_MARKET:
        priced = price_market([terms.bins(people)], objective, terms.epsilon_cost)
        variance = max(priced.squared_payments - priced.payment**2 / people, 0.0)
        return priced.payment * units + 0.5 * priced.bought, math.sqrt(variance) * units
    mechanism = OfflineMechanism(terms.virtual_cost, objective, epsilon_cost=terms.epsilon_cost)
    uniform = np.random.default_rng(0).random((_SIMULATED, people))  # public: anybody can do this again
    markets = [mechanism.run(terms.distribution.quantile(row)).payments for row in uniform]
    totals = np.array([whole_units(payments, units).sum() for payments in markets])
    return float(totals.mean()), float(totals.std(ddof=1))
