"""Stand before the application: bounded and strictly read bodies, no other site's changes, strict answers."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import from_json
from starlette.datastructures import MutableHeaders
from starlette.responses import Response

from dpmarket.web.problems import problem
from dpmarket.web.settings import LOOPBACK

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_SAFE = ("GET", "HEAD", "OPTIONS")
_BODY_SECONDS = 30.0
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_HSTS = "max-age=31536000"


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: Application, public_url: str, max_body: int) -> None:
        parts = urlsplit(public_url)
        self._app, self._max_body = app, max_body
        self._hosts = {*LOOPBACK, str(parts.hostname)}
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._headers = HEADERS | ({"Strict-Transport-Security": _HSTS} if parts.scheme == "https" else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def strictly(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in self._headers.items():
                    headers.setdefault(name, value)  # a page can be stricter, and a public file be kept
            await send(message)

        headers = _single(scope)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            body = await self._body(headers, receive)
            if isinstance(body, bytes):
                refusal = _unreadable(scope, headers, body)
                receive = _again(body, receive)
            else:
                refusal = body
        if refusal is not None:
            scope["dpmarket.kind"] = f"refused {refusal.status_code}"
            await refusal(scope, receive, strictly)
            return
        await self._app(scope, receive, strictly)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """Return what to say to a request that is refused by its head alone."""
        if _host(headers) not in self._hosts:
            return problem(421, [("header.Host", "unknown")])
        if headers.get("content-encoding", "identity") != "identity":
            return problem(415, [("header.Content-Encoding", "refused")])
        if scope["method"] in _SAFE:
            return None
        site = headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none"):
            return problem(403, [("header.Sec-Fetch-Site", "cross-site")])
        origin = headers.get("origin")
        # A page that tells nobody where it was asks its own site with the origin "null": our pages do.
        if origin == "null" and site == "same-origin":
            return None
        if origin is not None and origin not in (self._origin, f"{scope['scheme']}://{headers.get('host')}"):
            return problem(403, [("header.Origin", "cross-site")])
        return None

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes | Response:
        """Return a body that is not too large, or the answer to one that is."""
        told = headers.get("content-length", "0")
        if not told.isdecimal():
            return problem(400, [("header.Content-Length", "number")])
        if int(told[:20]) > self._max_body:
            return problem(413, [("body", "too large")])
        parts, size = [], 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return problem(400, [("body", "ended early")])
                    size += len(message.get("body", b""))
                    if size > self._max_body:
                        return problem(413, [("body", "too large")])
                    parts.append(message.get("body", b""))
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return problem(408, [("body", "too slow")])


def _single(scope: Scope) -> dict[str, str]:
    """Return the headers by their small names; of one that comes twice all values, which fit nothing."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = f"{found[key]}, {value.decode('latin-1')}" if key in found else value.decode("latin-1")
    return found


def _host(headers: dict[str, str]) -> str | None:
    try:
        parts = urlsplit(f"//{headers.get('host', '')}")
    except ValueError:
        return None
    return parts.hostname if parts.username is None else None


def _unreadable(scope: Scope, headers: dict[str, str], body: bytes) -> Response | None:
    """Return what to say to a body of the API that is not JSON, or holds what a database ends texts with."""
    if not body or not str(scope["path"]).startswith("/api/"):
        return None
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        return problem(415, [("header.Content-Type", "refused")])
    try:
        from_json(body, allow_inf_nan=False)  # nothing deep, no half characters
        json.loads(body, object_pairs_hook=_once)
    except ValueError:  # its text quotes the body
        return problem(400, [("body", "not json")])
    return problem(400, [("body", "not text")]) if b"\\u0000" in body else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that stands twice: two readers would take different values."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key twice")
    return made


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, and then whatever comes after it."""
    left: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def once_more() -> MutableMapping[str, Any]:
        return left.pop() if left else await receive()

    return once_more
