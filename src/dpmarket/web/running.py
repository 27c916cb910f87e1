"""Run a service: open its desk, answer on a socket, have workers beside it, and stop all of it cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess  # nosec B404
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from prometheus_client import start_http_server

from dpmarket.errors import DpmarketError, FileProblem
from dpmarket.ledger.engine import is_address, is_empty_file, without_password
from dpmarket.ledger.postgres import is_empty_database
from dpmarket.market import Desk, do_errands, open_desk, tidy, work
from dpmarket.report import make_reports
from dpmarket.web.app import make_app
from dpmarket.web.clocks import clock_of
from dpmarket.web.guard import Application
from dpmarket.web.mailing import check_smtp, has_smtp, send_due
from dpmarket.web.service import Clock, clock
from dpmarket.web.settings import SETTINGS_FILE, Settings
from dpmarket.web.warming import compile_kernels
from dpmarket.web.watching import Metrics, log_event

_PAUSE = 1.0  # seconds between a worker's rounds
_ERRANDS_PAUSE = 0.25
_HOUR = 3600.0
_WORKER_SECONDS = 60.0  # for a worker that is asked to stop, and may be training
_WORKER = "from dpmarket.cli import main; main()"


@contextlib.contextmanager
def opened(settings: Settings, *, is_new: bool = False) -> Iterator[Desk]:
    """Open the desk of a service with its private keys for a ``with`` block, as a worker does.

    Its tables are brought up to date. The log outside of the ledger goes to the folder ``state``, unless
    ``DPMARKET_STATE`` names another.

    Parameters
    ----------
    settings
        How the service is set up.
    is_new
        Whether its database is made if there is none. Else that is refused: a disk that is not mounted would
        become a service that has forgotten everybody.

    Raises
    ------
    FileProblem, LedgerRefusal
        There is no database, or as for :func:`~dpmarket.market.open_desk`.
    """
    if not is_new:
        _refuse_lost(settings)
    with _opened(settings, settings.keys) as desk:
        yield desk


@contextlib.contextmanager
def opened_without_keys(settings: Settings) -> Iterator[Desk]:
    """Open the desk of a service for a ``with`` block, as who answers requests does: without private keys."""
    _refuse_lost(settings)
    with _opened(settings, None) as desk:
        yield desk


@contextlib.contextmanager
def _opened(settings: Settings, keys: Path | None) -> Iterator[Desk]:
    name_folders(settings)
    for folder in (settings.folder, Path(os.environ["DPMARKET_STATE"])):
        make_folder(folder)
    if not is_address(settings.database):
        make_folder(Path(settings.database).parent)
    with open_desk(settings.database, keys, settings.terms) as desk:
        yield desk


def _refuse_lost(settings: Settings) -> None:
    """Refuse a service whose database is gone, or has nothing in it."""
    place = settings.database
    if is_empty_database(place) if is_address(place) else is_empty_file(Path(place)):
        raise FileProblem(
            f"the service's database is not there: {without_password(place)}; see that its disk is mounted "
            "and its name is right, or put a backup there ('dpmarket service restore'). If it was never "
            f"used, delete {settings.folder / SETTINGS_FILE} and run 'dpmarket service init' with the same "
            "environment as 'serve'."
        )


def name_folders(settings: Settings) -> None:
    """Name the state folder and the master key to all of this process, unless the environment does."""
    os.environ.setdefault("DPMARKET_STATE", str((settings.folder / "state").absolute()))
    if settings.master_key_file is not None:
        os.environ.setdefault("DPMARKET_MASTER_KEY_FILE", str(settings.master_key_file.absolute()))


@contextlib.contextmanager
def held_open(desk: Desk) -> Iterator[None]:
    """Hold a SQLite file open: it would be tidied up whenever its last user leaves, after every request."""
    with contextlib.ExitStack() as stack:
        if desk.ledger.path is not None:
            stack.enter_context(desk.ledger.engine.connect())
        yield


def make_folder(folder: Path) -> None:
    """Make a folder for its owner only, if there is none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise FileProblem(f"cannot make the folder {folder}: {problem.strerror or problem}.") from None


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises
    ------
    FileProblem
        The address is taken, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its name: asyncio turns off Nagle's waiting, 40 ms an answer, on sockets of this protocol only.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as problem:
        made.close()
        raise FileProblem(f"cannot listen on {host}:{port}: {problem.strerror or problem}.") from None
    made.listen(128)
    return made


