"""Refusals as pages for people, in their language and without a value; programs get problems."""

from __future__ import annotations

from fastapi import Request, Response

from dpmarket.errors import MarketRefusal
from dpmarket.web.pages.rendering import page
from dpmarket.web.problems import Description

_FOR_PROGRAMS = ("/api/", "/healthz", "/readyz", "/metrics")
_NAMES = {
    401: "stranger", 404: "unknown", 405: "unknown", 409: "state", 422: "invalid", 429: "often", 503: "later",
}  # fmt: skip


def page_of(request: Request, refusal: Exception, found: Description) -> Response | None:
    """Return the page that states a refusal; None for programs, which get a problem."""
    path = request.url.path
    if path.startswith(_FOR_PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
        return None
    is_market = isinstance(refusal, MarketRefusal)
    name = found.kind if is_market else _NAMES.get(found.status, "error")
    # The market's own sentence is for members: sellers have texts of their own.
    detail = found.title if is_market and home_of(path) == "/m" else None
    return page(request, "refused", status=found.status, name=name, detail=detail, home=home_of(path))


def home_of(path: str) -> str | None:
    """Return where a reader of a page goes on; None for who may have no place."""
    return next((home for home in ("/s", "/m") if path == home or path.startswith(home + "/")), None)
