"""Templates and values as answers, in the reader's language."""

from __future__ import annotations

import gzip
import re
import secrets
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dpmarket.campaign.acts import shown_id
from dpmarket.web.pages.dots import circles
from dpmarket.web.pages.texts import Texts, languages, other_languages, texts_for

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


def texts_of(request: Request) -> Texts:
    """Return the texts in the language that a reader chose, or that their browser asks for."""
    wanted = request.headers.get("accept-language", "")
    chosen = request.cookies.get(LANGUAGE, "")
    return texts_for(f"{chosen},{wanted}" if chosen in languages() else wanted)


def page(
    request: Request, template: str, *, status: int = 200, texts: Texts | None = None, **values: Any
) -> HTMLResponse:
    """Return a page.

    Parameters
    ----------
    template
        The template's name, without ``.html``.
    status
        The HTTP status.
    texts
        The reader's language; None: as the request asks for.
    values
        What the template needs besides ``t``, ``money``, ``number``, ``measured``, ``typed_amount``,
        ``when``, ``circles`` and ``new_key``.
        With a ``purpose``, what the campaign buys, texts about that are chosen.
    """
    said = (texts or texts_of(request)).about(str(values.get("purpose", "model")))
    content = _environment.get_template(f"{template}.html").render(
        t=said,
        money=said.money,
        number=said.number,
        measured=said.measured,
        typed_amount=said.typed_amount,
        when=said.when,
        new_key=new_key,
        circles=circles,
        languages=other_languages(said.language),
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
