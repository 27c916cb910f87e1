"""What a worker opens for a member: the web process has no private key.

A request is a job of the lane ``now`` with the public half of a key that lives in the asking process's memory
only. The worker opens what was asked for with the operator's key and seals it to that key; the database
never has it in clear, and the job's row is deleted once it is answered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.database import Market
from dpmarket.campaign.jobs import Job
from dpmarket.campaign.seal import OPERATOR, Opener, ShortKey, seal
from dpmarket.campaign.transaction import body_of, new_id, nothing
from dpmarket.errors import FileProblem

WAIT_SECONDS = 20.0
_PAUSE = 0.03
_job, _seller, _own = schema.job.c, schema.seller.c, schema.participation.c


def unsealed_document(market: Market, campaign: int, kind: str) -> bytes:
    """Return a document that is sealed to the operator's key; the caller's role was checked before."""
    return _ask(market, {"document": kind, "campaign": campaign})


def unsealed_payees(market: Market, payout: int) -> dict[int, str]:
    """Return the payees of a payout by participation; the caller's role was checked before."""
    answer = _ask(market, {"payout": payout})
    return {int(one): str(payee) for one, payee in json.loads(answer).items()}


def await_key(market: Market, campaign: int, seconds: float = WAIT_SECONDS) -> None:
    """Wait until a worker has made a campaign's key."""
    query = sa.select(schema.campaign.c.public_key).where(schema.campaign.c.id == campaign)
    for row in _looks(market, query, seconds):
        if row.public_key is not None:
            return
    raise FileProblem("no worker makes the campaign's key: start one with 'dpmarket worker'.")


def operators_opener(market: Market) -> Opener:
    """Return what opens rows that are sealed to the operator's key, in a process with private keys."""
    public = market.operator_key()
    if market.keys is None or public is None:
        raise FileProblem("the operator's private key is not here.")
    return Opener(market.keys, OPERATOR, bytes(public))


def answer_unseal(market: Market, job: Job) -> bytes:
    """Open what a job asks for and seal it to the asking process's key; a worker does this."""
    asked, opener = json.loads(job.body or b"{}"), operators_opener(market)
    with market.look() as c:
        content = _payees(c, opener, asked) if "payout" in asked else _opened(c, opener, asked)
    # The first byte says whether there is anything.
    answer = b"\0" if content is None else b"\1" + content
    return seal(bytes.fromhex(asked["key"]), answer, "unseal", str(job.subject))


def _opened(c: sa.Connection, opener: Opener, asked: dict[str, Any]) -> bytes | None:
    kind, campaign = str(asked["document"]), int(asked["campaign"])
    body = body_of(c, campaign, kind)
    return None if body is None else opener.open(body, kind, str(campaign))


def _payees(c: sa.Connection, opener: Opener, asked: dict[str, Any]) -> bytes:
    query = sa.select(_own.id, _seller.payee).join(schema.seller, _seller.participation == _own.id)
    named = query.where(_own.payout == int(asked["payout"]), _seller.payee.is_not(None))
    found = {row.id: opener.open(bytes(row.payee), "payee", str(row.id)) for row in c.execute(named)}
    return json.dumps({who: payee.decode() for who, payee in found.items() if payee is not None}).encode()


def _ask(market: Market, asked: dict[str, Any]) -> bytes:
    key, subject = ShortKey(), new_id()
    body = json.dumps({**asked, "key": key.public.hex()}).encode()
    market.transact(lambda tx: tx.job("unseal", subject, tx.now, lane="now", body=body))
    mine = sa.and_(_job.kind == "unseal", _job.subject == subject)
    try:
        for row in _looks(market, sa.select(_job.state, _job.answer).where(mine), WAIT_SECONDS):
            if row.state == "done":
                opened = key.open(bytes(row.answer), "unseal", str(subject))
                if opened[:1] == b"\0":
                    raise nothing()
                return opened[1:]
            if row.state == "failed":
                break
    finally:
        with market.writing() as c:
            c.execute(schema.job.delete().where(mine))
    raise FileProblem("no worker answers: start one with 'dpmarket worker'.")


def _looks(market: Market, query: Any, seconds: float) -> Iterator[Any]:
    """Give a row as it is now, again and again for some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with market.look() as c:
            row = c.execute(query).one()
        yield row
        time.sleep(_PAUSE)
