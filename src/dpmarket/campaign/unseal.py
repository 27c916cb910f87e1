"""What a worker opens for a member: the web process has no private key.

A request is a job of the lane ``now`` with the public half of a key that lives in the asking process's memory
only. The worker opens what was asked for with the operator's key and seals it to that key; the database
never has it in clear, and the job's row is deleted once it is answered.
"""

from __future__ import annotations

import json
import time
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import new_id
from dpmarket.campaign.database import Market
from dpmarket.campaign.jobs import Job
from dpmarket.campaign.seal import OPERATOR, Opener, ShortKey, seal
from dpmarket.errors import FileProblem, MarketRefusal

WAIT_SECONDS = 20.0
_PAUSE = 0.03
_job, _seller, _own, _document = schema.job.c, schema.seller.c, schema.participation.c, schema.document.c


def unsealed_document(market: Market, campaign: int, kind: str) -> bytes:
    """Return a document that is sealed to the operator's key; the caller's role was checked before.

    Raises
    ------
    MarketRefusal
        It cannot be opened.
    FileProblem
        No worker answers.
    """
    return _ask(market, {"document": kind, "campaign": campaign})


def unsealed_payees(market: Market, payout: int) -> dict[int, str]:
    """Return the payees of a payout by participation; raises as :func:`unsealed_document`."""
    answer = _ask(market, {"payout": payout})
    return {int(one): str(payee) for one, payee in json.loads(answer).items()}


def await_key(market: Market, campaign: int, seconds: float = WAIT_SECONDS) -> None:
    """Wait until a worker has made a campaign's key.

    Raises
    ------
    FileProblem
        No worker makes it.
    """
    query = sa.select(schema.campaign.c.public_key).where(schema.campaign.c.id == campaign)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with market.look() as c:
            if c.execute(query).scalar() is not None:
                return
        time.sleep(_PAUSE)
    raise FileProblem("no worker makes the campaign's key: start one with 'dpmarket worker'.")


def answer_unseal(market: Market, job: Job) -> bytes:
    """Open what a job asks for and seal it to the asking process's key; a worker does this."""
    asked = json.loads(bytes(job.body or b"{}"))
    public = bytes.fromhex(asked["key"])
    with market.look() as c:
        operator = c.execute(sa.select(schema.market.c.operator_key)).scalar()
        if market.keys is None or operator is None:
            raise FileProblem("the operator's private key is not here.")
        opener = Opener(market.keys, OPERATOR, bytes(operator))
        content = _payees(c, opener, asked) if "payout" in asked else _opened(c, opener, asked)
    # The first byte says whether there is anything.
    return seal(public, b"\0" if content is None else b"\1" + content, "unseal", str(job.subject))


def _opened(c: sa.Connection, opener: Opener, asked: dict[str, Any]) -> bytes | None:
    kind, campaign = str(asked["document"]), int(asked["campaign"])
    mine = sa.and_(_document.campaign == campaign, _document.kind == kind, _document.participation.is_(None))
    body = c.execute(sa.select(_document.body).where(mine)).scalar()
    return None if body is None else opener.open(bytes(body), kind, str(campaign))


def _payees(c: sa.Connection, opener: Opener, asked: dict[str, Any]) -> bytes:
    query = (
        sa.select(_own.id, _seller.payee)
        .join(schema.seller, _seller.participation == _own.id)
        .where(_own.payout == int(asked["payout"]), _seller.payee.is_not(None))
    )
    found = {row.id: opener.open(bytes(row.payee), "payee", str(row.id)) for row in c.execute(query)}
    return json.dumps({who: payee.decode() for who, payee in found.items() if payee is not None}).encode()


def _ask(market: Market, asked: dict[str, Any]) -> bytes:
    key, subject = ShortKey(), new_id()
    body = json.dumps({**asked, "key": key.public.hex()}).encode()
    market.transact(lambda tx: tx.job("unseal", subject, tx.now, lane="now", body=body))
    mine = sa.and_(_job.kind == "unseal", _job.subject == subject)
    query = sa.select(_job.state, _job.answer).where(mine)
    end = time.monotonic() + WAIT_SECONDS
    try:
        while time.monotonic() < end:
            with market.look() as c:
                state, answer = c.execute(query).one()
            if state == "done":
                opened = key.open(bytes(answer), "unseal", str(subject))
                if opened[:1] == b"\0":
                    raise MarketRefusal("unknown", "There is nothing here for this caller.")
                return opened[1:]
            if state == "failed":
                break
            time.sleep(_PAUSE)
    finally:
        with market.writing() as c:
            c.execute(schema.job.delete().where(mine))
    raise FileProblem("no worker answers: start one with 'dpmarket worker'.")
