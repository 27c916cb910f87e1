"""The one queue: jobs that are done once, by one worker, however many workers there are or die.

Four lanes: ``work`` (clear, close, train), ``mail``, ``hook`` (webhooks) and ``now`` (what a person waits
for). A job of a worker that died is due again, except in the lane ``mail``: it was perhaps sent, is
``unknown``, and is never repeated unless somebody asks for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, act
from dpmarket.campaign.database import Market
from dpmarket.campaign.times import time_text
from dpmarket.campaign.transaction import Tx
from dpmarket.errors import DpmarketError

_job = schema.job.c
_LONGEST_PAUSE = timedelta(minutes=10)
MOST_ATTEMPTS = {"mail": 8, "hook": 60}
"""How often what leaves the machine is tried before it has failed."""


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


def claim_job(market: Market, lanes: Sequence[str], kinds: Sequence[str], now: datetime) -> Job | None:
    """Take the job of some lanes and kinds that is due longest; None if there is none."""
    at, claim = time_text(now), secrets.token_hex(16)
    is_dead = sa.and_(_job.state == "running", _job.lease_until <= at)
    due = sa.and_(sa.or_(sa.and_(_job.state == "waiting", _job.due_at <= at), is_dead), _job.lane.in_(lanes))
    with market.look() as c:  # most of the time there is none, and nobody is kept from writing
        if c.execute(sa.select(_job.id).where(due).limit(1)).first() is None:
            return None
    with market.writing() as c:
        lost = schema.job.update().where(_job.lane == "mail", is_dead)
        c.execute(lost.values(state="unknown", claim=None, lease_until=None))
        query = sa.select(_job.id).where(due, _job.kind.in_(kinds)).order_by(_job.due_at, _job.id).limit(1)
        identity = c.scalar(query.with_for_update(skip_locked=True))
        if identity is None:
            return None
        leased = {"lease_until": time_text(now + market.terms.job), "error": None}
        mine = schema.job.update().where(_job.id == identity)
        mine = mine.values(state="running", claim=claim, attempts=_job.attempts + 1, **leased)
        columns = (_job.id, _job.kind, _job.subject, _job.lane, _job.body, _job.attempts)
        return Job(claim, *c.execute(mine.returning(*columns)).one())


def renew_job(market: Market, job: Job, now: datetime) -> bool:
    """Show that a job's worker is alive; return whether the job is still its own."""
    return _change(market, job, lease_until=time_text(now + market.terms.job))


def end_job(
    market: Market, job: Job, answer: bytes | None = None, *, state: str = "done", error: str | None = None
) -> bool:
    """Enter what became of a job, unless it was taken over or entered anew; return whether it was not.

    ``unknown``: perhaps a mail was sent; it is never repeated unless somebody asks for it. ``error`` is a
    class of errors, never a message. What a job that is done was made from is forgotten.
    """
    values = {"state": state, "error": error, "answer": answer} | ({"body": None} if state == "done" else {})
    return _change(market, job, claim=None, lease_until=None, **values)


def put_off_job(market: Market, job: Job, error: str, now: datetime) -> bool:
    """Enter that a job could not be done for a reason that passes; it is due again later and later."""
    pause = min(timedelta(seconds=2.0 ** min(job.attempts, 20)), _LONGEST_PAUSE)
    values = {"state": "waiting", "error": error, "due_at": time_text(now + pause)}
    return _change(market, job, claim=None, lease_until=None, **values)


def tidy_jobs(tx: Tx, before: str) -> int:
    """Delete requests that nobody waits for any more: of the lane ``now``, due before a time."""
    return tx.delete(schema.job, sa.and_(_job.kind == "unseal", _job.due_at < before))


@act("operator")
def retry(tx: Tx, caller: Caller, perhaps_sent: bool = False) -> int:  # noqa: FBT001, FBT002
    """Make failed jobs due again, and on request mails that were perhaps sent; return how many."""
    states = ("failed", "unknown") if perhaps_sent else ("failed",)
    again = {"state": "waiting", "due_at": tx.now, "error": None, "attempts": 0}
    return tx.c.execute(schema.job.update().where(_job.state.in_(states)).values(again)).rowcount


def _change(market: Market, job: Job, **values: object) -> bool:
    with market.writing() as c:
        mine = sa.and_(_job.id == job.id, _job.claim == job.claim)
        return c.execute(schema.job.update().where(mine).values(**values)).rowcount == 1
