"""Decisions about reported costs: epsilons, payments, and sellers for whom no money is left.

Offline, all sellers report at once. With a budget and at least 50 reports they are cross-priced: each part of
them by the other parts' reports, which meets the budget. With fewer reports, with a payment weight, or where
the budget must hold with a stated probability, the exact mechanism decides; its payment weight follows from
the rules and from how many reports there are, those above the reserve price included.

Online, a schedule that was fixed beforehand quotes each seller by their own report, as long as the escrow
holds its largest payment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.delta import refuse_too_many
from dpmarket.campaign.market_file import Market
from dpmarket.campaign.terms import (
    OFFLINE,
    ONLINE,
    POSTED,
    cross_priced_rules,
    objective_for,
    online_schedule,
    outcome_of_rules,
    terms_of,
)
from dpmarket.errors import Infeasible, LedgerRefusal
from dpmarket.mechanisms.cross_pricing import LEAST_SELLERS, CrossPricedMechanism
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import objective_from_dict
from dpmarket.mechanisms.outcome import Outcome, whole_units
from dpmarket.mechanisms.price_schedule import PriceSchedule


@dataclass(frozen=True, eq=False)
class Decision:
    """What was decided about the sellers of a list.

    Attributes
    ----------
    outcome
        Epsilons and payments of those who are quoted, in their order.
    amounts
        Their payments in minor units.
    quoted
        Which sellers are quoted, shape (reports,); for the others no money was left.
    ceiling
        What nobody could be asked to exceed, known before any report.
    rules
        All that decided, as plain data: the public tables, and a schedule or a salt.
    """

    outcome: Outcome
    amounts: IntArray
    quoted: BoolArray
    ceiling: float
    rules: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Reported:
    """A frozen list of reports.

    Attributes
    ----------
    ids
        One per seller, all different.
    costs
        Money per unit of the cost function, shape (m,).
    salt
        By which sellers are split into parts; drawn after the list was frozen.
    available
        What of the budget is neither promised nor paid, in minor units; None without a budget.
    """

    ids: Sequence[object]
    costs: FloatArray
    salt: bytes
    available: int | None = None


Decide = Callable[[Market, Reported], Decision]
"""A way to turn rules and a frozen list of reports into a decision."""


def decide_offline(market: Market, reported: Reported) -> Decision:
    """Decide for all sellers at once.

    Parameters
    ----------
    market
        The rules.
    reported
        The frozen list.

    Raises
    ------
    LedgerRefusal
        More sellers than the delta allows.
    InvalidInput, Infeasible
        What the mechanism refuses.
    """
    refuse_too_many(market, reported.costs.size)
    terms, wanted, costs = terms_of(market), market.objective, reported.costs
    budget_in_minor_units(market)  # refuses one with which nobody can be paid
    if wanted.budget is not None and wanted.confidence is None and costs.size >= LEAST_SELLERS:
        rules = cross_priced_rules(market)
        mechanism = CrossPricedMechanism(
            terms.virtual_cost, objective_from_dict(rules["objective"]), wanted.budget,
            epsilon_cost=terms.epsilon_cost, minor_unit=rules["minor_unit"],
        )  # fmt: skip
        outcome, prices = mechanism.run(reported.ids, costs, salt=reported.salt)
        rules |= prices.to_dict()
    else:
        objective = objective_for(market, costs.size)
        outcome = OfflineMechanism(terms.virtual_cost, objective, epsilon_cost=terms.epsilon_cost).run(costs)
        rules = terms.rules(OFFLINE, objective)
    if not outcome.epsilons.any():
        raise Infeasible(
            "None of these reports buys anything: too few of them lie below the reserve price. Nothing was "
            "promised."
        )
    losses = terms.epsilon_cost.cost_of_epsilon(outcome.epsilons)
    amounts = whole_units(outcome.payments, market.money.minor_units, costs, losses)
    return Decision(outcome, amounts, np.ones(costs.size, dtype=bool), wanted.max_epsilon, rules)


def decide_online(market: Market, reported: Reported) -> Decision:
    """Decide seller by seller, in the list's order, by one schedule that was fixed beforehand.

    A quote depends on the seller's own report only, so that a list may hold any part of the sellers who are
    expected, and others may follow. With a budget, the schedule's largest payment is set aside before a
    report is looked at; where there is no room for it, no money is left for this seller and all who come
    later. Over all lists the budget is never exceeded.

    Parameters
    ----------
    market, reported
        As in :func:`decide_offline`.

    Raises
    ------
    FileProblem
        The rules do not say how many sellers are expected.
    LedgerRefusal
        No money is left for anybody in the list.
    """
    schedule, rules = online_schedule(market)
    units = market.money.minor_units
    epsilons, payments = schedule.quote(reported.costs)
    amounts = whole_units(payments, units, reported.costs, schedule.amount(reported.costs))
    quoted = np.ones(amounts.size, dtype=bool)
    if reported.available is not None:
        largest = largest_amount(schedule, units)
        if reported.available < largest:
            raise LedgerRefusal(
                f"the budget is full: what is left of it is below {largest / units:.6g}, the schedule's "
                f"largest payment. None of the {amounts.size} sellers can be quoted."
            )
        quoted = np.cumsum(amounts) - amounts <= reported.available - largest
    refuse_too_many(market, int(quoted.sum()))
    outcome = outcome_of_rules(rules, epsilons[quoted], payments[quoted])
    return Decision(outcome, amounts[quoted], quoted, schedule.largest_epsilon, rules)


def way_to_decide(market: Market, decide: Decide) -> Decide:
    """Return how a campaign decides: as asked for, or, where it posts one price for all, by that schedule."""
    return decide_online if market.objective.mechanism == POSTED else decide


def name_of(decide: Decide) -> str:
    """Return the name of a way to decide: ``online`` or ``offline``."""
    return ONLINE if decide is decide_online else OFFLINE


def ceiling_of(market: Market, decide: Decide) -> float:
    """Return what nobody can be asked to exceed, known before any report."""
    if decide is decide_online:
        return online_schedule(market)[0].largest_epsilon
    return market.objective.max_epsilon


def largest_amount(schedule: PriceSchedule, minor_units: int) -> int:
    """Return a schedule's largest payment in minor units."""
    return int(whole_units(np.array([schedule.largest_payment]), minor_units)[0])


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
