"""Take over what the ledger knows and the desk forgot: a round that was spent after the backup was made.

When an older copy of a database is put back, ``dpmarket.ledger.repair`` enters from the log outside what was
spent since. Here the desk's own rows follow: who sold has spent, and their limits know it; who left has left.
This is done when a desk is opened, before anybody can act: afterwards limits would have been used a second
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from dpmarket.campaign.terms import is_one_by_one
from dpmarket.ledger import Connection, Round, outside, reading, rounds
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.engine import new_id
from dpmarket.ledger.keyed import canonical
from dpmarket.ledger.rounds import LIVE
from dpmarket.market import tables
from dpmarket.market.campaigns import ENDED, LiveCampaign, add_member, campaign_of, step, title_of
from dpmarket.market.closing import settle_campaign
from dpmarket.market.desk import Desk, acting, lock_ledger, time_text
from dpmarket.market.events import enter_event, enter_event_for_all
from dpmarket.market.holds import void_all
from dpmarket.market.opening import digest_of
from dpmarket.market.participations import ACTIVE, let_go
from dpmarket.market.people import free_epsilon_of_all, on_grid
from dpmarket.market.standing import standing_of
from dpmarket.market.statements import insert

_own, _person = tables.participation.c, tables.person.c
_NOBODY = "unknown since a backup was put back"
_AT_ONCE = 500  # ids in one query


def adopt_all(desk: Desk, now: datetime) -> int:
    """End all campaigns of which the ledger has a spent round that the desk does not know; return how many.

    A campaign that was drafted after the backup is made anew, as far as the log outside knows it, for a buyer
    whom nobody knows: so its sellers' limits are kept, and they can be paid.
    """
    live = tables.live_campaign.c
    known = sa.select(live.campaign).where(live.round.is_(None), live.state.not_in(ENDED))
    sold = ledger_tables.round_.c
    there = sa.select(live.campaign).where(live.campaign == sold.campaign)
    unknown = sa.select(sold.campaign).where(sold.digest.startswith(LIVE), ~there.exists()).distinct()
    with reading(desk.ledger) as connection:
        forgotten = set(connection.execute(unknown).scalars())
        alive = sorted({*connection.execute(known).scalars(), *forgotten})
    count = 0
    for campaign in alive:
        with acting(desk) as connection:
            lock_ledger(connection)
            if campaign in forgotten:
                _make_anew(connection, campaign, now)
            count += adopt_round(connection, campaign, now)
    return count


def leave_again(desk: Desk, now: datetime) -> int:
    """Let everybody go of whom only the log outside knows that they left; return how many.

    A record that came back with a backup is deleted again, and who wants no invitations gets none.
    """
    lines = [line for line in outside.read_log() if line.ledger == desk.ledger.id]
    left = [line.about["participation"] for line in lines if line.kind == "left"]
    uninvited = [line.about["person"] for line in lines if line.kind == "uninvited"]
    if not left and not uninvited:
        return 0
    with reading(desk.ledger) as connection:
        stayed = _among(connection, _own.id, left, _own.state.in_(ACTIVE))
        asked = _among(connection, _person.id, uninvited, _person.invitations == 1)
    count = 0
    for participation in stayed:
        with acting(desk) as connection:
            lock_ledger(connection)  # and look once more: who is leaving just now has left by then
            found = standing_of(connection, participation)
            if found.state in ACTIVE and found.campaign_state != "training":
                let_go(connection, participation, now, desk.terms)
                count += 1
    if asked:
        with acting(desk) as connection:
            for person in asked:
                connection.execute(tables.person.update().where(_person.id == person).values(invitations=0))
    return count


def _among(
    connection: Connection, column: sa.Column[str], ids: Sequence[str], condition: sa.ColumnElement[bool]
) -> list[str]:
    """Return those of the ids for whose row a condition holds."""
    found: list[str] = []
    for start in range(0, len(ids), _AT_ONCE):
        query = sa.select(column).where(column.in_(ids[start : start + _AT_ONCE]), condition)
        found += connection.execute(query).scalars()
    return found


def adopt_round(connection: Connection, campaign: str, now: datetime) -> bool:
    """End a campaign of which the ledger has a spent round that the desk does not know; return whether so.

    Only of rounds that a desk entered: others' sellers are known by other ids, with limits of their own. A
    person's limit that is too small for what was spent is raised to it: it was kept when they sold.
    """
    lock_ledger(connection)
    found, at = campaign_of(connection, campaign), time_text(now)
    spent = [one for one in rounds.rounds_of(connection, campaign)
             if one.state in ("released", "lost") and one.digest == f"{LIVE}{one.identity}"]  # fmt: skip
    if found.round is not None or found.state in ENDED or not spent:
        return False
    step(connection, campaign, (found.state,), state=spent[0].state, round=spent[0].number, debt=0)
    _let_go(connection, found, at)
    for sold in _sold(connection, spent[0]):
        _enter(connection, campaign, sold, at)
    _tell_ended(connection, campaign, at)
    enter_event(connection, campaign, None, spent[0].state, at)
    return True


def cancel_again(connection: Connection, campaign: str, now: datetime) -> bool:
    """Cancel a campaign that had ended without a sale, and a backup brought back; return whether it did.

    Called by who knows that it had: its buyer has the money.
    """
    lock_ledger(connection)
    settle_campaign(connection, campaign, now)  # a training that was under way when the backup was made
    found, at = campaign_of(connection, campaign), time_text(now)
    if found.state in (*ENDED, "training"):
        return False
    step(connection, campaign, (found.state,), state="cancelled", debt=0)
    _let_go(connection, found, at)
    _tell_ended(connection, campaign, at)
    enter_event(connection, campaign, None, "cancelled", at)
    return True


def _tell_ended(connection: Connection, campaign: str, at: str) -> None:
    """Enter for everybody whose part ended here that it did."""
    for state in ("expired", "lapsed"):
        event = tables.event.c
        told = sa.select(event.number).where(event.participation == _own.id, event.kind == state)
        enter_event_for_all(connection, campaign, state, at, sa.and_(_own.state == state, ~told.exists()))


def _make_anew(connection: Connection, campaign: str, now: datetime) -> None:
    """Enter a campaign of which only the ledger knows, unless somebody else did."""
    live = tables.live_campaign.c
    if connection.execute(sa.select(live.campaign).where(live.campaign == campaign)).first() is not None:
        return
    entry, at = rounds.campaign_of(connection, campaign), time_text(now)
    first = rounds.rounds_of(connection, campaign)[0]
    account = ledger_tables.account.c
    query = sa.select(account.kind, account.id).where(account.campaign == campaign)
    accounts: dict[str, str] = {row.kind: row.id for row in connection.execute(query)}
    text = canonical(_said(entry.rules or {}))
    values = {
        "campaign": campaign,
        "buyer": add_member(connection, _NOBODY, "buyer", now),
        "title": title_of(entry.name),
        "state": "closed",
        "mechanism": "online" if is_one_by_one(first.mechanism) else "offline",
        "market": text,
        "market_digest": digest_of(text),
        "ceiling": first.ceiling,
        "minor_units": entry.minor_units,
        "currency": entry.currency,
        "escrow": accounts["escrow"],
        "payable": accounts["payable"],
        "consent_version": 0,
        **dict.fromkeys(("opens_at", "closes_at", "deliver_until", "made_at"), at),
    }
    connection.execute(tables.live_campaign.insert().values(values))


def _said(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return rules without the keys that a market file leaves out: so they can be read as one."""
    return {
        key: _said(value) if isinstance(value, Mapping) else value
        for key, value in rules.items()
        if value is not None
    }


