"""The worker: does what is due, ends what dead workers left, keeps and destroys campaign keys.

Any number of workers can run side by side.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.access import set_operator_key, tidy_tokens
from dpmarket.campaign.acts import WORKER, Campaign, Tx, campaign_of
from dpmarket.campaign.campaigns import (
    ENDED,
    cancel_deserted,
    close,
    end_reports,
    key_missing,
    refuse_training,
    set_key,
)
from dpmarket.campaign.database import Market
from dpmarket.campaign.idempotency import tidy_answers
from dpmarket.campaign.jobs import (
    MOST_MAIL_ATTEMPTS,
    Job,
    PerhapsSent,
    claim_job,
    end_job,
    fail_job,
    lose_job,
    put_off_job,
    renew_job,
    tidy_jobs,
)
from dpmarket.campaign.line import tidy_line
from dpmarket.campaign.quoting import Decide, clear_campaign
from dpmarket.campaign.seal import (
    OPERATOR,
    destroy_key,
    destroy_other_keys,
    has_key,
    keep_operator_key,
    new_key,
)
from dpmarket.campaign.times import time_text
from dpmarket.campaign.training import RecordSource, Release, cancel_empty, recover, train
from dpmarket.campaign.unseal import answer_unseal
from dpmarket.errors import (
    DpmarketError,
    FileProblem,
    Infeasible,
    InvalidInput,
    MarketRefusal,
    NotConverged,
)

_of = schema.campaign.c


@dataclass(frozen=True)
class Methods:
    """What a worker needs to know that the market does not: functions of a campaign's public rules.

    Attributes
    ----------
    decide
        The mechanism of an offline campaign.
    records
        Where a campaign's records come from.
    release
        What draws the noise.
    others
        Functions for further kinds of jobs: mails, certificates.
    """

    decide: Callable[[Market, Campaign], Decide]
    records: Callable[[Market, Campaign], RecordSource]
    release: Callable[[Campaign], Release]
    others: Mapping[str, Callable[[Market, Job], bytes | None]] = field(default_factory=dict)


LANES = ("now", "work", "mail")


def work(
    market: Market, methods: Methods, lanes: Sequence[str] = LANES, kinds: Sequence[str] | None = None
) -> list[Job]:
    """Do everything that is due; return the jobs that were begun.

    A job that cannot be done is entered as failed, with the class of its error; one that lacked a file or the
    database is due again later.

    Parameters
    ----------
    market, methods
        Where, and how.
    lanes, kinds
        Which jobs; None: all kinds that are known here. Others wait for a worker that knows them.
    """
    begun = []
    if "work" in lanes and kinds is None:
        sweep(market)
    kinds = (*KINDS, *methods.others) if kinds is None else kinds
    while (job := claim_job(market, lanes, kinds, market.clock())) is not None:
        begun.append(job)
        try:
            with _renewed(market, job):
                answer = _do(market, methods, job)
        except MarketRefusal as refusal:
            # In another state than expected: somebody else has done it, or it can no longer be done.
            done = refusal.kind in ("state", "unknown")
            _ = end_job(market, job) if done else put_off_job(market, job, refusal.kind, market.clock())
        except PerhapsSent as problem:
            lose_job(market, job, type(problem).__name__)
        except FileProblem as problem:
            if job.lane == "mail" and job.attempts >= MOST_MAIL_ATTEMPTS:
                fail_job(market, job, type(problem).__name__)
            else:
                put_off_job(market, job, type(problem).__name__, market.clock())
        except DpmarketError as problem:
            fail_job(market, job, type(problem).__name__)
        else:
            end_job(market, job, answer)
    return begun


KINDS = ("key", "unseal", "end_reports", "clear", "close", "train", "sweep_key")


def _do(market: Market, methods: Methods, job: Job) -> bytes | None:
    if job.kind in methods.others:
        return methods.others[job.kind](market, job)
    if job.kind == "unseal":
        return answer_unseal(market, job)
    if job.kind == "key":
        make_key(market, job.subject)
    elif job.kind == "end_reports":
        market.run(end_reports, WORKER, job.subject)
    elif job.kind == "close":
        market.run(close, WORKER, job.subject)
    elif job.kind == "sweep_key":
        _sweep_key(market, _campaign(market, job.subject))
    elif job.kind == "clear":
        clear_campaign(market, job.subject, methods.decide(market, _campaign(market, job.subject)))
    elif market.run(cancel_empty, WORKER, job.subject) == "closed":
        _train(market, methods, job.subject)
    return None


def _train(market: Market, methods: Methods, campaign: int) -> None:
    found = _campaign(market, campaign)
    try:
        train(market, campaign, methods.records(market, found), methods.release(found))
    except (InvalidInput, Infeasible, NotConverged):
        # Before the commit point it would be refused again for ever: sellers are paid, and epsilon is free.
        if _campaign(market, campaign).state == "closed":
            market.run(refuse_training, WORKER, campaign)
        raise


def make_key(market: Market, campaign: int) -> None:
    """Make a campaign's key pair, if it has none."""
    if market.keys is not None and _campaign(market, campaign).public_key is None:
        market.run(set_key, WORKER, campaign, new_key(market.keys, str(campaign)))
        _sweep_key(market, _campaign(market, campaign))


