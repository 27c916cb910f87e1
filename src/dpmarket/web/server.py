"""The HTTP server: a socket that listens, and connections that are closed if nothing comes."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpmarket.errors import FileProblem
from dpmarket.web.guard import Application

HEAD_SECONDS = 20.0
"""Within so long a request's head must come; the guard counts the body's time."""


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
        raise FileProblem(f"cannot listen on {host}:{port}: {problem.strerror or problem}.") from None
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
