"""A running service: it answers on a socket, has workers beside it, and stops cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess  # nosec B404
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any

from dpmarket.campaign.database import Market
from dpmarket.campaign.hooks import KIND, enter_hooks
from dpmarket.campaign.mail import enter_mails
from dpmarket.campaign.views import job_counts
from dpmarket.campaign.worker import Methods, forget, tidy, work
from dpmarket.errors import FileProblem
from dpmarket.web.folder import opened
from dpmarket.web.logs import log_event, log_to
from dpmarket.web.methods import methods_of
from dpmarket.web.settings import Settings
from dpmarket.web.smtp import check_smtp

if TYPE_CHECKING:
    from dpmarket.web.metrics import Metrics

_PAUSE = 1.0  # seconds between a worker's rounds
_NOW_PAUSE = 0.1
_WORK, _LONG = ("certify",), ("report", "forecast")  # nobody's certificate waits for the second
_HOUR, _MAILS = 3600.0, 20.0
_OPEN = ("waiting", "running")  # of jobs, the second perhaps by a worker that died
_LONG_SECONDS = 20.0
_WORKER_SECONDS = 60.0  # for a worker that is asked to stop, and may be training
_WORKER = "from dpmarket.cli import main; main()"
_Duty = tuple[str, tuple[str, ...], float]  # a lane, kinds of jobs, seconds between its rounds


def _start(name: str, target: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, name=f"dpmarket-{name}", daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def held_open(market: Market) -> Iterator[None]:
    """Hold a SQLite file open: it would be tidied up whenever its last user leaves, after every request."""
    with contextlib.ExitStack() as stack:
        if market.is_file:
            stack.enter_context(market.engine.connect())
        yield


@contextlib.contextmanager
def serving(market: Market, settings: Settings) -> Iterator[tuple[str, Metrics]]:
    """Serve a market on a free port of loopback in a thread of this process; for a ``with`` block.

    Gives the address, and what is counted.
    """
    from dpmarket.web.app import make_app
    from dpmarket.web.metrics import Metrics
    from dpmarket.web.server import listening, make_server

    taken = listening("127.0.0.1", 0)
    url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    metrics = Metrics()
    server = make_server(make_app(market, settings.model_copy(update={"public_url": url}), metrics))
    thread = _start("serve", server.run, [taken])
    try:
        with held_open(market):
            _wait_for(lambda: server.started or not thread.is_alive(), 30.0)
            yield url, metrics
    finally:
        server.should_exit = True
        thread.join(30.0)
        taken.close()


@contextlib.contextmanager
def working(market: Market, settings: Settings, pause: float = 0.05) -> Iterator[None]:
    """Have a worker in a thread of this process; for a ``with`` block."""
    stopped = threading.Event()
    threads = [
        _start("worker", run_worker, market, settings, stopped.is_set, pause),
        _start("long", _run_duty, market, methods_of(settings), ("work", _LONG, pause), stopped.is_set),
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

    Each lane has a thread: a person waits for a key or a document however long a training takes, and a slow
    mail server holds no job up.
    """
    methods = methods_of(settings)
    duties: list[_Duty] = [
        ("now", ("key", "unseal"), min(pause, _NOW_PAUSE)),
        ("mail", tuple(name for name in methods.others if name not in (*_WORK, *_LONG)), pause),
        ("hook", (KIND,), pause),
    ]
    threads = [_start(duty[0], _run_duty, market, methods, duty, stopped) for duty in duties]
    short = replace(methods, others={name: methods.others[name] for name in _WORK})
    reminding = timedelta(hours=settings.reminder_hours)
    tidied = mailed = -_HOUR
    while not stopped():
        with _going_on():
            _work(market, short, "work")
            enter_hooks(market)
            if settings.smtp_url is not None and time.monotonic() - mailed > _MAILS:
                mailed = time.monotonic()
                enter_mails(market, reminding)
            if time.monotonic() - tidied > _HOUR:
                tidied = time.monotonic()
                tidy(market)
                forget(market, days_of(settings.keep_sellers_days), days_of(settings.keep_acts_days))
        _rest(stopped, pause)
    for thread in threads:
        thread.join(40.0)


def days_of(number: float | None) -> timedelta | None:
    """Return so many days; None for none."""
    return None if number is None else timedelta(days=number)


def _run_duty(market: Market, methods: Methods, duty: _Duty, stopped: Callable[[], bool]) -> None:
    lane, kinds, pause = duty
    while not stopped():
        with _going_on():
            _work(market, methods, lane, kinds)
        _rest(stopped, pause)


def _work(market: Market, methods: Methods, lane: str, kinds: tuple[str, ...] | None = None) -> int:
    done = work(market, methods, (lane,), kinds)
    for job in done:
        log_event("job", kind=job.kind, attempts=job.attempts)
    return len(done)


