"""Pages for everybody: sign-in by links, the check of certificates and receipts, the choice of a language.

Looking at a link shows a button and changes nothing: mail scanners open every link of a mail.
"""

import re
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import HTMLResponse

from dpmarket.campaign.access import ask_for_link, caller_of, revoke_token, sign_in, sign_in_by_name
from dpmarket.campaign.sellers import stop_mails
from dpmarket.certificates import receipt_page, verify
from dpmarket.errors import MarketRefusal
from dpmarket.web.pages.forms import Sent, number_in
from dpmarket.web.pages.rendering import LANGUAGE, page, see, whole_page
from dpmarket.web.pages.texts import languages
from dpmarket.web.service import (
    COOKIE,
    SESSION,
    Rate,
    Service,
    TheService,
    keep_cookie,
    session,
    start_session,
)
from dpmarket.web.single_sign_on import named_by_proxy

router = APIRouter(include_in_schema=False)
Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{20,100}$")]


@router.get("/")
@router.get("/login")
def door(request: Request, service: TheService) -> HTMLResponse:
    """Offer the ways in which members sign in here."""
    return _door(request, service)


@router.post("/login")
def send_link(request: Request, form: Sent, service: TheService) -> Response:
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


_RATE = Rate(20, 60.0)


@router.get("/verify")
def ask(request: Request) -> Response:
    """Ask for a certificate, and a receipt if there is one."""
    return page(request, "verify", checks=None, problem=None)


@router.post("/verify")
def verdicts(request: Request, form: Sent, service: TheService) -> Response:
    """Check what was uploaded, and say so in words. Nothing of it is kept."""
    service.limit_address(request, "verify", _RATE)
    certificate, receipt = form.files.get("certificate"), form.files.get("receipt")
    typed, digest = form.text("cost"), form.text("digest").lower()
    cost = number_in(typed) if typed else None
    problem = None
    if certificate is None:
        problem = "verify.missing"
    elif typed and (cost is None or cost < 0.0):
        problem = "verify.cost_problem"
    checks = None
    if problem is None:
        checks = verify(certificate, receipt=receipt, cost=cost, digest=digest or None)
    status = 200 if problem is None else 422
    return page(request, "verify", status=status, checks=checks, problem=problem)


@router.get("/check-receipt")
def check_receipt() -> Response:
    """Give the page that checks a receipt in the browser, by its own and stricter policy."""
    return whole_page(receipt_page())


_YEAR = timedelta(days=365)
# Pages of this service only: not another host, whose address would begin with two slashes.
_OWN = re.compile(r"/(?:[\w.-]+/)*[\w.-]*", re.ASCII)


@router.get("/language/{name}")
def choose(
    name: Annotated[str, Path(max_length=20)], back: Annotated[str, Query(max_length=200)] = "/"
) -> Response:
    """Keep which language somebody reads, which needs no button, and lead back to where they were."""
    if name not in languages():
        raise MarketRefusal("unknown", "there is no such language.")
    answer = see(back if is_own(back) else "/")
    keep_cookie(answer, LANGUAGE, name, _YEAR)
    return answer


def is_own(back: str) -> bool:
    """Return whether an address is a page of this service."""
    return _OWN.fullmatch(back) is not None
