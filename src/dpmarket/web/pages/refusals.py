"""Refusals as pages for people, in their language and without a value; programs get problems."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from dpmarket.errors import DpmarketError, FileProblem, MarketRefusal
from dpmarket.web.pages.rendering import page
from dpmarket.web.problems import NotSignedIn, TooOften, WrongRules

_FOR_PROGRAMS = ("/api/", "/healthz", "/readyz", "/metrics")
_KINDS = (
    RequestValidationError, MarketRefusal, WrongRules, FileProblem, TooOften, NotSignedIn, DpmarketError,
    HTTPException, Exception,
)  # fmt: skip
_KEPT = ("retry-after", "allow")


def tell_people(app: FastAPI) -> None:
    """Answer refusals of pages with pages; answers to programs stay as they are."""
    for kind in _KINDS:
        app.add_exception_handler(kind, _for_people(app.exception_handlers[kind]))


def _for_people(before: Callable[..., Any]) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def told(request: Request, refusal: Exception) -> Response:
        answer = before(request, refusal)
        if inspect.isawaitable(answer):
            answer = await answer
        assert isinstance(answer, Response)
        if request.url.path.startswith(_FOR_PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
            return answer
        shown = page(
            request,
            "refused",
            status=answer.status_code,
            name=_name(refusal, answer.status_code),
            detail=_detail(request, refusal),
            home=home_of(request.url.path),
        )
        for name in _KEPT:
            if name in answer.headers:
                shown.headers[name] = answer.headers[name]
        return shown

    return told


def home_of(path: str) -> str | None:
    """Return where a reader of a page goes on; None for who may have no place."""
    return next((home for home in ("/s", "/m") if path == home or path.startswith(home + "/")), None)


def _name(refusal: Exception, status: int) -> str:
    """Return the text that states a refusal."""
    if isinstance(refusal, MarketRefusal):
        return refusal.kind
    known = {
        401: "stranger", 404: "unknown", 405: "unknown", 409: "state", 422: "invalid", 429: "often",
        503: "later",
    }  # fmt: skip
    return known.get(status, "error")


def _detail(request: Request, refusal: Exception) -> str | None:
    """Return the market's own sentence, for members: sellers have texts of their own."""
    if not isinstance(refusal, MarketRefusal) or refusal.kind == "unknown":
        return None
    return str(refusal) if home_of(request.url.path) == "/m" else None