@contextlib.contextmanager
def _going_on() -> Iterator[None]:
    """Log what stops a worker for a while: a full disk, a server that is away, a job that breaks.

    A job that broke is due again when its lease has ended.
    """
    try:
        yield
    except Exception as problem:  # its text may hold anything; its kind does not
        log_event("worker failed", error=type(problem).__name__)


def _rest(stopped: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not stopped() and time.monotonic() < end:
        time.sleep(min(0.1, seconds))


def serve(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve until a signal says to stop: workers beside it end the job that they are at."""
    from dpmarket.web.app import make_app  # a worker does without
    from dpmarket.web.metrics import Metrics
    from dpmarket.web.pages.brand import check_brand
    from dpmarket.web.server import listening, make_server

    check_smtp(settings)
    check_brand(settings)
    with contextlib.ExitStack() as stack:
        taken = listening(settings.host, settings.port)
        stack.callback(taken.close)
        if settings.port == 0:
            url = f"http://{settings.host}:{taken.getsockname()[1]}"
            settings = settings.model_copy(update={"public_url": url})
        metrics = Metrics()
        stack.enter_context(_metrics_server(metrics, settings))
        market = stack.enter_context(opened(settings, keys=False))
        stack.enter_context(held_open(market))
        metrics.watch_market(market)
        stack.enter_context(_workers(settings))
        server = make_server(make_app(market, settings, metrics))
        # The server handles signals itself and repeats them when it has stopped: then they mean nothing more.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        log_event("serving", workers=settings.workers)
        tell(settings.public_url)
        server.run(sockets=[taken])
        log_event("stopping")


@contextlib.contextmanager
def _metrics_server(metrics: Metrics, settings: Settings) -> Iterator[None]:
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(settings.metrics_port, settings.host, metrics.registry)
    except OSError as problem:
        raise FileProblem(
            f"cannot listen on {settings.host}:{settings.metrics_port} for metrics: "
            f"{problem.strerror or problem}."
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5.0)


@contextlib.contextmanager
def _workers(settings: Settings) -> Iterator[None]:
    """Have worker processes beside this one; one that dies is followed by another."""
    stopped = threading.Event()
    threads = [_start(f"worker-{k}", _keep_worker, settings, stopped) for k in range(settings.workers)]
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join(_WORKER_SECONDS + 10.0)


def _keep_worker(settings: Settings, stopped: threading.Event) -> None:
    command = [sys.executable, "-c", _WORKER, "worker", str(settings.folder), "--beside", str(os.getpid())]
    while not stopped.is_set():
        # This program itself, with arguments of its own: no shell, and nothing from outside.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # nosec B603
        while not stopped.wait(0.2) and child.poll() is None:
            pass
        if not stopped.is_set():
            log_event("worker died", code=child.returncode)
            stopped.wait(5.0)
            continue
        child.terminate()
        try:
            child.wait(_WORKER_SECONDS)
        except subprocess.TimeoutExpired:
            log_event("worker killed")
            child.kill()
            child.wait()


def run_worker_process(settings: Settings, beside: int | None) -> None:
    """Work until a signal says to stop, or the process that this one was started beside is gone."""
    stopped = _asked_to_stop(beside)
    check_smtp(settings)
    with opened(settings) as market, held_open(market):
        log_event("working")
        thread = _start("long", _keep_long, market, settings, stopped)
        run_worker(market, settings, stopped)
        thread.join(_WORKER_SECONDS)


def _asked_to_stop(beside: int | None) -> Callable[[], bool]:
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    return lambda: asked.is_set() or (beside is not None and os.getppid() != beside)


def _keep_long(market: Market, settings: Settings, stopped: Callable[[], bool]) -> None:
    """Have a process for reports and forecasts while some wait: it needs figures, which a worker does not."""
    child: SpawnProcess | None = None
    while not stopped():
        with _going_on():
            if child is None or not child.is_alive():
                with market.look() as c:
                    waiting = [kind for kind, state in job_counts(c) if kind in _LONG and state in _OPEN]
                if waiting:
                    child = get_context("spawn").Process(target=_run_long, args=(settings, os.getpid()))
                    child.start()
        _rest(stopped, _PAUSE)
    if child is not None:
        child.terminate()
        child.join()


def _run_long(settings: Settings, beside: int) -> None:
    """Make reports and forecasts until none has come for a while: the memory is given back."""
    log_to()
    stopped, last = _asked_to_stop(beside), time.monotonic()
    with opened(settings) as market:
        while not stopped() and time.monotonic() - last < _LONG_SECONDS:
            with _going_on():
                if _work(market, methods_of(settings), "work", _LONG):
                    last = time.monotonic()
            _rest(stopped, _PAUSE)


def _wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise FileProblem("the service did not start in time.")
        time.sleep(0.01)
