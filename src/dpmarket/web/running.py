"""A running service: it answers on a socket, has workers beside it, and stops cleanly."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess  # nosec B404
import sys
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn
from prometheus_client import start_http_server
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpmarket.campaign.database import Market
from dpmarket.errors import FileProblem
from dpmarket.web.app import make_app
from dpmarket.web.folder import held_open, opened
from dpmarket.web.guard import Application
from dpmarket.web.logs import log_event
from dpmarket.web.metrics import Metrics
from dpmarket.web.outgoing import check_smtp
from dpmarket.web.pages.rendering import check_brand
from dpmarket.web.settings import Settings
from dpmarket.web.worker import WORKER_SECONDS, start_thread

_WORKER = "from dpmarket.cli import main; main()"
HEAD_SECONDS = 20.0  # within so long a request's head must come; the guard counts the body's time


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its name: asyncio turns off Nagle's waiting, 40 ms an answer, on sockets of this protocol only.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as problem:
        made.close()
        raise _cannot_listen(f"{host}:{port}", problem) from None
    made.listen(128)
    return made


class _Impatient(H11Protocol):
    """Closes connections whose request does not come: each would keep somebody else from being answered."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head from now on."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for a head from its first byte on, and until its last one."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        super().connection_lost(exc)
        self._stop()

    def _wait(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


def make_server(app: Application) -> uvicorn.Server:
    """Return the server, which logs no request and tells nobody what it is."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_Impatient,
            log_config=None,
            access_log=False,  # its lines would hold tokens
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,  # the application reads them, from trusted proxies only
            timeout_keep_alive=15,
            timeout_graceful_shutdown=10,
            limit_concurrency=500,
        )
    )


@contextlib.contextmanager
def serving(market: Market, settings: Settings) -> Iterator[tuple[str, Metrics]]:
    """Serve a market on a free port of loopback in a thread; gives the address, and what is counted."""
    taken = listening("127.0.0.1", 0)
    url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    metrics = Metrics()
    server = make_server(make_app(market, settings.model_copy(update={"public_url": url}), metrics))
    thread = start_thread("serve", server.run, [taken])
    try:
        with held_open(market):
            _wait_for(lambda: server.started or not thread.is_alive(), 30.0)
            yield url, metrics
    finally:
        server.should_exit = True
        thread.join(30.0)
        taken.close()


def serve(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve until a signal says to stop: workers beside it end the job that they are at."""
    check_smtp(settings)
    check_brand(settings)
    with contextlib.ExitStack() as stack:
        taken = listening(settings.host, settings.port)
        stack.callback(taken.close)
        if settings.port == 0:
            url = f"http://{settings.host}:{taken.getsockname()[1]}"
            settings = settings.model_copy(update={"public_url": url})
        metrics = Metrics()
        _show_metrics(stack, metrics, settings)
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


def _show_metrics(stack: contextlib.ExitStack, metrics: Metrics, settings: Settings) -> None:
    try:
        server, thread = start_http_server(settings.metrics_port, settings.host, metrics.registry)
    except OSError as problem:
        raise _cannot_listen(f"{settings.host}:{settings.metrics_port} for metrics", problem) from None
    for end in (lambda: thread.join(5.0), server.server_close, server.shutdown):  # in the other order
        stack.callback(end)


def _cannot_listen(where: str, problem: OSError) -> FileProblem:
    return FileProblem(f"cannot listen on {where}: {problem.strerror or problem}.")


@contextlib.contextmanager
def _workers(settings: Settings) -> Iterator[None]:
    """Have worker processes beside this one; one that dies is followed by another."""
    stopped = threading.Event()
    threads = [start_thread(f"worker-{k}", _keep_worker, settings, stopped) for k in range(settings.workers)]
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join(WORKER_SECONDS + 10.0)


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
            child.wait(WORKER_SECONDS)
        except subprocess.TimeoutExpired:
            log_event("worker killed")
            child.kill()
            child.wait()


def _wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise FileProblem("the service did not start in time.")
        time.sleep(0.01)
