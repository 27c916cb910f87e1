"""Give sellers a seat before they are shown the menu; without room they wait, in order.

A seat is the curve's largest payment, set aside for minutes: nobody is asked for a cost in vain. Who lets its
time pass some times over has had their chance: money that waits for one person cannot be another's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.deltas import hold_limits
from dpmarket.market.desk import Terms, time_text
from dpmarket.market.events import enter_event
from dpmarket.market.holds import hold_seat, void
from dpmarket.market.people import change_epsilon
from dpmarket.market.standing import (
    Standing,
    move,
    refuse_campaign,
    refuse_outside,
    refused,
    standing_of,
)

_own, _waiting = tables.participation.c, tables.waiting.c
_CALLED_AT_ONCE = 20  # from the waiting list by one act: the sweep calls the others


@dataclass(frozen=True)
class Seat:
    """Whether somebody can choose now.

    Attributes
    ----------
    state
        ``seated``, or ``waiting``.
    lease_until
        Until when the seat is theirs, in UTC; None for who waits.
    place
        How many are called before them, themselves included; None for who is seated, or waits because of
        their own limit.
    """

    state: str
    lease_until: str | None
    place: int | None


def take_seat(connection: Connection, participation: str, now: datetime, terms: Terms | None = None) -> Seat:
    """Set the largest payment aside for a seller who wants to see the menu, or give them a place in line.

    Who has a seat keeps it as it is. Nobody passes who came earlier.

    Raises
    ------
    MarketRefusal
        The campaign is not online or not open, it is too early or late, or the seller has not consented, has
        chosen already, or has let the time of as many seats pass as there are for one person.
    """
    terms = terms or Terms()
    found, at = standing_of(connection, participation), time_text(now)
    refuse_campaign(found, "open")
    if found.largest_payment is None:
        raise MarketRefusal("state", "in this campaign sellers report, and all are quoted at once.")
    refuse_outside(at, found.opens_at, found.closes_at)
    if found.state == "seated" and str(found.lease_until) > at:
        return Seat("seated", found.lease_until, None)
    if found.state == "seated":
        free_ended(connection, found.campaign, now, terms)
        found = standing_of(connection, participation)
        if found.state == "expired":
            raise MarketRefusal("expired", f"a seat was held {terms.seats} times, and nothing was chosen.")
    if found.state not in ("consented", "waiting"):
        raise refused(("consented", "waiting"))
    if found.held_epsilon == 0.0:
        if not _held(connection, found):
            return Seat("waiting", None, None)
        found = replace(found, state="consented", held_epsilon=found.ceiling)
    if _line_before(connection, found) is not None:
        call_waiting(connection, found.campaign, now, terms)
        found = standing_of(connection, participation)
        if found.state == "seated":
            return Seat("seated", found.lease_until, None)
        if _line_before(connection, found) is not None:
            return _wait_for_room(connection, found)
    if _seat(connection, found, terms.seat_until(now), at) or (
        free_ended(connection, found.campaign, now, terms)
        and _line_before(connection, found) is None
        and _seat(connection, found, terms.seat_until(now), at)
    ):
        return Seat("seated", terms.seat_until(now), None)
    return _wait_for_room(connection, found)


def call_waiting(connection: Connection, campaign: str, now: datetime, terms: Terms) -> int:
    """Give free room to who waits for it, in order; return how many were called."""
    called = 0
    query = (
        sa.select(_waiting.participation)
        .where(_waiting.campaign == campaign, _waiting.reason == "room")
        .order_by(_waiting.number)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    while called < _CALLED_AT_ONCE:
        first = connection.execute(query).scalar()
        if first is None:
            break
        found = standing_of(connection, first)
        if found.campaign_state != "open" or time_text(now) >= found.closes_at:
            break
        if not _seat(connection, found, terms.called_until(now), time_text(now)):
            break
        called += 1
    return called


def free_ended(connection: Connection, campaign: str, now: datetime, terms: Terms | None = None) -> int:
    """Free seats and quotes whose time is over; return how many there were.

    Who had a seat can take one again, so often as ``terms`` say; then their participation ends.
    """
    at, most = time_text(now), (terms or Terms()).seats
    seats = sa.select(_own.id).where(
        _own.campaign == campaign, _own.state == "seated", _own.lease_until <= at
    )
    quotes = (
        sa.select(_own.id)
        .join(tables.quote, tables.quote.c.participation == _own.id)
        .where(_own.campaign == campaign, _own.state == "quoted", tables.quote.c.expires_at <= at)
    )
    ended = 0
    for query, state in ((seats, "seated"), (quotes, "quoted")):
        for identity in list(connection.execute(query.order_by(_own.id)).scalars()):
            found = standing_of(connection, identity)
            if found.state != state:  # an act that we waited for was quicker
                continue
            if state == "seated" and _seats_of(connection, found.id) < most:
                move(connection, found.id, ("seated",), state="consented", lease_until=None)
                void(connection, found.escrow, found.id, at)
            else:
                leave(connection, found, "expired", at)
            ended += 1
    return ended


def leave(connection: Connection, found: Standing, state: str, at: str) -> None:
    """End a participation before its promise is spent: nothing is held, kept or waited for any more."""
    values = {"state": state, "held_epsilon": 0.0, "lease_until": None, "sealed_cost": None}
    move(connection, found.id, (found.state,), **values)
    if found.held_epsilon:
        change_epsilon(connection, found.person, -found.held_epsilon, 0.0)
    if found.state == "waiting":
        leave_line(connection, found.id)
    if found.state == "delivered":
        connection.execute(tables.record.delete().where(tables.record.c.participation == found.id))
    if found.state in ("seated", "quoted", "accepted", "delivered"):
        void(connection, found.escrow, found.id, at)
    enter_event(connection, found.campaign, found.id, state, at)


def wait(connection: Connection, found: Standing, reason: str) -> None:
    """Put somebody at the end of the line."""
    values = {"campaign": found.campaign, "participation": found.id, "reason": reason}
    connection.execute(tables.waiting.insert().values(values))


def leave_line(connection: Connection, participation: str) -> None:
    """Take somebody out of the line."""
    connection.execute(tables.waiting.delete().where(_waiting.participation == participation))


def _held(connection: Connection, found: Standing) -> bool:
    """Hold the ceiling of somebody who had no room for it before; return whether they have it now."""
    if not hold_limits(connection, found):
        return False
    leave_line(connection, found.id)
    move(connection, found.id, ("waiting",), state="consented", held_epsilon=found.ceiling)
    return True


def _seats_of(connection: Connection, participation: str) -> int:
    """Return how often somebody has had a seat."""
    event = tables.event.c
    had = sa.and_(event.participation == participation, event.kind == "seated")
    return int(connection.execute(sa.select(sa.func.count()).where(had)).scalar_one())


def _seat(connection: Connection, found: Standing, until: str, at: str) -> bool:
    """Seat somebody if escrow has room for whatever they may choose."""
    # Own row, then the account: all acts take them in this order, so that none waits for another in a circle.
    move(connection, found.id, (found.state,), state="seated", lease_until=until)
    if not hold_seat(connection, found, at):
        move(connection, found.id, ("seated",), state=found.state, lease_until=None)
        return False
    if found.state == "waiting":
        leave_line(connection, found.id)
    enter_event(connection, found.campaign, found.id, "seated", at)
    return True


def _wait_for_room(connection: Connection, found: Standing) -> Seat:
    place = sa.select(_waiting.number).where(_waiting.participation == found.id)
    number = connection.execute(place).scalar()
    if number is None:
        move(connection, found.id, ("consented", "waiting"), state="waiting")
        wait(connection, found, "room")
        number = connection.execute(place).scalar_one()
    before = sa.select(sa.func.count()).where(
        _waiting.campaign == found.campaign, _waiting.reason == "room", _waiting.number <= number
    )
    return Seat("waiting", None, int(connection.execute(before).scalar_one()))


def _line_before(connection: Connection, found: Standing) -> int | None:
    """Return the number of who is called next, if that is somebody else."""
    query = sa.select(_waiting.number, _waiting.participation).where(
        _waiting.campaign == found.campaign, _waiting.reason == "room"
    )
    first = connection.execute(query.order_by(_waiting.number).limit(1)).one_or_none()
    return None if first is None or first.participation == found.id else int(first.number)
