"""Sign-in by links: looking at one shows a button and changes nothing, pressing the button signs in.

Mail scanners open every link of a mail, so that a link that is only opened is not used up. A member's link
signs in once, a seller's as often as the seller comes back.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from dpmarket.campaign.access import revoke_token, sign_in
from dpmarket.web.auth import COOKIE, SESSION, TheService, session
from dpmarket.web.pages.rendering import page, see
from dpmarket.web.problems import documented
from dpmarket.web.service import LOGIN

router = APIRouter(tags=["signing in"], default_response_class=HTMLResponse, include_in_schema=False)
Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{20,100}$")]
_REFUSALS = documented(404, 422, 429)


@router.get("/i/{token}")
@router.get("/login/{token}")
def button(token: Token, request: Request, service: TheService) -> HTMLResponse:
    """Show a button. Whether the link is good is told when it is pressed."""
    kind = "seller" if request.url.path.startswith("/i/") else "member"
    return page(request, "sign_in", action=request.url.path, kind=kind, title=None, home=None)


@router.post("/i/{token}", responses=_REFUSALS)
@router.post("/login/{token}", responses=_REFUSALS)
def enter(token: Token, request: Request, service: TheService) -> Response:
    """Sign a seller or a member in."""
    service.limit("login", request.client.host if request.client else "", LOGIN)
    kind = "invitation" if request.url.path.startswith("/i/") else "login"
    made = service.market.transact(lambda tx: sign_in(tx, token, kind, SESSION))
    answer = RedirectResponse("/signed-in", status_code=303)
    answer.set_cookie(
        COOKIE,
        made,
        max_age=int(SESSION.total_seconds()),
        path="/",
        secure=True,
        httponly=True,
        samesite="lax",
    )
    return answer


@router.get("/signed-in")
def signed_in(request: Request, service: TheService) -> Response:
    """Lead to the page from which everything else is reached."""
    return see("/m" if session(request, service).member is not None else "/s")


@router.post("/sign-out")
def sign_out(request: Request, service: TheService) -> Response:
    """End a session."""
    token = request.cookies.get(COOKIE, "")
    service.market.transact(lambda tx: revoke_token(tx, token))
    answer = page(request, "signed_out", title=None, home=None)
    answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return answer
