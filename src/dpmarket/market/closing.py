"""Close a campaign, fix the set of its sellers as a round of the ledger, and end it as the ledger says.

From the round's entry on nobody can leave while the training runs. What became of the round is read from the
ledger, so that a worker that died at any point is followed by one that goes on from there.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import polars as pl
import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.files import table_to_bytes
from dpmarket.ledger import Connection, NewRound, Round, enter_round, rounds
from dpmarket.ledger.engine import new_id
from dpmarket.ledger.rounds import EPSILON, LIVE, PAYMENT, SELLER
from dpmarket.market import tables
from dpmarket.market.campaigns import LiveCampaign, campaign_of, end_for_all, step
from dpmarket.market.desk import lock_ledger, time_text
from dpmarket.market.events import enter_event, enter_event_for_all
from dpmarket.market.holds import void_all
from dpmarket.market.jobs import enter_job
from dpmarket.market.opening import market_of
from dpmarket.market.people import free_epsilon_of_all, on_grid

_own, _quote, _person = tables.participation.c, tables.quote.c, tables.person.c


def close_campaign(connection: Connection, campaign: str, now: datetime) -> str:
    """End the time for records; return the state, ``closed`` or, if no record came, ``cancelled``.

    Quotes that were not accepted expire, acceptances without a record lapse. Training begins by itself:
    nobody decides after seeing sums.

    Raises
    ------
    MarketRefusal
        It is too early, or the campaign is not open any more (or offline and not cleared or paid).
    """
    lock_ledger(connection)
    found, at = campaign_of(connection, campaign), time_text(now)
    before = "open" if found.mechanism == "online" else "deciding"
    if found.state != before:
        raise MarketRefusal("state", f"this campaign is {found.state}.")
    if at < found.deliver_until:
        raise MarketRefusal("early", f"records can be sent until {found.deliver_until}.")
    step(connection, campaign, (before,), state="closed")
    end_for_all(connection, campaign, at)
    for gone, state in (("quoted", "expired"), ("accepted", "lapsed")):
        chosen = sa.and_(_own.campaign == campaign, _own.state == gone)
        enter_event_for_all(connection, campaign, state, at, chosen)
        void_all(connection, found.escrow, chosen, at)
        free_epsilon_of_all(connection, chosen)
        connection.execute(tables.participation.update().where(chosen).values(state=state))
    if cancel_empty(connection, campaign, now):
        return "cancelled"
    enter_event(connection, campaign, None, "closed", at)
    enter_job(connection, "train", campaign, at)
    return "closed"


def cancel_empty(connection: Connection, campaign: str, now: datetime) -> bool:
    """Cancel a closed campaign in which nobody is left; return whether it was."""
    left = sa.select(_own.id).where(_own.campaign == campaign, _own.state == "delivered").limit(1)
    if connection.execute(left).first() is not None:
        return False
    if not step(connection, campaign, ("closed",), state="cancelled"):
        return False
    enter_event(connection, campaign, None, "cancelled", time_text(now))
    return True


def begin_training(connection: Connection, campaign: str, now: datetime) -> Round:
    """Fix the set of sellers: enter them as a round whose money is held, and count their promises as spent.

    Raises
    ------
    MarketRefusal
        The campaign is not closed, or everybody has withdrawn.
    """
    lock_ledger(connection)
    at = time_text(now)
    if not step(connection, campaign, ("closed",), state="training"):
        raise MarketRefusal("state", f"this campaign is {campaign_of(connection, campaign).state}.")
    found = campaign_of(connection, campaign)
    chosen = sa.and_(_own.campaign == campaign, _own.state == "delivered")
    query = (
        sa.select(_own.id, _own.person, _quote.epsilon, _quote.payment)
        .join(tables.quote, _quote.participation == _own.id)
        .where(chosen)
        .order_by(_own.id)
    )
    rows = connection.execute(query).all()
    if not rows:
        raise MarketRefusal("state", "everybody has withdrawn: there is nothing to train on.")
    _count_as_spent(connection, chosen, [(row.id, on_grid(row.epsilon)) for row in rows])
    if found.round is not None:
        return rounds.round_of(connection, found.round)
    void_all(connection, found.escrow, chosen, at)  # from now on it is the round's hold
    quotes = pl.DataFrame(
        {
            SELLER: [row.person for row in rows],
            EPSILON: [row.epsilon for row in rows],
            PAYMENT: [row.payment for row in rows],
        },
        schema={SELLER: pl.String, EPSILON: pl.Float64, PAYMENT: pl.Int64},
    )
    entered = enter_round(connection, campaign, _new_round(connection, found, quotes))
    step(connection, campaign, ("training",), round=entered.number)
    enter_event(connection, campaign, None, "training", at)
    return entered


def settle_campaign(connection: Connection, campaign: str, now: datetime) -> str:
    """End a campaign's training as the ledger says it ended; return the campaign's state.

    *Released* or *lost*: promises are spent, payments are the sellers', records are deleted. *Open*: no
    noise can have been drawn, promises are given back, the money stays held, and it can be trained again.
    A training that runs is left alone.
    """
    lock_ledger(connection)
    found, at = campaign_of(connection, campaign), time_text(now)
    if found.state not in ("closed", "training") or found.round is None:
        return found.state
    ended = rounds.round_of(connection, found.round)
    chosen = sa.and_(_own.campaign == campaign, _own.state == "delivered")
    if ended.state == "open" and found.state == "training":
        step(connection, campaign, ("training",), state="closed")
        _count_as_held(connection, chosen)
        enter_event(connection, campaign, None, "training given up", at)
        return "closed"
    if ended.state not in ("released", "lost"):
        return found.state
    if found.state == "closed":  # who was taken for dead went on
        _count_as_spent(connection, chosen, _promises(connection, chosen))
    step(connection, campaign, ("closed", "training"), state=ended.state)
    if ended.state == "released":
        _correct_spent(connection, campaign, ended)
        enter_job(connection, "certify", campaign, at)
    sold = sa.select(_own.id).where(_own.campaign == campaign)
    connection.execute(tables.record.delete().where(tables.record.c.participation.in_(sold)))
    enter_event_for_all(connection, campaign, "trained" if ended.state == "released" else "spent", at, chosen)
    connection.execute(tables.participation.update().where(chosen).values(state="spent"))
    enter_event(connection, campaign, None, ended.state, at)
    return ended.state


def _promises(connection: Connection, chosen: sa.ColumnElement[bool]) -> list[tuple[str, float]]:
    query = sa.select(_own.id, _quote.epsilon).join(tables.quote, _quote.participation == _own.id)
    return [(row.id, on_grid(row.epsilon)) for row in connection.execute(query.where(chosen))]


def _new_round(connection: Connection, found: LiveCampaign, quotes: pl.DataFrame) -> NewRound:
    identity = new_id()
    decided = _decision(connection, found)
    return NewRound(
        quotes=quotes,
        content=table_to_bytes(quotes),
        identity=identity,
        digest=f"{LIVE}{identity}",
        repetition=0,
        mechanism=decided["mechanism"],
        minor_units=found.minor_units,
        ceiling=found.ceiling,
        parameters=decided,
        delta=market_of(found.market).objective.delta or 0.0,
    )


def _decision(connection: Connection, found: LiveCampaign) -> dict[str, Any]:
    """Return all that decided: by clearing, or the schedule's rules."""
    columns = tables.live_campaign.c
    query = sa.select(columns.decision, columns.curve).where(columns.campaign == found.campaign)
    row = connection.execute(query).one()
    return dict(json.loads(row.curve if row.decision is None else row.decision))


