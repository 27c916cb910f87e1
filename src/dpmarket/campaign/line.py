"""Reservations and the waiting line of online campaigns: room before any report.

A reservation is the offer's largest payment, held for minutes, and a place of the group's quota: whether
there is room never depends on what anybody reports. Without room sellers wait in order; a group whose places
are all sold is full. A reservation that ends unused is given again, three times in all.
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.acts import Caller, act
from dpmarket.campaign.money import count, leave, of
from dpmarket.campaign.transaction import PARTICIPATION, Participation, Tx, lock_campaign, only_while, require

CALLED_AT_ONCE = 20
_own = schema.participation.c


@dataclass(frozen=True)
class Reservation:
    """Whether a seller can choose now: ``reserved``, ``waiting``; for good: ``expired``, ``screened_out``."""

    state: str
    until: str | None = None  # of a reservation
    place: int | None = None  # sellers who are called before, this one included; none for a lifetime limit


def refuse_unless_open(tx: Tx, me: Participation) -> None:
    """Refuse unless the campaign is open, and within its times."""
    require(me.campaign_state == "open", "state", only_while("open"))
    require((me.opens_at or "") <= tx.now, "early", "The campaign has not begun.")
    is_over = me.closes_at is not None and tx.now >= me.closes_at
    require(not is_over, "expired", "The time to report or choose is over.")


@act("seller")
def reserve(tx: Tx, me: Participation) -> Reservation:
    """Hold the largest payment for a seller who wants to see the menu, or give a place in the line."""
    refuse_unless_open(tx, me)
    sentence = "In this campaign sellers report, and all are quoted at once."
    require(me.mechanism != "offline", "state", sentence)
    if me.state == "reserved":
        if str(me.until) > tx.now:
            return Reservation("reserved", me.until)
        me = _free(tx, me)
        if me.state == "expired":  # a refusal would take it back
            return Reservation("expired")
    is_next = me.state in ("consented", "waiting")
    require(is_next, "state", "Only sellers who consented and have no quote can do this.")
    if me.epsilon_held == 0:
        if not people.hold_limits(tx, me.person, me.ceiling, me.delta):
            return Reservation("waiting")
        tx.move(me, "consented", epsilon_held=me.ceiling, reason=None, until=None, position=None)
        me = tx.participation(me.id)
    until = tx.later(tx.terms.reservation)
    for frees in (True, False):
        first = tx.c.scalar(_line(me.campaign, sa.select(_own.id)).where(_own.pool == me.pool).limit(1))
        if first in (None, me.id) and _take(tx, me, until):
            return Reservation("reserved", until)
        if not (frees and free_ended(tx, me.campaign)):
            break
    if end_full(tx, me):
        return Reservation("screened_out")
    if me.panel:
        leave(tx, me, "screened_out", reason="full")  # nobody could call them
        return Reservation("screened_out")
    return _wait(tx, me)


@act("worker")
def tidy_line(tx: Tx, caller: Caller, campaign: int) -> int:
    """Free reservations and quotes whose time is over, and call waiting sellers; return how many."""
    found = lock_campaign(tx, campaign)
    free_ended(tx, campaign, most=None)
    if found.state != "open" or (found.closes_at is not None and tx.now >= found.closes_at):
        return 0
    called, full = 0, set()
    for me in tx.c.execute(_line(campaign, PARTICIPATION).limit(CALLED_AT_ONCE)).all():
        if me.pool not in full and _take(tx, me, tx.later(tx.terms.called)):
            called += 1
            tx.job("called", me.id, tx.now, lane="mail")
        else:
            full.add(me.pool)
            end_full(tx, me)
    return called


def end_full(tx: Tx, me: Participation) -> bool:
    """End a participation whose group is full: as many accepted as its quota says; return whether it is."""
    account = schema.account.c
    mine = sa.and_(account.campaign == me.campaign, account.name == me.pool)
    quota = tx.c.scalar(sa.select(account.quota).where(mine))
    sold = sa.and_(_own.pool == me.pool, of(me.campaign, "accepted", "delivered"))
    if quota is None or count(tx.c, sold) < quota:
        return False
    leave(tx, me, "screened_out", reason="full")
    return True


def free_ended(tx: Tx, campaign: int, most: int | None = CALLED_AT_ONCE) -> int:
    """Free reservations and quotes whose time is over, some or all of them; return how many there were."""
    is_held = sa.or_(_own.state == "reserved", _own.state == "quoted")
    is_over = sa.and_(_own.until.is_not(None), _own.until <= tx.now)
    query = PARTICIPATION.where(_own.campaign == campaign, is_over, is_held).order_by(_own.id).limit(most)
    # Rows that another act has in hand are left to it.
    rows = tx.c.execute(query.with_for_update(of=schema.participation, skip_locked=True)).all()
    for one in rows:
        _free(tx, one)
    return len(rows)


def _free(tx: Tx, me: Participation) -> Participation:
    """End a reservation or quote whose time is over."""
    if me.state == "quoted" or me.reservations >= tx.terms.reservations:
        leave(tx, me, "expired")
    else:
        tx.move(me, "consented", money_held=0, until=None)
        money.void(tx, me.campaign, me.pool, me.money_held)
    return tx.participation(me.id)


def _take(tx: Tx, me: Participation, until: str) -> bool:
    """Give a reservation if escrow and quota have room."""
    largest = me.largest or 0
    values = {"until": until, "reason": None, "position": None, "money_held": largest, "since": tx.now}
    # Own row, then the account: all acts take them in this order, so that none waits in a circle.
    with tx.c.begin_nested() as savepoint:
        tx.move(me, "reserved", reservations=me.reservations + 1, **values)
        if not money.hold(tx, me.campaign, me.pool, largest):
            savepoint.rollback()
            return False
    tx.event(me.campaign, "reserved", me.id)
    return True


def _line(campaign: int, query: sa.Select[Any]) -> Any:
    """Return the query of sellers who wait for room, in order."""
    waits = (_own.until.is_not(None), _own.state == "waiting", _own.reason == "room")
    mine = query.where(_own.campaign == campaign, *waits)
    return mine.order_by(_own.since, _own.position, _own.id)


def _wait(tx: Tx, me: Participation) -> Reservation:
    if me.state != "waiting":
        there = sa.and_(_own.campaign == me.campaign, _own.until.is_not(None), _own.state == "waiting")
        last = tx.c.scalar(sa.select(sa.func.max(_own.position)).where(there)) or 0
        until = me.closes_at or tx.now
        tx.move(me, "waiting", reason="room", position=last + 1, since=tx.now, until=until)
        tx.event(me.campaign, "waiting", me.id)
    return Reservation("waiting", None, place_of(tx.c, tx.participation(me.id)))


def place_of(c: sa.Connection, me: Participation) -> int:
    """Return how many of the same pool are called before a seller who waits, the seller included."""
    before = sa.or_(_own.since < me.since, sa.and_(_own.since == me.since, _own.position <= me.position))
    waiting = sa.and_(_own.campaign == me.campaign, _own.pool == me.pool, _own.state == "waiting")
    return count(c, sa.and_(_own.until.is_not(None), waiting, _own.reason == "room", before))
