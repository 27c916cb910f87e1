"""What is frozen when a campaign opens: the price schedule, its largest payment, the ceiling, the escrow.

A function of the market file alone: no report, and nobody's arrival, has any part in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpmarket.campaign.decision import budget_in_minor_units, largest_amount
from dpmarket.campaign.market_file import Market
from dpmarket.campaign.market_file import check_market as checked_market
from dpmarket.campaign.terms import POSTED, Terms, objective_for, online_schedule, terms_of
from dpmarket.errors import MarketRefusal
from dpmarket.ledger.keyed import canonical
from dpmarket.market.people import on_grid
from dpmarket.mechanisms.cross_pricing import LEAST_SELLERS, price_for_budget
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import AnyObjective
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.plan import SMALL_MARKET
from dpmarket.mechanisms.price_schedule import PriceSchedule, price_market

_MARKETS = 60  # simulated, for what escrow should hold for few sellers
_SURE = 3.5  # standard deviations: more than 99.9%, with room for their own error from so few markets
# Of the budget, for cross-priced campaigns: so much, and so much over the effective number of sellers who are
# paid. Above the 99% quantiles of docs/tables/budgets.md.
_CROSS_PRICED, _CROSS_PRICED_FEW = 0.02, 2.5


@dataclass(frozen=True)
class Opening:
    """What a campaign's sellers are quoted by, as it will be frozen.

    Attributes
    ----------
    market_digest
        Of the market file that it was planned from.
    curve, curve_digest
        The price schedule and all that decided it, as JSON; None offline.
    largest_payment
        What nobody is paid more than, in minor units; None offline.
    ceiling
        What nobody is asked to exceed, epsilon.
    escrow
        What the buyer must have set aside, in minor units: online room for one seller, offline a total that
        payments exceed in at most one of a hundred markets.
    """

    market_digest: str
    curve: str | None
    curve_digest: str | None
    largest_payment: int | None
    ceiling: float
    escrow: int


def market_text(market: Market) -> str:
    """Write a market file in one way only, features in their order."""
    return market.model_dump_json(exclude_none=True)


def market_of(text: str) -> Market:
    """Return the market that :func:`market_text` wrote; the same one is made once in a process."""
    return _market_of(text)


def schedule_of(text: str) -> PriceSchedule:
    """Return a frozen schedule from its JSON."""
    return PriceSchedule.from_dict(json.loads(text)["schedule"])


def digest_of(text: str) -> str:
    """Return what a text is known by to people who read it."""
    return hashlib.sha256(text.encode()).hexdigest()


def plan_opening(market: Market, mechanism: str) -> Opening:
    """Plan what is frozen when a campaign opens.

    Parameters
    ----------
    market
        A checked market file, with ``sellers.expected``.
    mechanism
        ``online`` or ``offline``.

    Raises
    ------
    MarketRefusal
        The market file does not say how many sellers are expected, or asks for one price for all offline.
    InvalidInput, Infeasible, NotConverged
        What planning refuses.
    """
    if market.sellers.expected is None:
        raise MarketRefusal("invalid", "expected sellers.expected in the market file.")
    digest = digest_of(market_text(market))
    if mechanism == "online":
        schedule, rules = online_schedule(market)
        text = canonical(rules)
        largest = largest_amount(schedule, market.money.minor_units)
        return Opening(
            digest, text, digest_of(text), largest, on_grid(schedule.largest_epsilon), max(largest, 1)
        )
    if market.objective.mechanism == POSTED:
        raise MarketRefusal("invalid", "expected an online campaign for one price for all.")
    likely = max(_likely_total(market, market.sellers.expected), budget_in_minor_units(market) or 0, 1)
    return Opening(digest, None, None, None, on_grid(market.objective.max_epsilon), likely)


def _likely_total(market: Market, people: int) -> int:
    """Return a total, in minor units, that an offline campaign exceeds at most once in a hundred."""
    terms, wanted, units = terms_of(market), market.objective, market.money.minor_units
    if wanted.budget is not None and wanted.confidence is None and people >= LEAST_SELLERS:
        bins = [terms.bins(people)]
        priced = price_for_budget(bins, terms.objective, terms.epsilon_cost, wanted.budget, 1.0 / units)[1]
        few = priced.squared_payments / priced.payment**2 if priced.payment > 0.0 else 1.0
        return math.ceil(wanted.budget * units * (1.0 + _CROSS_PRICED + _CROSS_PRICED_FEW * few))
    mean, deviation = _moments(terms, objective_for(market, people), people, units)
    return math.ceil(mean + _SURE * deviation)


def _moments(terms: Terms, objective: AnyObjective, people: int, units: int) -> tuple[float, float]:
    """Return mean and standard deviation of the exact mechanism's payments, in minor units."""
    if people >= SMALL_MARKET:
        priced = price_market([terms.bins(people)], objective, terms.epsilon_cost)
        variance = max(priced.squared_payments - priced.payment**2 / people, 0.0)
        return priced.payment * units + 0.5 * priced.bought, math.sqrt(variance) * units
    mechanism = OfflineMechanism(terms.virtual_cost, objective, epsilon_cost=terms.epsilon_cost)
    uniform = np.random.default_rng(0).random((_MARKETS, people))  # public: anybody can do this again
    markets = [mechanism.run(terms.distribution.quantile(row)).payments for row in uniform]
    totals = np.array([whole_units(payments, units).sum() for payments in markets])
    return float(totals.mean()), float(totals.std(ddof=1))


@lru_cache(maxsize=64)
def _market_of(text: str) -> Market:
    return checked_market(json.loads(text), "the campaign's market")
