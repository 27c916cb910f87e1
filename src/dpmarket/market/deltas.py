"""Hold what campaigns may ask of people against their limits: of epsilon, and of the deltas of promises.

With a delta, a record changes the probability of any result by at most the factor exp(epsilon), plus delta.
Over several campaigns epsilons and deltas add up, each by itself. A person's limit of epsilon is their own;
deltas may add up to the same for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import sqlalchemy as sa

from dpmarket.campaign.delta import most_people
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.opening import market_of
from dpmarket.market.people import change_epsilon, hold_epsilon

if TYPE_CHECKING:
    from dpmarket.market.campaigns import LiveCampaign
    from dpmarket.market.standing import Standing

LIFETIME_DELTA = 1e-3
"""What the deltas of one person's promises add up to at most, over all campaigns of a desk."""
_COUNTED = ("consented", "seated", "reported", "quoted", "accepted", "delivered", "spent")


def hold_limits(connection: Connection, found: Standing) -> bool:
    """Hold a campaign's ceiling against somebody's limit; return whether there was room, of delta, too.

    The person's row is changed first: who comes by two ways at once is counted one after the other.
    """
    if not hold_epsilon(connection, found.person, found.ceiling):
        return False
    own = _delta_of(connection, found.campaign)
    if own and own + _deltas_of(connection, found.person, found.campaign) > Fraction(LIFETIME_DELTA):
        change_epsilon(connection, found.person, -found.ceiling, 0.0)
        return False
    return True


def refuse_many(connection: Connection, found: LiveCampaign, more: int) -> None:
    """Refuse to invite more people to a campaign than its delta allows.

    Raises
    ------
    MarketRefusal
        Says how many it allows.
    """
    delta = market_of(found.market).objective.delta
    if delta is None:
        return
    own = tables.participation.c
    count = sa.select(sa.func.count()).select_from(tables.participation).where(own.campaign == found.campaign)
    if int(connection.execute(count).scalar_one()) + more > most_people(delta):
        raise MarketRefusal(
            "invalid",
            f"expected at most {most_people(delta):,} people, whom a delta of {delta:g} allows: the "
            "deltas of all add up to at most a tenth.",
        )


def _delta_of(connection: Connection, campaign: str) -> Fraction:
    live = tables.live_campaign.c
    text = connection.execute(sa.select(live.market).where(live.campaign == campaign)).scalar_one()
    return _sum([str(text)])


def _deltas_of(connection: Connection, person: str, but: str) -> Fraction:
    """Return what the deltas of somebody's promises add up to, exactly, but for those of one campaign."""
    own, live = tables.participation.c, tables.live_campaign.c
    query = (
        sa.select(live.market)
        .join(tables.participation, own.campaign == live.campaign)
        .where(own.person == person, own.campaign != but, own.state.in_(_COUNTED))
    )
    return _sum([str(text) for text in connection.execute(query).scalars()])


def _sum(markets: Sequence[str]) -> Fraction:
    return sum((Fraction(market_of(text).objective.delta or 0.0) for text in markets), Fraction(0))
