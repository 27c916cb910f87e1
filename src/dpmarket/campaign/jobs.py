"""The one queue: jobs that are done once, by one worker, however many workers there are or die.

Four lanes: ``work`` (clear, close, train), ``mail``, ``hook`` (webhooks) and ``now`` (what a person waits
for). A job of a worker that died is due again, except in the lane ``mail``: it was perhaps sent, is
``unknown``, and is never repeated unless somebody asks for it.

What is sealed to the operator's key is opened by a worker, since the web process has no private key. A
request has the public half of a key that lives in the asking process's memory only; the worker seals what was
asked for to that key. The database never has it in clear, and the job's row is deleted once it is answered.
"""

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import pydantic
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, act
from dpmarket.campaign.database import Market
from dpmarket.campaign.schema import time_text
from dpmarket.campaign.seal import OPERATOR, Opener, key_pair, opener_of, seal
from dpmarket.campaign.transaction import Tx, body_of, campaign_of, new_id, nothing, require
from dpmarket.errors import DpmarketError, FileProblem

FORECAST = "forecast"  # the kind of the job
Sample = Annotated[str, pydantic.Field(min_length=1, max_length=10**7, pattern=r"^[^\x00]*$")]
WAIT_SECONDS = 20.0
_PAUSE = 0.03
_job, _seller, _own = schema.job.c, schema.seller.c, schema.participation.c
_LONGEST_PAUSE = timedelta(minutes=10)
MOST_ATTEMPTS = {"mail": 8, "hook": 60}  # how often what leaves the machine is tried before it has failed
MOST_DEATHS = 20  # so many workers die of a job, or break off for an unforeseen reason, before it has failed


class PerhapsSent(DpmarketError):
    """A mail was handed over, and the answer was lost."""


@dataclass(frozen=True)
class Job:
    """A job that one worker does now."""

    claim: str  # this worker's; another one's ends it
    id: int
    kind: str
    subject: int  # a campaign or a participation
    lane: str
    body: bytes | None
    attempts: int  # how often it was begun, this time included


def has_due_job(market: Market, lane: str, kinds: Sequence[str], now: datetime) -> bool:
    """Whether a job of a lane and of some kinds is due; only jobs that have not ended are looked at."""
    due = sa.and_(_due((lane,), time_text(now)), _job.kind.in_(kinds))
    with market.look() as c:
        return c.execute(sa.select(_job.id).where(due).limit(1)).first() is not None


def _is_dead(at: str) -> Any:
    return sa.and_(_job.state == "running", _job.lease_until <= at)


def _due(lanes: Sequence[str], at: str) -> Any:
    is_due = sa.or_(sa.and_(_job.state == "waiting", _job.due_at <= at), _is_dead(at))
    return sa.and_(is_due, _job.lane.in_(lanes))


def claim_job(market: Market, lanes: Sequence[str], kinds: Sequence[str], now: datetime) -> Job | None:
    """Take the job of some lanes and kinds that is due longest; None if there is none."""
    at, claim, until = time_text(now), secrets.token_hex(16), time_text(now + market.terms.job)
    due, is_dead = _due(lanes, at), _is_dead(at)
    with market.look() as c:  # most of the time there is none, and nobody is kept from writing
        if c.execute(sa.select(_job.id).where(due).limit(1)).first() is None:
            return None
    with market.writing() as c:
        lost = schema.job.update().where(_job.lane == "mail", is_dead)
        c.execute(lost.values(state="unknown", claim=None, lease_until=None))
        deadly = schema.job.update().where(is_dead, _job.attempts >= MOST_DEATHS)
        c.execute(deadly.values(state="failed", error="died", claim=None, lease_until=None))
        query = sa.select(_job.id).where(due, _job.kind.in_(kinds)).order_by(_job.due_at, _job.id).limit(1)
        identity = c.scalar(query.with_for_update(skip_locked=True))
        if identity is None:
            return None
        mine = schema.job.update().where(_job.id == identity).values(state="running", claim=claim, error=None)
        mine = mine.values(attempts=_job.attempts + 1, lease_until=until)
        columns = (_job.id, _job.kind, _job.subject, _job.lane, _job.body, _job.attempts)
        return Job(claim, *c.execute(mine.returning(*columns)).one())


def renew_job(market: Market, job: Job, now: datetime) -> bool:
    """Show that a job's worker is alive; return whether the job is still its own."""
    return _change(market, job, lease_until=time_text(now + market.terms.job))


