"""Sign-in by links: looking at one shows a button and changes nothing, pressing the button signs in.

Mail scanners open every link of a mail, so that a link that is only opened is not used up. A member's link
signs in once, a seller's as often as the seller comes back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse

from dpmarket.campaign.access import ask_for_link, caller_of, revoke_token, sign_in, sign_in_by_name
from dpmarket.campaign.sellers import stop_mails
from dpmarket.web.pages.forms import Sent
from dpmarket.web.pages.rendering import page, see
from dpmarket.web.service import COOKIE, SESSION, Service, TheService, keep_cookie, session, start_session
from dpmarket.web.single_sign_on import named_by_proxy

router = APIRouter(include_in_schema=False)
Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{20,100}$")]


@router.get("/")
@router.get("/login")
def door(request: Request, service: TheService) -> HTMLResponse:
    """Offer the ways in which members sign in here."""
    return _door(request, service)


@router.post("/login")
def ask(request: Request, form: Sent, service: TheService) -> Response:
    """Sign in whom a trusted proxy names, or mail a link; the answer is the same for every address."""
    service.limit_sign_in(request)
    name = named_by_proxy(request, service.settings)
    if form.text("how") == "proxy" and name is not None:
        return start_session(service.market.transact(lambda tx: sign_in_by_name(tx, [name], SESSION)))
    if service.settings.smtp_url is not None:
        service.market.transact(lambda tx: ask_for_link(tx, form.text("email")[:300]))
    return _door(request, service, asked=True)


@router.get("/i/{token}")
@router.get("/login/{token}")
@router.get("/stop/{token}")
def button(token: Token, request: Request) -> HTMLResponse:
    """Show a button. The link is checked when the button is pressed."""
    kind = {"i": "seller", "stop": "stop"}.get(request.url.path.split("/")[1], "member")
    return page(request, "sign_in", action=request.url.path, kind=kind)


@router.post("/i/{token}")
@router.post("/login/{token}")
def enter(token: Token, request: Request, service: TheService) -> Response:
    """Sign a seller or a member in."""
    service.limit_sign_in(request)
    kind = "invitation" if request.url.path.startswith("/i/") else "login"
    return start_session(service.market.transact(lambda tx: sign_in(tx, token, kind, SESSION)))


@router.post("/stop/{token}")
def stop(token: Token, request: Request, service: TheService) -> Response:
    """End mails to a seller; mail programs press this button by themselves (RFC 8058)."""
    service.limit_sign_in(request)
    service.market.transact(lambda tx: stop_mails(tx, caller_of(tx.c, token, ("invitation",), tx.now)))
    return page(request, "signed_out", stopped=True)


@router.get("/signed-in")
def signed_in(request: Request, service: TheService) -> Response:
    """Lead to the page from which everything else is reached."""
    return see("/m" if session(request, service).member is not None else "/s")


@router.post("/sign-out")
def sign_out(request: Request, service: TheService) -> Response:
    """End a session."""
    token = request.cookies.get(COOKIE, "")
    service.market.transact(lambda tx: revoke_token(tx, token))
    answer = page(request, "signed_out", stopped=False)
    keep_cookie(answer, COOKIE, "", timedelta(0))
    return answer


def _door(request: Request, service: Service, *, asked: bool = False) -> HTMLResponse:
    settings = service.settings
    ways: dict[str, Any] = {
        "named": named_by_proxy(request, settings),
        "provider": settings.oidc_issuer is not None,
        "mails": settings.smtp_url is not None,
    }
    return page(request, "door", asked=asked, **ways)
