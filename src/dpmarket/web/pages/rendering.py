"""Templates, values and refusals as answers, in the reader's language and without a private value."""

from __future__ import annotations

import gzip
import re
import secrets
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dpmarket.campaign.acts import shown_id
from dpmarket.campaign.rules import meaning
from dpmarket.errors import MarketRefusal
from dpmarket.web.pages.brand import brand_of, static_path
from dpmarket.web.pages.texts import Texts, languages, other_languages, texts_for
from dpmarket.web.problems import Description

LANGUAGE = "__Host-language"
"""The cookie that keeps which language somebody chose."""

_POLICY = re.compile(r'Content-Security-Policy" content="([^"]*)"')
_FOLDER = Path(__file__).parents[1]
_environment = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.filters["shown_id"] = shown_id
_environment.globals |= {
    "static": static_path,
    "chance_of": meaning.chance_of,
    "epsilon_left": meaning.epsilon_left,
    "epsilon_shown": meaning.epsilon_shown,
    "guess_percent": meaning.guess_percent,
}


def texts_of(request: Request) -> Texts:
    """Return the texts in the language that a reader chose, or that their browser asks for."""
    wanted = request.headers.get("accept-language", "")
    chosen = request.cookies.get(LANGUAGE, "")
    return texts_for(f"{chosen},{wanted}" if chosen in languages() else wanted)


def page(
    request: Request, template: str, *, status: int = 200, texts: Texts | None = None, **values: Any
) -> HTMLResponse:
    """Return a page."""
    said = (texts or texts_of(request)).about(str(values.get("purpose", "model")))
    content = _environment.get_template(f"{template}.html").render(
        {"title": None, "home": None},
        t=said,
        money=said.money,
        number=said.number,
        measured=said.measured,
        typed_amount=said.typed_amount,
        when=said.when,
        new_key=new_key,
        languages=other_languages(said.language),
        brand=brand_of(request),
        here=request.url.path if request.method == "GET" else values.get("home") or "/",
        **values,
    )
    headers = {"Content-Language": said.language, "Vary": "Accept-Language, Cookie"}
    return HTMLResponse(content, status, headers)


def whole_page(request: Request, content: bytes) -> HTMLResponse:
    """Return a page that was made elsewhere, by the stricter policy that it brings along itself.

    It is packed for a browser that can unpack it. Nothing that the reader sent is in such a page: from the
    length of what is packed nobody learns anything about a session.
    """
    found = _POLICY.search(content[:4000].decode(errors="replace"))
    assert found is not None
    headers = {"Content-Security-Policy": f"{found[1]}; frame-ancestors 'none'", "Vary": "Accept-Encoding"}
    if re.search(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", request.headers.get("accept-encoding", "")):
        headers["Content-Encoding"] = "gzip"
        content = gzip.compress(content, 6)
    return HTMLResponse(content, headers=headers)


def new_key() -> str:
    """Return an idempotency key for a form: pressing its button twice does its act once."""
    return secrets.token_urlsafe(24)


def see(path: str) -> RedirectResponse:
    """Return an answer that leads to a page after an act, so that going back repeats nothing."""
    return RedirectResponse(path, status_code=303)


def attached(name: str, content: str | bytes) -> Response:
    """Return a file to download, of the kind that its ending names."""
    kinds = {"csv": "text/csv; charset=utf-8", "json": "application/json", "xml": "application/xml"}
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kinds[name.rsplit(".", 1)[1]], headers=headers)


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