def end_job(
    market: Market, job: Job, answer: bytes | None = None, *, state: str = "done", error: str | None = None
) -> bool:
    """Enter what became of a job, unless it was taken over or entered anew; return whether it was not.

    ``error`` is a class of errors, never a message. What a job that is done was made from is forgotten.
    """
    values = {"state": state, "error": error, "answer": answer} | ({"body": None} if state == "done" else {})
    return _change(market, job, claim=None, lease_until=None, **values)


def put_off_job(market: Market, job: Job, error: str, now: datetime) -> bool:
    """Enter that a job could not be done for a reason that passes; it is due again later and later."""
    pause = min(timedelta(seconds=2.0 ** min(job.attempts, 20)), _LONGEST_PAUSE)
    values = {"state": "waiting", "error": error, "due_at": time_text(now + pause)}
    return _change(market, job, claim=None, lease_until=None, **values)


@act("operator")
def retry(tx: Tx, caller: Caller, perhaps_sent: bool = False) -> int:  # noqa: FBT001, FBT002
    """Make failed jobs due again, and on request mails that were perhaps sent; return how many."""
    states = ("failed", "unknown") if perhaps_sent else ("failed",)
    again = {"state": "waiting", "due_at": tx.now, "error": None, "attempts": 0}
    return tx.set(schema.job, _job.state.in_(states), **again)


def _change(market: Market, job: Job, **values: object) -> bool:
    with market.writing() as c:
        mine = sa.and_(_job.id == job.id, _job.claim == job.claim)
        return c.execute(schema.job.update().where(mine).values(**values)).rowcount == 1


@act("buyer")
def ask_forecast(tx: Tx, caller: Caller, campaign: int, sample: Sample) -> None:
    """Have a worker simulate a draft's campaign on a public table, as CSV with the columns of the rules."""
    require(campaign_of(tx.c, campaign).state == "draft", "state", "Forecasts are made of drafts.")
    tx.job(FORECAST, campaign, tx.now, body=sample.encode())


def forecast_of(c: sa.Connection, campaign: int) -> dict[str, Any] | None:
    """Return a draft's forecast as plain data; empty while it is being made, None if nobody asked for one."""
    query = sa.select(_job.state, _job.answer).where(_job.kind == FORECAST, _job.subject == campaign)
    found = c.execute(query).one_or_none()
    if found is None or found.state not in ("waiting", "running", "done"):
        return None
    if found.state != "done":
        return {}
    made: dict[str, Any] = json.loads(found.answer)
    return made if made["rules"] == campaign_of(c, campaign).rules_digest else None


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
    return opener_of(market.keys, OPERATOR, market.operator_key())


def answer_unseal(market: Market, job: Job) -> bytes:
    """Open what a job asks for and seal it to the asking process's key; a worker does this."""
    asked, opener = json.loads(job.body or b"{}"), operators_opener(market)
    with market.look() as c:
        content = (_payees if "payout" in asked else _opened)(c, opener, asked)
    # The first byte says whether there is anything.
    answer = b"\0" if content is None else b"\1" + content
    return seal(bytes.fromhex(asked["key"]), answer, "unseal", str(job.subject))


def _opened(c: sa.Connection, opener: Opener, asked: dict[str, Any]) -> bytes | None:
    body = body_of(c, asked["campaign"], asked["document"])
    return None if body is None else opener.open(body, asked["document"], str(asked["campaign"]))


def _payees(c: sa.Connection, opener: Opener, asked: dict[str, Any]) -> bytes | None:
    query = sa.select(_own.id, _seller.payee).join(schema.seller, _seller.participation == _own.id)
    named = query.where(_own.payout == asked["payout"], _seller.payee.is_not(None))
    found = {row.id: opener.open(row.payee, "payee", str(row.id)) for row in c.execute(named)}
    return json.dumps({who: payee.decode() for who, payee in found.items() if payee is not None}).encode()


def _ask(market: Market, asked: dict[str, Any]) -> bytes:
    (private, public), subject = key_pair(), new_id()
    body = json.dumps({**asked, "key": public.hex()}).encode()
    market.transact(lambda tx: tx.job("unseal", subject, tx.now, lane="now", body=body))
    mine = sa.and_(_job.kind == "unseal", _job.subject == subject)
    try:
        for row in _looks(market, sa.select(_job.state, _job.answer).where(mine), WAIT_SECONDS):
            if row.state == "done":
                opened = Opener(private).open(row.answer, "unseal", str(subject)) or b"\0"
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
