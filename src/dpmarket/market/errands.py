"""Do for those without private keys what needs one: make key pairs, and open what somebody may see.

Who answers requests holds no private key. A worker makes the pair of every draft and tells its public half;
what was sealed to the operator is opened by a worker on request, and sealed again to a key that lives only in
the memory of who asked (:mod:`dpmarket.market.asking`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta

import sqlalchemy as sa

from dpmarket.errors import DpmarketError, MarketRefusal
from dpmarket.files import table_to_bytes
from dpmarket.ledger import Connection, reading
from dpmarket.market import tables
from dpmarket.market.clearing import costs_of
from dpmarket.market.desk import Desk, acting, time_text
from dpmarket.market.keys import OPERATOR, destroy_key, new_key, operator_key, seal
from dpmarket.market.listing import campaign_of_payout
from dpmarket.market.payouts import payout_lines
from dpmarket.market.statements import insert
from dpmarket.market.training import openings_of
from dpmarket.market.views import Caller

_live, _public, _question = tables.live_campaign.c, tables.public_key.c, tables.question.c
_FORGOTTEN = timedelta(minutes=10)


def do_errands(desk: Desk, now: datetime) -> int:
    """Make key pairs that are missing and answer questions; return how many of both.

    Any number of workers may do this side by side: a pair that came second is destroyed.
    """
    with reading(desk.ledger) as connection:
        told = connection.execute(sa.select(_public.name).where(_public.name == OPERATOR)).first()
        without = sa.select(_live.campaign).where(_live.state == "draft", _live.public_key.is_(None))
        drafts = [str(campaign) for campaign in connection.execute(without).scalars()]
        open_ones = sa.select(_question.id).where(_question.sealed.is_(None), _question.refusal.is_(None))
        asked = [str(identity) for identity in connection.execute(open_ones).scalars()]
        old = _question.made_at < time_text(now - _FORGOTTEN)
        forgotten = connection.execute(sa.select(_question.id).where(old).limit(1)).first()
    if told is None:
        with acting(desk) as connection:
            tell_operator_key(desk, connection, now)
    for campaign in drafts:
        _make_key(desk, campaign)
    for identity in asked:
        _answer(desk, identity)
    if forgotten is not None:
        with acting(desk) as connection:
            connection.execute(tables.question.delete().where(old))
    return len(drafts) + len(asked)


def tell_operator_key(desk: Desk, connection: Connection, now: datetime) -> None:
    """Enter the public half of the operator's key, whose pair is made if there is none."""
    values = {"name": OPERATOR, "key": operator_key(desk.keys), "made_at": time_text(now)}
    connection.execute(insert(connection, tables.public_key, values).on_conflict_do_nothing())


def _make_key(desk: Desk, campaign: str) -> None:
    public = new_key(desk.keys, campaign)
    with acting(desk) as connection:
        taken = connection.execute(
            tables.live_campaign.update()
            .where(_live.campaign == campaign, _live.state == "draft", _live.public_key.is_(None))
            .values(public_key=public)
        )
    if taken.rowcount != 1:
        destroy_key(desk.keys, campaign, public)


def _answer(desk: Desk, identity: str) -> None:
    query = sa.select(_question.kind, _question.subject, _question.public_key)
    with reading(desk.ledger) as connection:
        found = connection.execute(query.where(_question.id == identity)).one_or_none()
    if found is None:
        return
    values: dict[str, object]
    try:
        content = _ANSWERS[found.kind](desk, found.subject)
        values = {"sealed": seal(bytes(found.public_key), content, "answer", identity)}
    except MarketRefusal as refusal:
        values = {"refusal": refusal.kind}
    except DpmarketError:
        values = {"refusal": "unavailable"}
    with acting(desk) as connection:
        connection.execute(tables.question.update().where(_question.id == identity).values(values))


def _payout(desk: Desk, payout: str) -> bytes:
    with reading(desk.ledger) as connection:
        found, made = campaign_of_payout(connection, payout)
    # Who asked was looked at before the question was entered.
    lines = payout_lines(desk, Caller("paymaster", ""), found.campaign, made.number)
    return json.dumps([asdict(line) for line in lines]).encode()


def _costs(desk: Desk, campaign: str) -> bytes:
    return table_to_bytes(costs_of(desk, campaign))


_ANSWERS: dict[str, Callable[[Desk, str], bytes]] = {
    "payout": _payout,
    "openings": openings_of,
    "costs": _costs,
}
