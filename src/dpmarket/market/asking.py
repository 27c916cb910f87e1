"""Get what needs a private key from a worker: ask, wait, and open the answer with a key of this moment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import polars as pl
import sqlalchemy as sa

from dpmarket.errors import FileProblem, MarketRefusal
from dpmarket.files import table_from_bytes
from dpmarket.ledger import Connection, reading
from dpmarket.ledger.engine import new_id
from dpmarket.market import tables
from dpmarket.market.campaigns import campaign_of
from dpmarket.market.desk import Desk, acting, time_text
from dpmarket.market.keys import OPERATOR, ShortKey
from dpmarket.market.payouts import PayoutLine
from dpmarket.market.views import Caller

WAIT = 20.0
"""How many seconds a worker is waited for."""

_live, _public, _question = tables.live_campaign.c, tables.public_key.c, tables.question.c
_PAUSE = 0.05
_Found = TypeVar("_Found")


def await_campaign_key(desk: Desk, campaign: str, seconds: float = WAIT) -> None:
    """Wait until a worker has made the key pair of a draft; whatever is no draft is not waited for.

    Raises
    ------
    MarketRefusal
        There is no such campaign.
    FileProblem
        No worker did it in time.
    """

    def made() -> bool | None:
        with reading(desk.ledger) as connection:
            found = campaign_of(connection, campaign)
        return True if found.public_key is not None or found.state != "draft" else None

    _until(made, seconds)


def public_key_of(connection: Connection, campaign: str) -> bytes:
    """Return the public key that a worker made for a campaign.

    Raises
    ------
    FileProblem
        It did not yet.
    """
    found = campaign_of(connection, campaign).public_key
    if found is None:
        raise _late()
    return bytes(found)


def operator_public_key(connection: Connection) -> bytes:
    """Return the operator's public key, to which payees are sealed.

    Raises
    ------
    FileProblem
        No worker has told it yet.
    """
    found = connection.execute(sa.select(_public.key).where(_public.name == OPERATOR)).scalar()
    if found is None:
        raise _late()
    return bytes(found)


def ask_for_payout(
    desk: Desk, caller: Caller, payout: str, now: datetime, seconds: float = WAIT
) -> list[PayoutLine]:
    """Return the lines of a payout, to a paymaster.

    Raises
    ------
    MarketRefusal
        The caller is no paymaster, or there is no such payout.
    FileProblem
        No worker answered in time.
    """
    content = _ask(desk, caller, "paymaster", ("payout", payout), now, seconds)
    return [PayoutLine(**line) for line in json.loads(content)]


def ask_for_openings(
    desk: Desk, caller: Caller, campaign: str, now: datetime, seconds: float = WAIT
) -> bytes:
    """Return what a certificate commits to, to an auditor; raises as :func:`ask_for_payout`."""
    return _ask(desk, caller, "auditor", ("openings", campaign), now, seconds)


def ask_for_costs(
    desk: Desk, caller: Caller, campaign: str, now: datetime, seconds: float = WAIT
) -> pl.DataFrame:
    """Return who reported what for an offline campaign, to an auditor; raises as :func:`ask_for_payout`."""
    return table_from_bytes(_ask(desk, caller, "auditor", ("costs", campaign), now, seconds))


def _ask(
    desk: Desk, caller: Caller, role: str, what: tuple[str, str], now: datetime, seconds: float
) -> bytes:
    if caller.role != role:
        raise _nothing()
    key, identity = ShortKey(), new_id()
    kind, subject = what
    values = {
        "id": identity,
        "kind": kind,
        "subject": subject,
        "public_key": key.public,
        "made_at": time_text(now),
    }
    with acting(desk) as connection:
        connection.execute(tables.question.insert().values(values))
    try:
        sealed, refusal = _until(lambda: _answer_to(desk, identity), seconds)
    finally:
        with acting(desk) as connection:
            connection.execute(tables.question.delete().where(_question.id == identity))
    if refusal == "unavailable":
        raise _late()
    if refusal is not None:
        raise _nothing()
    return key.open(sealed, "answer", identity)


def _answer_to(desk: Desk, identity: str) -> tuple[bytes, str | None] | None:
    query = sa.select(_question.sealed, _question.refusal).where(_question.id == identity)
    with reading(desk.ledger) as connection:
        row = connection.execute(query).one_or_none()
    if row is None:
        raise _late()
    if row.sealed is None and row.refusal is None:
        return None
    return bytes(row.sealed or b""), row.refusal


def _until(look: Callable[[], _Found | None], seconds: float) -> _Found:
    end = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() >= end:
            raise _late()
        time.sleep(_PAUSE)
    return found


def _late() -> FileProblem:
    return FileProblem("no worker answered in time: 'dpmarket worker' has the keys that this needs.")


def _nothing() -> MarketRefusal:
    return MarketRefusal("unknown", "there is nothing here for this caller.")