def make_server(app: Application, settings: Settings) -> uvicorn.Server:
    """Return the server, which logs no request and tells nobody what it is."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,  # its lines would hold tokens
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=settings.behind_proxy,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=10,
            limit_concurrency=500,
        )
    )


@contextlib.contextmanager
def serving(desk: Desk, settings: Settings, tells_time: Clock = clock) -> Iterator[tuple[str, Metrics]]:
    """Serve a desk on a free port of loopback in a thread of this process; for a ``with`` block.

    Gives the address, and what is counted.
    """
    taken = listening("127.0.0.1", 0)
    url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    metrics = Metrics()
    app = make_app(desk, settings.model_copy(update={"public_url": url}), metrics, tells_time)
    server = make_server(app, settings)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [taken]}, name="dpmarket-serve", daemon=True
    )
    thread.start()
    try:
        with held_open(desk):
            _wait_for(lambda: server.started or not thread.is_alive(), 30.0)
            yield url, metrics
    finally:
        server.should_exit = True
        thread.join(30.0)
        taken.close()


@contextlib.contextmanager
def working(desk: Desk, tells_time: Clock = clock, pause: float = 0.05) -> Iterator[None]:
    """Have a worker in a thread of this process; for a ``with`` block."""
    stopped = threading.Event()
    thread = threading.Thread(
        target=run_worker, args=(desk, stopped.is_set, tells_time, pause), name="dpmarket-worker", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(120.0)


def run_worker(
    desk: Desk,
    stopped: Callable[[], bool],
    tells_time: Clock = clock,
    pause: float = _PAUSE,
    settings: Settings | None = None,
) -> None:
    """Do what is due, again and again, until it is to stop; a job that was begun is ended first.

    Mails are sent where settings name a server for them.
    """
    errands = threading.Thread(
        target=_run_errands, args=(desk, stopped, tells_time), name="dpmarket-errands", daemon=True
    )
    errands.start()
    mails = threading.Thread(
        target=_run_mails, args=(desk, stopped, tells_time, settings), name="dpmarket-mails", daemon=True
    )
    if settings is not None and has_smtp(settings):
        mails.start()
    tidied = 0.0
    while not stopped():
        try:
            for job in work(desk, tells_time()):
                log_event("job", kind=job.kind, attempts=job.attempts)
            make_reports(desk, tells_time())
            if time.monotonic() - tidied > _HOUR:
                tidied = time.monotonic()
                tidy(desk, tells_time())
        except DpmarketError as problem:  # a full disk, a server that is away: they come back
            log_event("worker failed", error=type(problem).__name__)
        _rest(stopped, pause)
    errands.join(10.0)
    if mails.is_alive():
        mails.join(40.0)


def _run_mails(desk: Desk, stopped: Callable[[], bool], tells_time: Clock, settings: Settings) -> None:
    """Send mails, again and again: a server that is slow holds no job up."""
    while not stopped():
        try:
            send_due(desk, settings, tells_time())
        except DpmarketError as problem:
            log_event("worker failed", error=type(problem).__name__)
        _rest(stopped, _PAUSE)


def _run_errands(desk: Desk, stopped: Callable[[], bool], tells_time: Clock) -> None:
    """Make keys and answer questions, again and again: people wait for them, however long a job takes."""
    while not stopped():
        try:
            do_errands(desk, tells_time())
        except DpmarketError as problem:
            log_event("worker failed", error=type(problem).__name__)
        _rest(stopped, _ERRANDS_PAUSE)


def _rest(stopped: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not stopped() and time.monotonic() < end:
        time.sleep(min(0.1, seconds))


def serve(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve until a signal says to stop: workers beside it end the job that they are at.

    Parameters
    ----------
    settings
        How the service is set up.
    tell
        Called with the address once requests are answered.
    """
    tells_time = clock_of(settings)
    check_smtp(settings)
    with contextlib.ExitStack() as stack:
        taken = listening(settings.host, settings.port)
        stack.callback(taken.close)
        if settings.port == 0:
            url = f"http://{settings.host}:{taken.getsockname()[1]}"
            settings = settings.model_copy(update={"public_url": url})
        metrics = Metrics()
        stack.enter_context(_metrics_server(metrics, settings))
        desk = stack.enter_context(opened_without_keys(settings))
        stack.enter_context(held_open(desk))
        metrics.watch_desk(desk)
        compile_kernels()
        stack.enter_context(_workers(settings))
        server = make_server(make_app(desk, settings, metrics, tells_time), settings)
        # The server handles signals itself and repeats them when it has stopped: then they mean nothing more.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        log_event("serving", workers=settings.workers)
        tell(settings.public_url)
        server.run(sockets=[taken])
        log_event("stopping")


@contextlib.contextmanager
def _metrics_server(metrics: Metrics, settings: Settings) -> Iterator[None]:
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
    threads = [
        threading.Thread(
            target=_keep_worker, args=(settings, stopped), name=f"dpmarket-worker-{k}", daemon=True
        )
        for k in range(settings.workers)
    ]
    for thread in threads:
        thread.start()
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
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())

    def stopped() -> bool:
        return asked.is_set() or (beside is not None and os.getppid() != beside)

    tells_time = clock_of(settings)
    check_smtp(settings)
    with opened(settings) as desk:
        log_event("working")
        run_worker(desk, stopped, tells_time, settings=settings)


def _wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise FileProblem("the service did not start in time.")
        time.sleep(0.01)
