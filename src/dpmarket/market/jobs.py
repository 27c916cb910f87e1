"""Keep what a worker has to do, so that it is done once, by one, however many workers there are or die."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from dpmarket.ledger import Connection
from dpmarket.ledger.engine import new_id
from dpmarket.market import tables
from dpmarket.market.desk import Desk, acting, time_text
from dpmarket.market.statements import insert

_job = tables.job.c
_LONGEST_PAUSE = timedelta(minutes=10)


@dataclass(frozen=True)
class Job:
    """Something that one worker does now.

    Attributes
    ----------
    id, kind, campaign
        What, and for which campaign: ``clear``, ``close``, ``train`` or ``certify``.
    claim
        This worker's claim; another one's ends it.
    attempts
        How often it was begun, this time included.
    """

    id: str
    kind: str
    campaign: str
    claim: str
    attempts: int


def enter_job(connection: Connection, kind: str, campaign: str, due_at: str) -> None:
    """Want something done, in the transaction that wants it; one that ended before is wanted again."""
    values = {"id": new_id(), "kind": kind, "campaign": campaign, "state": "waiting", "due_at": due_at}
    again = {"state": "waiting", "due_at": due_at, "lease_until": None, "claim": None, "error_kind": None}
    connection.execute(
        insert(connection, tables.job, values).on_conflict_do_update(
            index_elements=["kind", "campaign"], set_=again
        )
    )


def claim_job(desk: Desk, now: datetime) -> Job | None:
    """Take what is due longest, or what a dead worker left; None if there is nothing."""
    at = time_text(now)
    due = sa.or_(
        sa.and_(_job.state == "waiting", _job.due_at <= at),
        sa.and_(_job.state == "running", _job.lease_until <= at),
    )
    first = (
        sa.select(_job.id)
        .where(due)
        .order_by(_job.due_at, _job.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    claim = new_id()
    with acting(desk) as connection:
        identity = connection.execute(first).scalar()
        if identity is None:
            return None
        taken = connection.execute(
            tables.job.update()
            .where(_job.id == identity)
            .values(
                state="running",
                claim=claim,
                attempts=_job.attempts + 1,
                lease_until=time_text(now + desk.terms.job),
                error_kind=None,
            )
            .returning(_job.kind, _job.campaign, _job.attempts)
        ).one()
    return Job(identity, taken.kind, taken.campaign, claim, taken.attempts)


def renew_job(desk: Desk, job: Job, now: datetime) -> bool:
    """Show that the worker of a job is alive; return whether the job is still its own."""
    with acting(desk) as connection:
        changed = connection.execute(
            tables.job.update()
            .where(_job.id == job.id, _job.claim == job.claim)
            .values(lease_until=time_text(now + desk.terms.job))
        )
    return changed.rowcount == 1


def runs(connection: Connection, kind: str, campaign: str, now: datetime) -> bool:
    """Whether a worker that is alive does this now."""
    query = sa.select(_job.id).where(
        _job.kind == kind,
        _job.campaign == campaign,
        _job.state == "running",
        _job.lease_until > time_text(now),
    )
    return connection.execute(query).first() is not None


def is_done(connection: Connection, kind: str, campaign: str) -> bool:
    """Whether a job is entered as done."""
    query = sa.select(_job.id).where(_job.kind == kind, _job.campaign == campaign, _job.state == "done")
    return connection.execute(query).first() is not None


def put_off_job(connection: Connection, job: Job, error_kind: str, now: datetime) -> None:
    """Enter that a job could not be done for a reason that passes; it is due again later and later."""
    due = now + min(timedelta(seconds=2.0 ** min(job.attempts, 20)), _LONGEST_PAUSE)
    _end(connection, job, "waiting", error_kind, time_text(due))


def end_job(connection: Connection, job: Job) -> None:
    """Enter that a job is done, if it is still this worker's: its successor ends it otherwise."""
    _end(connection, job, "done", None)


def fail_job(connection: Connection, job: Job, error_kind: str) -> None:
    """Enter that a job cannot be done; ``error_kind`` is a class of errors, never a message."""
    _end(connection, job, "failed", error_kind)


def retry_jobs(connection: Connection, now: datetime) -> int:
    """Want everything done again that failed, once whatever stopped it is mended; return how many jobs.

    A campaign whose clearing failed would stay as it is for ever: nobody else asks for it.
    """
    changed = connection.execute(
        tables.job.update()
        .where(_job.state == "failed")
        .values(state="waiting", due_at=time_text(now), error_kind=None)
    )
    return changed.rowcount


def _end(
    connection: Connection, job: Job, state: str, error_kind: str | None, due_at: str | None = None
) -> None:
    connection.execute(
        tables.job.update()
        .where(_job.id == job.id, _job.claim == job.claim)
        .values(
            state=state, claim=None, lease_until=None, error_kind=error_kind, due_at=due_at or _job.due_at
        )
    )
