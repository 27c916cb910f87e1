"""The worker of a service: what it does with campaigns by their rules, lane by lane, and reports apart."""

import ctypes
import gc
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from dpmarket.campaign import hooks
from dpmarket.campaign.acts import WORKER
from dpmarket.campaign.certificate import certify_live, decide_of, enter_report, reported_costs
from dpmarket.campaign.database import Market
from dpmarket.campaign.jobs import FORECAST, Job, has_due_job
from dpmarket.campaign.mail import enter_mails, handlers
from dpmarket.campaign.opening import rules_of
from dpmarket.campaign.release import release_for
from dpmarket.campaign.rules.encoding import decode_records
from dpmarket.campaign.training import Read, Release, document_of, sealed_records
from dpmarket.campaign.transaction import Campaign, campaign_of
from dpmarket.campaign.worker import Methods, forget, tidy, work
from dpmarket.certificates.certificate import Certificate
from dpmarket.certificates.signature import sign
from dpmarket.errors import DpmarketError, Infeasible, InvalidInput, NotCertifiable, NotConverged
from dpmarket.web.folder import SIGNING_KEY, held_open, opened
from dpmarket.web.logs import log_event, log_to
from dpmarket.web.outgoing import check_smtp, send, send_hooks
from dpmarket.web.settings import Settings

_PAUSE = 1.0  # seconds between a worker's rounds
_NOW_PAUSE = 0.1
_WORK, _LONG = ("certify",), ("report", "forecast")  # nobody's certificate waits for the second
_HOUR, _MAILS = 3600.0, 20.0
WORKER_SECONDS = 60.0  # for a worker that is asked to stop, and may be training
_MOST_LINES = 10


def run_worker_process(settings: Settings, beside: int | None) -> None:
    """Work until a signal says to stop, or the process that this one was started beside is gone."""
    stopped = _asked_to_stop(beside)
    check_smtp(settings)
    with opened(settings) as market, held_open(market):
        log_event("working")
        thread = start_thread("long", _keep_long, market, settings, stopped)
        run_worker(market, settings, stopped)
        thread.join(WORKER_SECONDS)


@contextmanager
def working(market: Market, settings: Settings, pause: float = 0.05) -> Iterator[None]:
    """Have a worker in threads of this process; for a ``with`` block."""
    stopped = threading.Event()
    long_jobs = (_work, market, methods_of(settings), "work", _LONG)
    threads = [
        start_thread("worker", run_worker, market, settings, stopped.is_set, pause),
        start_thread("long", _repeat, stopped.is_set, pause, *long_jobs),
    ]
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join(120.0)


def run_worker(
    market: Market, settings: Settings, stopped: Callable[[], bool], pause: float = _PAUSE
) -> None:
    """Do what is due but reports and forecasts, again and again; a job that was begun is ended first.

    Each lane has a thread: nobody waits for a training, and a slow mail server holds no job up.
    """
    methods = methods_of(settings)
    mails = tuple(name for name in methods.others if name not in (*_WORK, *_LONG))
    threads = [
        start_thread(lane, _repeat, stopped, seconds, _work, market, methods, lane, kinds)
        for lane, kinds, seconds in (
            ("now", ("key", "unseal"), min(pause, _NOW_PAUSE)),
            ("mail", mails, pause),
            ("hook", (hooks.KIND,), pause),
        )
    ]
    short = replace(methods, others={name: methods.others[name] for name in _WORK})
    tidied = mailed = -_HOUR

    def work_and_tidy() -> None:
        nonlocal tidied, mailed
        _work(market, short, "work")
        hooks.enter_hooks(market)
        if settings.smtp_url is not None and time.monotonic() - mailed > _MAILS:
            mailed = time.monotonic()
            enter_mails(market, timedelta(hours=settings.reminder_hours))
        if time.monotonic() - tidied > _HOUR:
            tidied = time.monotonic()
            tidy(market)
            forget(market, _days(settings.keep_sellers_days), _days(settings.keep_acts_days))

    _repeat(stopped, pause, work_and_tidy)
    for thread in threads:
        thread.join(40.0)


def start_thread(name: str, target: Callable[..., Any], *args: Any) -> threading.Thread:
    """Start a thread that does not keep its process alive."""
    thread = threading.Thread(target=target, args=args, name=f"dpmarket-{name}", daemon=True)
    thread.start()
    return thread


def _asked_to_stop(beside: int | None) -> Callable[[], bool]:
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    return lambda: asked.is_set() or (beside is not None and os.getppid() != beside)


