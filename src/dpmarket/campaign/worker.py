"""The worker: does what is due, ends what dead workers left, keeps and destroys campaign keys, forgets.

Any number of workers can run side by side. Of forgotten sellers stays what guarantees and books need: who
took part, by keyed digest, with epsilon and payment; the digest and time of the consent; entries of money.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from dpmarket.campaign import campaigns, jobs, schema
from dpmarket.campaign.access import set_operator_key
from dpmarket.campaign.acts import WORKER
from dpmarket.campaign.database import Market
from dpmarket.campaign.jobs import Job, PerhapsSent, answer_unseal, claim_job, end_job, put_off_job
from dpmarket.campaign.line import tidy_line
from dpmarket.campaign.quoting import Decide, clear_campaign
from dpmarket.campaign.schema import time_text
from dpmarket.campaign.seal import OPERATOR, destroy_key, destroy_other_keys, has_key, new_key
from dpmarket.campaign.training import Read, Release, recover, train
from dpmarket.campaign.transaction import Campaign, Tx, campaign_of
from dpmarket.errors import DpmarketError, FileProblem, Infeasible, InvalidInput, MarketRefusal, NotConverged

_of = schema.campaign.c
Handler = Callable[[Market, Job], bytes | None]


@dataclass(frozen=True)
class Methods:
    """What a worker needs to know that the market does not: functions of a campaign's public rules."""

    decide: Callable[[Market, Campaign], Decide]  # the mechanism of an offline campaign
    records: Callable[[Market, Campaign], Read]
    release: Callable[[Campaign], Release]  # what draws the noise
    others: Mapping[str, Handler] = field(default_factory=dict)  # further kinds of jobs: mails, certificates


LANES = ("now", "work", "mail", "hook")
KINDS = ("key", "unseal", "end_reports", "clear", "close", "train", "sweep_key")


def work(
    market: Market, methods: Methods, lanes: Sequence[str] = LANES, kinds: Sequence[str] | None = None
) -> list[Job]:
    """Do everything of some lanes and kinds that is due; return the jobs that were begun.

    A job that cannot be done has failed; one that lacked a file or the database is due again later.
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
            if refusal.kind in ("state", "unknown"):
                end_job(market, job)
            else:
                put_off_job(market, job, refusal.kind, market.clock())
        except PerhapsSent as problem:
            end_job(market, job, state="unknown", error=type(problem).__name__)
        except DpmarketError as problem:
            passes = job.attempts < jobs.MOST_ATTEMPTS.get(job.lane, job.attempts + 1)
            if isinstance(problem, FileProblem) and passes:
                put_off_job(market, job, type(problem).__name__, market.clock())
            else:
                end_job(market, job, state="failed", error=type(problem).__name__)
        else:
            end_job(market, job, answer)
    return begun


def _do(market: Market, methods: Methods, job: Job) -> bytes | None:
    campaign = job.subject
    match job.kind:
        case "unseal":
            return answer_unseal(market, job)
        case "key":
            make_key(market, campaign)
        case "end_reports" | "close":
            market.run(getattr(campaigns, job.kind), WORKER, campaign)
        case "clear":
            clear_campaign(market, campaign, methods.decide(market, _campaign(market, campaign)))
        case "train":
            if market.run(campaigns.cancel_deserted, WORKER, campaign) == "closed":
                _train(market, methods, campaign)
        case "sweep_key":
            _sweep_key(market, _campaign(market, campaign))
        case _:
            return methods.others[job.kind](market, job)
    return None


def _train(market: Market, methods: Methods, campaign: int) -> None:
    found = _campaign(market, campaign)
    try:
        train(market, campaign, methods.records(market, found), methods.release(found))
    except (InvalidInput, Infeasible, NotConverged):
        # Before the commit point it would be refused again for ever: sellers are paid, and epsilon is free.
        if _campaign(market, campaign).state == "closed":
            market.run(campaigns.refuse_training, WORKER, campaign)
        raise


def make_key(market: Market, campaign: int) -> None:
    """Make a campaign's key pair, if it has none."""
    if market.keys is not None and _campaign(market, campaign).public_key is None:
        market.run(campaigns.set_key, WORKER, campaign, new_key(market.keys, str(campaign)))
        _sweep_key(market, _campaign(market, campaign))