def _let_go(connection: Connection, found: LiveCampaign, at: str) -> None:
    """Free all that is held: whoever has spent something is entered anew."""
    active = sa.and_(_own.campaign == found.campaign, _own.state.in_(ACTIVE))
    void_all(connection, found.escrow, active, at)
    free_epsilon_of_all(connection, active)
    mine = sa.select(_own.id).where(_own.campaign == found.campaign)
    for table in (tables.record, tables.waiting):
        connection.execute(table.delete().where(table.c.participation.in_(mine)))
    ended = sa.case((_own.state == "accepted", "lapsed"), else_="expired")
    values = {"state": ended, "lease_until": None, "sealed_cost": None}
    connection.execute(tables.participation.update().where(active).values(values))


class _Sold(NamedTuple):
    """What somebody sold: the promise, the payment in minor units, what was spent on the grid."""

    person: str
    epsilon: float
    payment: int
    spent: float


def _sold(connection: Connection, entered: Round) -> list[_Sold]:
    """Return who sold in a round."""
    quotes = rounds.quotes_of(connection, entered.number)
    gone = rounds.withdrawn_of(connection, entered.number, quotes).tolist()
    spent = rounds.spent_of(connection, entered).tolist()
    rows = zip(quotes.iter_rows(), gone, spent, strict=True)
    return [
        _Sold(who, epsilon, paid, on_grid(used))
        for (who, epsilon, paid), withdrew, used in rows
        if epsilon > 0.0 and not withdrew
    ]


def _enter(connection: Connection, campaign: str, sold: _Sold, at: str) -> None:
    person, spent = sold.person, sold.spent
    known = {"id": person, "cap_epsilon": spent, "made_at": at}
    connection.execute(insert(connection, tables.person, known).on_conflict_do_nothing())
    own = {"id": new_id(), "campaign": campaign, "person": person, "state": "expired", "made_at": at}
    connection.execute(insert(connection, tables.participation, own).on_conflict_do_nothing())
    mine = sa.and_(_own.campaign == campaign, _own.person == person)
    who = connection.execute(sa.select(_own.id).where(mine)).scalar_one()
    quote = {"participation": who, "epsilon": sold.epsilon, "payment": sold.payment, "made_at": at}
    connection.execute(insert(connection, tables.quote, quote).on_conflict_do_nothing())
    connection.execute(tables.participation.update().where(mine).values(state="spent", spent_epsilon=spent))
    total = _person.spent_epsilon + spent
    enough = sa.case((_person.cap_epsilon < total + _person.held_epsilon, total + _person.held_epsilon),
                     else_=_person.cap_epsilon)  # fmt: skip
    connection.execute(
        tables.person.update().where(_person.id == person).values(spent_epsilon=total, cap_epsilon=enough)
    )
    enter_event(connection, campaign, who, "spent", at)