def _keep_long(market: Market, settings: Settings, stopped: Callable[[], bool]) -> None:
    """Make reports and forecasts in a process of their own while some are due: its memory is given back."""

    def work_apart() -> None:
        if not has_due_job(market, "work", _LONG, market.clock()):
            return
        child = get_context("spawn").Process(target=_run_long, args=(settings, os.getpid()))
        child.start()
        while child.is_alive() and not stopped():
            child.join(0.1)
        child.terminate()
        child.join()

    _repeat(stopped, _PAUSE, work_apart)


def _run_long(settings: Settings, beside: int) -> None:
    log_to()
    asked, methods = _asked_to_stop(beside), methods_of(settings)
    with opened(settings) as market:
        while not asked() and _work(market, methods, "work", _LONG):
            pass


def _repeat(stopped: Callable[[], bool], pause: float, step: Callable[..., object], *args: Any) -> None:
    """Do something again and again, and log what stops it for a while: a full disk, a job that breaks."""
    while not stopped():
        try:
            step(*args)
        except Exception as problem:  # its text may hold anything; its kind does not
            log_event("worker failed", error=type(problem).__name__)
        end = time.monotonic() + pause
        while not stopped() and time.monotonic() < end:
            time.sleep(min(0.1, pause))


def _work(market: Market, methods: Methods, lane: str, kinds: tuple[str, ...] | None = None) -> int:
    done = work(market, methods, (lane,), kinds)
    for job in done:
        log_event("job", kind=job.kind, attempts=job.attempts)
    if done:
        _give_back()
    return len(done)


def _give_back() -> None:
    """Give memory back to the system: after a training a worker may wait for hours."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)


def _days(number: float | None) -> timedelta | None:
    return None if number is None else timedelta(days=number)


def methods_of(settings: Settings) -> Methods:
    """Return what a worker of a service does with campaigns and further jobs."""
    key = settings.folder / SIGNING_KEY

    def signed(certificate: Certificate) -> bytes:
        return sign(certificate, key)

    def certify(market: Market, job: Job) -> None:
        if document_of(market, job.subject, "released") is not None:  # one that failed has none
            certify_live(market, job.subject, signed if key.exists() else None)

    def hook(market: Market, job: Job) -> None:
        send_hooks(market, job, settings)

    def forecast(market: Market, job: Job) -> bytes:
        return _forecast(market, job, settings)

    own = {"certify": certify, "report": _report, FORECAST: forecast, hooks.KIND: hook}
    sender = None if settings.smtp_url is None else lambda mail: send(mail, settings)
    others = {**own, **handlers(sender)}

    def release(found: Campaign) -> Release:
        rules = rules_of(found)
        settings.refuse_unlisted(rules.training.model)
        return release_for(rules)

    return Methods(lambda market, found: decide_of(market.key, found), _records, release, others)


def _records(market: Market, found: Campaign) -> Read:
    rules = rules_of(found)
    return sealed_records(market, found.id, lambda contents: decode_records(rules, contents))


def _report(market: Market, job: Job) -> None:
    """Make a campaign's report; of fewer than ten people there is none."""
    from dpmarket.report.from_market import summarise_campaign  # takes seconds to load
    from dpmarket.report.page import render_page

    costs = reported_costs(market, job.subject)
    certificate = document_of(market, job.subject, "certificate")
    try:
        page = render_page(summarise_campaign(market, job.subject, costs=costs, certificate=certificate))
    except (InvalidInput, Infeasible, NotConverged, NotCertifiable):
        page = ""
    market.run(enter_report, WORKER, job.subject, page.encode())


def _forecast(market: Market, job: Job, settings: Settings) -> bytes:
    """Simulate a draft's campaign on the public table that its buyer sent; return what a page shows."""
    from dpmarket.mechanisms.forecasts import PERSONAL
    from dpmarket.report.forecast import forecast_rules  # takes seconds to load

    with market.look() as c:
        found = campaign_of(c, job.subject)
    with tempfile.TemporaryDirectory() as folder:
        sample = Path(folder, "sample.csv")
        sample.write_bytes(job.body or b"")
        said: dict[str, object]
        try:
            rules = rules_of(found)
            settings.refuse_unlisted(rules.training.model)
            made = forecast_rules(rules, sample)
        except DpmarketError as problem:
            lines = [str(problem), *getattr(problem, "details", ())][:_MOST_LINES]
            said = {"problems": [line.replace(f"{folder}/", "") for line in lines]}
        else:
            own = [vars(one) for one in made.predictions if one.rule == PERSONAL]
            said = made.to_dict() | {"predictions": own}
    return json.dumps({"rules": found.rules_digest, **said}).encode()