def sweep(market: Market) -> None:
    """End what dead workers left, free what is over, call sellers who wait, look after keys."""
    recover(market)
    if market.keys is not None:
        keep_keys(market)
    with market.look() as c:
        rows = c.execute(sa.select(_of.id, _of.state).where(_of.state.in_(("open", "unpaid")))).all()
    for campaign, state in rows:
        market.run(tidy_line if state == "open" else cancel_deserted, WORKER, campaign)


ANSWERS_KEPT = TOKENS_KEPT = timedelta(days=30)
"""For so long a repeated request is answered as before, and ended sign-ins are known."""


def tidy(market: Market) -> int:
    """Delete old answers of repeated requests, ended tokens and forgotten requests; return how many rows."""

    def delete(tx: Tx) -> int:
        moment = tx.moment
        return (
            tidy_answers(tx, time_text(moment - ANSWERS_KEPT))
            + tidy_tokens(tx, time_text(moment - TOKENS_KEPT))
            + tidy_jobs(tx, time_text(moment - tx.terms.job))
        )

    return int(market.transact(delete))


def keep_keys(market: Market) -> None:
    """Make the operator's key once, destroy keys that are no longer needed, and note missing ones."""
    assert market.keys is not None
    with market.look() as c:
        public = c.execute(sa.select(schema.market.c.operator_key)).scalar()
        rows = c.execute(sa.select(_of.id).where(_of.channel == "live")).scalars().all()
        campaigns = [campaign_of(c, identity) for identity in rows]
    if public is None:
        made = keep_operator_key(market.keys, None)
        if market.run(set_operator_key, WORKER, made) != made:
            destroy_key(market.keys, OPERATOR, made)  # another worker was quicker
    elif not has_key(market.keys, OPERATOR, bytes(public)):
        return  # the wrong folder says nothing about campaigns
    for found in campaigns:
        if found.state in ENDED:
            _sweep_key(market, found)
        elif found.public_key is not None:
            there = has_key(market.keys, str(found.id), found.public_key)
            if not there or found.key_missed_at is not None:
                market.run(key_missing, WORKER, found.id, not there)


def _sweep_key(market: Market, found: Campaign) -> None:
    """Destroy all keys of a campaign but the one it uses; all of them once it has ended."""
    if market.keys is not None:
        keep = None if found.state in ENDED else found.public_key
        destroy_other_keys(market.keys, str(found.id), keep)


def _campaign(market: Market, campaign: int) -> Campaign:
    with market.look() as c:
        return campaign_of(c, campaign)


@contextlib.contextmanager
def _renewed(market: Market, job: Job) -> Iterator[None]:
    """Show again and again that a job's worker is alive, however long the job takes."""
    begun, start, ended = time.monotonic(), market.clock(), threading.Event()

    def now() -> datetime:
        return start + timedelta(seconds=time.monotonic() - begun)

    def show() -> None:
        while not ended.wait(market.terms.job.total_seconds() / 4.0):
            with contextlib.suppress(DpmarketError):
                if not renew_job(market, job, now()):
                    return

    thread = threading.Thread(target=show, name="dpmarket-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
