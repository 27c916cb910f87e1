"""Turn a seller's choice into a quote that never changes, and a quote into an acceptance or nothing.

Who has a seat chooses from the menu or reports a cost; online, the cost is in no table and in no message.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.desk import Terms, time_text
from dpmarket.market.events import new_event, new_event_of
from dpmarket.market.holds import shrinking
from dpmarket.market.opening import schedule_of
from dpmarket.market.seating import call_waiting, leave
from dpmarket.market.standing import (
    Standing,
    checked_cost,
    look_at,
    moving,
    refuse_campaign,
    refused,
    standing_of,
)
from dpmarket.market.statements import given, given_whole, together
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.price_schedule import PriceSchedule

_ACCEPTING = ("open", "deciding")
_schedules: dict[str, PriceSchedule] = {}  # by digest: a frozen schedule is the same for ever


@dataclass(frozen=True)
class GivenQuote:
    """What a seller was offered; it never changes.

    Attributes
    ----------
    epsilon
        The promise.
    payment
        In minor units.
    minor_units, currency
        Of the payment.
    expires_at
        Until when it can be accepted, in UTC.
    """

    epsilon: float
    payment: int
    minor_units: int
    currency: str
    expires_at: str


@dataclass(frozen=True)
class MenuLine:
    """One choice.

    Attributes
    ----------
    cost
        Reporting this cost is choosing this line.
    epsilon, payment
        What is promised, and paid, in minor units.
    """

    cost: float
    epsilon: float
    payment: int


def menu_for(connection: Connection, participation: str, now: datetime, points: int = 50) -> list[MenuLine]:
    """Return what a seller can choose from; only with a seat, so that nobody chooses in vain.

    Raises
    ------
    MarketRefusal
        They have no seat, or no longer.
    """
    found = look_at(connection, participation)
    _refuse_without_seat(found, time_text(now))
    schedule = _schedule_of(connection, found)
    costs, epsilons, payments = schedule.menu(points)
    amounts = whole_units(payments, found.minor_units, costs, schedule.amount(costs))
    rows = zip(costs.tolist(), epsilons.tolist(), amounts.tolist(), strict=True)
    return [MenuLine(*row) for row in rows][::-1]


def choose(
    connection: Connection, participation: str, cost: float, now: datetime, terms: Terms | None = None
) -> GivenQuote:
    """Quote a seller by the campaign's schedule at their cost, or at that of the menu's line that they chose.

    Where nothing is bought at this cost the offer is epsilon 0 and payment 0, and the participation ends.

    Parameters
    ----------
    cost
        Money per unit of epsilon, finite and at least 0. It is not kept.
    now, terms
        The time, and how long a quote can be accepted.

    Raises
    ------
    MarketRefusal
        No cost; no seat, or no longer.
    """
    terms = terms or Terms()
    cost = checked_cost(cost)
    found, at = standing_of(connection, participation), time_text(now)
    _refuse_without_seat(found, at)
    schedule, costs = _schedule_of(connection, found), np.array([cost])
    epsilons, payments = schedule.quote(costs)
    payment = int(whole_units(payments, found.minor_units, costs, schedule.amount(costs))[0])
    epsilon = float(epsilons[0])
    expires_at = min(time_text(now + terms.quote), found.deliver_until)
    values = {"epsilon": epsilon, "payment": payment, "made_at": at, "expires_at": expires_at}
    if payment == 0:
        connection.execute(tables.quote.insert().values(participation=participation, **values))
        leave(connection, found, "declined", at)
        call_waiting(connection, found.campaign, now, terms)
    else:
        changed = together(
            connection,
            _quoting(),
            participation=participation,
            campaign=found.campaign,
            escrow=found.escrow,
            before=int(found.largest_payment or 0),
            at=at,
            expires_at=expires_at,
            epsilon=epsilon,
            payment=payment,
        )
        if changed != 1:
            raise refused(("seated",))
    return GivenQuote(epsilon, payment, found.minor_units, found.currency, expires_at)


@functools.cache
def _quoting() -> tuple[Any, ...]:
    """Return what enters a quote: the seller moves on, and of the money that was held the payment stays."""
    who, at, payment = given("participation"), given("at"), given_whole("payment")
    epsilon = sa.bindparam("given_epsilon", type_=tables.quote.c.epsilon.type)
    values = {"participation": who, "epsilon": epsilon, "payment": payment}
    return (
        moving(who, ("seated",), state="quoted", lease_until=None),
        tables.quote.insert().inline().values(**values, made_at=at, expires_at=given("expires_at")),
        *shrinking(given("escrow"), who, given_whole("before"), payment),
        new_event(given("campaign"), who, "quoted", at),
    )


@functools.cache
def _accepting() -> tuple[Any, ...]:
    """Return what accepts a quote that is still good, in a campaign that still takes it."""
    who, at = given("participation"), given("at")
    own, live, quoted = tables.participation.c, tables.live_campaign.c, tables.quote.c
    mine = sa.select(own.campaign).where(own.id == who).scalar_subquery()
    # The campaign's row in shares, as in every act of a seller, but on the way: all of it is one statement.
    going_on = (
        sa.select(live.campaign)
        .where(live.campaign == mine, live.state.in_(_ACCEPTING), live.deliver_until > at)
        .with_for_update(read=True)
    )
    in_time = sa.select(quoted.participation).where(
        quoted.participation == own.id, sa.or_(quoted.expires_at.is_(None), quoted.expires_at > at)
    )
    accepting = moving(who, ("quoted",), state="accepted")
    accepting = accepting.where(own.campaign.in_(going_on), in_time.exists())
    return accepting, new_event_of(who, "accepted", at)


def quote_of(connection: Connection, participation: str) -> GivenQuote:
    """Return what a seller was offered.

    Raises
    ------
    MarketRefusal
        Nothing yet.
    """
    found = look_at(connection, participation)
    columns = tables.quote.c
    query = sa.select(columns.epsilon, columns.payment, columns.expires_at)
    row = connection.execute(query.where(columns.participation == participation)).one_or_none()
    if row is None:
        raise MarketRefusal("unknown", "there is no quote.")
    until = row.expires_at or found.deliver_until
    return GivenQuote(row.epsilon, row.payment, found.minor_units, found.currency, until)


def accept(connection: Connection, participation: str, now: datetime) -> None:
    """Accept one's quote. Its money is set aside already, and no account is touched.

    Raises
    ------
    MarketRefusal
        It was accepted or left before (``state``), is too old (``expired``), or there is none.
    """
    if together(connection, _accepting(), participation=participation, at=time_text(now)) == 1:
        return
    found = look_at(connection, participation)
    refuse_campaign(found, *_ACCEPTING)
    if found.state == "quoted":
        raise MarketRefusal("expired", "this quote can no longer be accepted.")
    raise refused(("quoted",))


def decline(connection: Connection, participation: str, now: datetime, terms: Terms | None = None) -> None:
    """Decline one's quote, or give up one's seat; the money set aside is free for others.

    Raises
    ------
    MarketRefusal
        There is neither.
    """
    found, at = standing_of(connection, participation), time_text(now)
    refuse_campaign(found, "open", "unpaid", "deciding")
    if found.state not in ("seated", "quoted"):
        raise refused(("seated", "quoted"))
    leave(connection, found, "declined", at)
    call_waiting(connection, found.campaign, now, terms or Terms())


def _refuse_without_seat(found: Standing, at: str) -> None:
    refuse_campaign(found, "open")
    if found.state != "seated":
        raise refused(("seated",))
    if str(found.lease_until) <= at or at >= found.deliver_until:
        raise MarketRefusal("expired", "the seat was held until now: take one again.")


def _schedule_of(connection: Connection, found: Standing) -> PriceSchedule:
    digest = str(found.curve_digest)
    schedule = _schedules.get(digest)
    if schedule is None:
        columns = tables.live_campaign.c
        query = sa.select(columns.curve).where(columns.campaign == found.campaign)
        schedule = _schedules[digest] = schedule_of(str(connection.execute(query).scalar_one()))
    return schedule
