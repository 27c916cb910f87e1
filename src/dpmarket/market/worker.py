"""Do what is due: clear, close, train, certify; and tidy up what ended or was left by the dead."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

from dpmarket.errors import (
    DpmarketError,
    FileProblem,
    Infeasible,
    InvalidInput,
    LedgerRefusal,
    MarketRefusal,
    NotConverged,
)
from dpmarket.ledger import reading, releases, settle
from dpmarket.ledger.engine import new_id
from dpmarket.market.adopting import adopt_all, leave_again
from dpmarket.market.campaigns import campaign_of
from dpmarket.market.checking import live_campaigns
from dpmarket.market.clearing import cancel_deserted, clear
from dpmarket.market.closing import close_campaign, settle_campaign
from dpmarket.market.desk import Desk, acting, lock_ledger, time_text
from dpmarket.market.errands import do_errands
from dpmarket.market.jobs import (
    Job,
    claim_job,
    end_job,
    enter_job,
    fail_job,
    is_done,
    put_off_job,
    renew_job,
    runs,
)
from dpmarket.market.refunding import refund_again
from dpmarket.market.seating import call_waiting, free_ended
from dpmarket.market.training import certify_campaign, sweep_keys, train_campaign


def work(desk: Desk, now: datetime) -> list[Job]:
    """Do all jobs that are due, one after the other, and tidy up; return the jobs that were begun.

    A job that cannot be done is entered as failed, with the kind of its error and no more; one that lacked a
    file or the database, or that the ledger refused, is due again later. Any number of workers may do this
    side by side.
    """
    begun = []
    sweep(desk, now)
    while (job := claim_job(desk, now)) is not None:
        begun.append(job)
        try:
            with _shown_alive(desk, job, now):
                _do(desk, job, now)
        except MarketRefusal as refusal:
            # The work of somebody who died after it and before saying so: it cannot be done twice.
            _ended(desk, job, None if refusal.kind == "state" else refusal.kind)
        except (FileProblem, LedgerRefusal) as problem:
            # A server that is away, a disk that is full: they come back. A ledger that refuses is mended, or
            # was in between: what is due stays due.
            with acting(desk) as connection:
                put_off_job(connection, job, type(problem).__name__, now)
        except DpmarketError as problem:
            _ended(desk, job, type(problem).__name__)
        else:
            _ended(desk, job, None)
    return begun


def sweep(desk: Desk, now: datetime) -> None:
    """Settle what dead workers left, free what is over, call who waits, destroy and make keys."""
    settle(desk.ledger)
    with reading(desk.ledger) as connection:
        unsettled = live_campaigns(connection, "closed", "training")
        going_on = live_campaigns(connection, "open", "unpaid")
    adopt_all(desk, now)
    leave_again(desk, now)
    refund_again(desk, now)
    for found in unsettled:
        with acting(desk) as connection:
            if not runs(connection, "train", found.campaign, now):
                state = settle_campaign(connection, found.campaign, now)
                if state == "closed" and is_done(connection, "train", found.campaign):
                    # Somebody found a training under way and left; who was at it died.
                    enter_job(connection, "train", found.campaign, time_text(now))
    for found in going_on:
        with acting(desk) as connection:
            lock_ledger(connection)
            if found.state == "unpaid":
                cancel_deserted(connection, found.campaign, now)
            else:
                free_ended(connection, found.campaign, now, desk.terms)
                call_waiting(connection, found.campaign, now, desk.terms)
    sweep_keys(desk)
    do_errands(desk, now)


@contextlib.contextmanager
def _shown_alive(desk: Desk, job: Job, now: datetime) -> Iterator[None]:
    """Show again and again that a job's worker is alive, however long the job takes."""
    begun, ended = time.monotonic(), threading.Event()

    def show() -> None:
        while not ended.wait(desk.terms.job.total_seconds() / 4.0):
            with contextlib.suppress(DpmarketError):  # a database that is away for a moment
                if not renew_job(desk, job, now + timedelta(seconds=time.monotonic() - begun)):
                    return

    thread = threading.Thread(target=show, name="dpmarket-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _do(desk: Desk, job: Job, now: datetime) -> None:
    if job.kind == "clear":
        clear(desk, job.campaign, now)
    elif job.kind == "close":
        with acting(desk) as connection:
            close_campaign(connection, job.campaign, now)
    elif job.kind == "train":
        settle(desk.ledger)
        try:
            train_campaign(desk, job.campaign, now)
        except (InvalidInput, Infeasible, NotConverged):
            # It would be refused again for ever: who was quoted and delivered is paid.
            with acting(desk) as connection:
                lock_ledger(connection)
                found = campaign_of(connection, job.campaign)
                if found.state == "closed" and found.round is not None:
                    releases.enter_lost(connection, new_id(), [found.round], time_text(now))
                    settle_campaign(connection, job.campaign, now)
            raise
    else:
        certify_campaign(desk, job.campaign, now)


def _ended(desk: Desk, job: Job, error_kind: str | None) -> None:
    with acting(desk) as connection:
        if error_kind is None:
            end_job(connection, job)
        else:
            fail_job(connection, job, error_kind)