def sweep(market: Market) -> None:
    """End what dead workers left, free what is over, call sellers who wait, look after keys."""
    recover(market)
    if market.keys is not None:
        keep_keys(market)
    with market.look() as c:
        rows = c.execute(sa.select(_of.id, _of.state).where(_of.state.in_(("open", "unpaid")))).all()
    for campaign, state in rows:
        market.run(tidy_line if state == "open" else campaigns.cancel_deserted, WORKER, campaign)


KEPT = timedelta(days=30)  # so long answers of repeated requests and ended sign-ins are known


def tidy(market: Market) -> int:
    """Delete old answers of repeated requests, ended tokens and forgotten requests; return how many rows."""

    def delete(tx: Tx) -> int:
        before, asked = time_text(tx.moment - KEPT), time_text(tx.moment - tx.terms.job)
        token, job = schema.token.c, schema.job.c
        is_over = sa.or_(token.expires_at < before, token.revoked_at < before)
        return (
            tx.delete(schema.idempotency, schema.idempotency.c.at < before)
            + tx.delete(schema.token, sa.and_(token.kind != "invitation", is_over))
            + tx.delete(schema.job, sa.and_(job.kind == "unseal", job.due_at < asked))
        )

    return int(market.transact(delete))


def keep_keys(market: Market) -> None:
    """Make the operator's key once, destroy keys that are no longer needed, and note missing ones."""
    assert market.keys is not None
    public = market.operator_key()
    with market.look() as c:
        found = c.execute(sa.select(schema.campaign).where(_of.channel == "live")).all()
    if public is None:
        made = new_key(market.keys, OPERATOR)
        if market.run(set_operator_key, WORKER, made) != made:
            destroy_key(market.keys, OPERATOR, made)  # another worker was quicker
    elif not has_key(market.keys, OPERATOR, public):
        return  # the wrong folder says nothing about campaigns, and a second key is never made
    for one in found:
        if one.state in campaigns.ENDED:
            _sweep_key(market, one)
        elif one.public_key is not None:
            there = has_key(market.keys, str(one.id), one.public_key)
            if not there or one.key_missed_at is not None:
                market.run(campaigns.key_missing, WORKER, one.id, not there)


def _sweep_key(market: Market, found: Campaign) -> None:
    """Destroy all keys of a campaign but the one it uses; all of them once it has ended."""
    if market.keys is not None:
        keep = None if found.state in campaigns.ENDED else found.public_key
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
                if not jobs.renew_job(market, job, now()):
                    return

    thread = threading.Thread(target=show, name="dpmarket-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


_own, _seller, _event, _deed = schema.participation.c, schema.seller.c, schema.event.c, schema.deed.c


def forget(market: Market, sellers: timedelta | None, deeds: timedelta | None) -> int:
    """Delete what is older than its time, None: never; return how many sellers were forgotten."""
    now = market.clock()
    if deeds is not None:
        market.transact(lambda tx: tx.delete(schema.deed, _deed.at < time_text(now - deeds)))
    if sellers is None:
        return 0
    return int(market.transact(lambda tx: _forget_sellers(tx, time_text(now - sellers))))


def _forget_sellers(tx: Tx, before: str) -> int:
    """Forget sellers of campaigns that ended before a time, unless a payment is owed or not confirmed."""
    is_end = _event.kind.in_(schema.CAMPAIGN_ENDED)
    ended = sa.select(_event.campaign).where(_event.participation.is_(None), is_end, _event.at < before)
    settled = sa.or_(_own.state != "spent", _own.paid_at < before, _own.payment == 0)
    known = sa.or_(
        *(_seller[name].is_not(None) for name in ("payee", "contact", "language")),
        sa.select(_event.number).where(_event.participation == _own.id).exists(),
    )
    theirs = sa.select(_own.id).join(schema.seller, _seller.participation == _own.id)
    chosen = list(tx.c.scalars(theirs.where(_own.campaign.in_(ended), settled, known).limit(10_000)))
    tx.set(schema.seller, _seller.participation.in_(chosen), payee=None, contact=None, language=None)
    tx.delete(schema.token, schema.token.c.participation.in_(chosen))
    tx.delete(schema.event, _event.participation.in_(chosen))
    return len(chosen)
