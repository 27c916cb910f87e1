"""Turn a market file into what is frozen when a campaign opens: the curve, its largest payment, the ceiling.

A function of the market file alone: no report, and nobody's arrival, has any part in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpmarket.campaign.deciding import budget_in_minor_units, decide_offline, online_curve
from dpmarket.campaign.market_file import Market, to_distribution
from dpmarket.campaign.market_file import check_market as checked_market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger.keyed import canonical
from dpmarket.market.people import on_grid

if TYPE_CHECKING:
    from dpmarket.mechanisms import Curve, OnlineGaussianMechanism

_MARKETS = 60  # simulated, for what escrow should hold offline
_FEWER_MARKETS, _SURER = 20, 4.5
_SURE = 3.5  # standard deviations: more than 99.9%, with room for their own error from so few markets


@dataclass(frozen=True)
class Opening:
    """What a campaign's sellers are quoted by, as it will be frozen.

    Attributes
    ----------
    market_digest
        Of the market file that it was planned from.
    curve, curve_digest
        What to offer at which cost, as JSON; None offline.
    largest_payment
        What nobody is paid more than, in minor units; None offline.
    ceiling
        What nobody is asked to exceed, epsilon.
    escrow
        What the buyer must have set aside, in minor units: online room for one seller, offline the total to
        expect, with a probability of 99.9%.
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


def curve_of(text: str) -> Curve | OnlineGaussianMechanism:
    """Return a frozen curve from its JSON."""
    from dpmarket.mechanisms import Curve, OnlineGaussianMechanism

    data = json.loads(text)
    if data.get("mechanism") == OnlineGaussianMechanism.name:
        return OnlineGaussianMechanism.from_dict(data)
    return Curve.from_dict(data)


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
        curve, _ = online_curve(market)
        text = canonical(curve.to_dict())
        largest = curve.largest_amount(market.money.minor_units)
        return Opening(
            digest, text, digest_of(text), largest, on_grid(curve.largest_epsilon), max(largest, 1)
        )
    if market.objective.mechanism != "best":
        raise MarketRefusal("invalid", "expected an online campaign for one price for all.")
    cap, mean = market.objective.weight_cap, market.objective.max_mean_epsilon
    limit = market.objective.max_epsilon
    ceiling = limit if cap is None or mean is None else min(cap * mean, limit)
    return Opening(digest, None, None, None, on_grid(ceiling), _likely_total(market))


def _likely_total(market: Market) -> int:
    """Return a total, in minor units, that payments of an offline campaign exceed once in a thousand."""
    from dpmarket.mechanisms import GaussianMechanism, mechanism_of

    people = int(market.sellers.expected or 0)
    dist = to_distribution(market.costs.distribution)
    typical = decide_offline(market, dist.quantile((np.arange(people) + 0.5) / people))
    mechanism = mechanism_of(typical.outcome)
    markets, sure = _MARKETS, _SURE
    if isinstance(mechanism, GaussianMechanism):  # each takes longer: fewer, and more room for their error
        markets, sure = _FEWER_MARKETS, _SURER
    # Public randomness: anybody can do this again.
    uniform = np.random.default_rng(0).random((markets, people))
    scale = market.money.minor_units
    totals = np.array([mechanism.run(dist.quantile(row)).in_minor_units(scale).total for row in uniform])
    likely = math.ceil(float(totals.mean() + sure * totals.std(ddof=1)))
    return max(likely, budget_in_minor_units(market) or 0, 1)


@lru_cache(maxsize=64)
def _market_of(text: str) -> Market:
    return checked_market(json.loads(text), "the campaign's market")