def _count_as_spent(
    connection: Connection, chosen: sa.ColumnElement[bool], amounts: list[tuple[str, float]]
) -> None:
    """Turn what is held of people's limits into their promises, spent."""
    free_epsilon_of_all(connection, chosen)
    _set_spent(connection, amounts)


def _set_spent(connection: Connection, amounts: list[tuple[str, float]]) -> None:
    """Set what participations have spent, and change their people's sums by the difference."""
    by_person = sa.select(_own.person).where(_own.id == sa.bindparam("who")).scalar_subquery()
    before = sa.select(_own.spent_epsilon).where(_own.id == sa.bindparam("who")).scalar_subquery()
    values = [{"who": who, "amount": amount} for who, amount in amounts]
    connection.execute(
        tables.person.update()
        .where(_person.id == by_person)
        .values(spent_epsilon=_person.spent_epsilon - before + sa.bindparam("amount")),
        values,
    )
    connection.execute(
        tables.participation.update()
        .where(_own.id == sa.bindparam("who"))
        .values(spent_epsilon=sa.bindparam("amount")),
        values,
    )


def _count_as_held(connection: Connection, chosen: sa.ColumnElement[bool]) -> None:
    """Turn promises that are given back into held ones: no longer the ceiling, because they are known."""
    connection.execute(
        tables.person.update()
        .where(_person.id == _own.person, chosen)
        .values(
            spent_epsilon=_person.spent_epsilon - _own.spent_epsilon,
            held_epsilon=_person.held_epsilon + _own.spent_epsilon,
        )
    )
    values = {"held_epsilon": _own.spent_epsilon, "spent_epsilon": 0.0}
    connection.execute(tables.participation.update().where(chosen).values(values))


def _correct_spent(connection: Connection, campaign: str, ended: Round) -> None:
    """Count what the released model really spent, which is never more than was promised."""
    quotes = rounds.quotes_of(connection, ended.number)
    spent = dict(
        zip(quotes.get_column(SELLER).to_list(), rounds.spent_of(connection, ended).tolist(), strict=True)
    )
    query = sa.select(_own.id, _own.person).where(_own.campaign == campaign, _own.state == "delivered")
    rows = connection.execute(query).all()
    _set_spent(connection, [(row.id, on_grid(spent[row.person])) for row in rows])
