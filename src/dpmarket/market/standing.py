"""Read where a seller stands, with the campaign's row held in shares: the first step of every act."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.statements import Text, given

_own, _live = tables.participation.c, tables.live_campaign.c
_COLUMNS = (
    _own.id, _own.campaign, _own.person, _own.state, _own.held_epsilon, _own.lease_until,
    _live.state.label("campaign_state"), _live.mechanism, _live.escrow, _live.payable, _live.largest_payment,
    _live.ceiling, _live.minor_units, _live.currency, _live.curve_digest, _live.public_key, _live.round,
    _live.opens_at, _live.closes_at, _live.deliver_until,
)  # fmt: skip
_SEEN = (
    sa.select(*_COLUMNS)
    .join(tables.live_campaign, _live.campaign == _own.campaign)
    .where(_own.id == given("participation"))
)
_LOCKED = _SEEN.with_for_update(read=True, of=tables.live_campaign)


@dataclass(frozen=True)
class Standing:
    """Where a seller stands in a campaign, and what of the campaign their acts need.

    Attributes
    ----------
    id, campaign, person, state
        The participation.
    held_epsilon, lease_until
        What it holds of the person's limit; until when a seat is theirs.
    campaign_state
        The campaign's own state.
    mechanism, escrow, payable, largest_payment, ceiling, minor_units, currency, curve_digest
        As in :class:`~dpmarket.market.campaigns.LiveCampaign`.
    public_key, round, opens_at, closes_at, deliver_until
        The same.
    """

    id: str
    campaign: str
    person: str
    state: str
    held_epsilon: float
    lease_until: str | None
    campaign_state: str
    mechanism: str
    escrow: str
    payable: str
    largest_payment: int | None
    ceiling: float
    minor_units: int
    currency: str
    curve_digest: str | None
    public_key: bytes
    round: int | None
    opens_at: str
    closes_at: str
    deliver_until: str


def standing_of(connection: Connection, participation: str) -> Standing:
    """Return where a seller stands. On PostgreSQL the campaign does not change until the act has ended.

    Raises
    ------
    MarketRefusal
        There is no such participation.
    """
    return _found(connection, _LOCKED, participation)


def look_at(connection: Connection, participation: str) -> Standing:
    """Return where a seller stands, to somebody who only looks.

    Raises
    ------
    MarketRefusal
        There is no such participation.
    """
    return _found(connection, _SEEN, participation)


def move(connection: Connection, participation: str, before: tuple[str, ...], **values: Any) -> None:
    """Change a participation that is in one of these states.

    Raises
    ------
    MarketRefusal
        It is in none of them: another act was quicker, or this one comes too late.
    """
    if connection.execute(moving(participation, before, **values)).rowcount != 1:
        raise refused(before)


def moving(participation: Text, before: tuple[str, ...], **values: Any) -> sa.Update:
    """Return the statement that changes a participation that is in one of these states."""
    one = tables.participation.update().where(_own.id == participation, _own.state.in_(before))
    return one.values(values)


def refused(before: tuple[str, ...]) -> MarketRefusal:
    """Return the refusal of an act that is possible in some states only."""
    return MarketRefusal("state", f"this is possible for who is {' or '.join(before)} only.")


def refuse_campaign(found: Standing, *states: str) -> None:
    """Refuse an act of a seller whose campaign is in none of these states."""
    if found.campaign_state not in states:
        raise MarketRefusal("state", f"this campaign is {found.campaign_state}.")


def checked_cost(cost: float) -> float:
    """Return a reported cost as a float.

    Raises
    ------
    MarketRefusal
        It is no number, not finite, or below 0.
    """
    try:
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0.0 <= float(cost) < math.inf:
            return float(cost)
    except OverflowError:  # a whole number with more digits than a float has
        pass
    raise MarketRefusal("invalid", "expected a cost: a number >= 0.")


def refuse_outside(at: str, first: str, last: str) -> None:
    """Refuse an act before a time or after another."""
    if at < first:
        raise MarketRefusal("early", f"this is possible from {first} on.")
    if at >= last:
        raise MarketRefusal("expired", f"this was possible until {last}.")


def _found(connection: Connection, query: sa.Select[Any], participation: str) -> Standing:
    row = connection.execute(query, {"given_participation": participation}).one_or_none()
    if row is None:
        raise MarketRefusal("unknown", "there is no such participation.")
    return Standing(**row._mapping)
