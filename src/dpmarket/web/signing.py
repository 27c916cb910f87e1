"""Sign in by links: looking at one shows a button and changes nothing, pressing the button signs in.

Mail scanners open every link of a mail. So a link that is only opened is not used up; members' links sign in
once, sellers' links as often as they come back.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from dpmarket.errors import MarketRefusal
from dpmarket.market import Caller, acting, caller_with, issue_token, revoke_token
from dpmarket.web.auth import COOKIE, SESSION, TheService, session
from dpmarket.web.pages.rendering import page, see
from dpmarket.web.problems import documented
from dpmarket.web.service import LOGIN, Service

router = APIRouter(tags=["signing in"], default_response_class=HTMLResponse, include_in_schema=False)
Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{20,100}$")]
SignedIn = Annotated[Caller, Depends(session)]
_REFUSALS = documented(404, 422, 429)
HOMES = {"seller": "/s", "buyer": "/b", "paymaster": "/p", "operator": "/b", "auditor": "/b"}


@router.get("/i/{token}")
@router.get("/login/{token}")
def button(token: Token, request: Request, service: TheService) -> HTMLResponse:
    """Show a button. Whether the link is good is told when it is pressed."""
    kind = "seller" if request.url.path.startswith("/i/") else "member"
    return page(request, "sign_in", action=request.url.path, kind=kind, title=None, home=None)


@router.post("/i/{token}", responses=_REFUSALS)
def sign_in_seller(token: Token, request: Request, service: TheService) -> Response:
    """Sign a seller in by the link of an invitation."""
    return _sign_in(service, request, token, "invitation")


@router.post("/login/{token}", responses=_REFUSALS)
def sign_in_member(token: Token, request: Request, service: TheService) -> Response:
    """Sign a member in by a link, once."""
    return _sign_in(service, request, token, "login")


@router.get("/signed-in")
def signed_in(caller: SignedIn) -> Response:
    """Lead to the page from which everything else is reached, by role."""
    return see(HOMES[caller.role])


@router.post("/sign-out")
def sign_out(request: Request, service: TheService) -> Response:
    """End a session."""
    with acting(service.desk) as connection:
        revoke_token(connection, request.cookies.get(COOKIE, ""), service.clock())
    answer = page(request, "signed_out", title=None, home=None)
    answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return answer


def _sign_in(service: Service, request: Request, token: str, kind: str) -> Response:
    service.limit("login", request.client.host if request.client else "", LOGIN)
    now = service.clock()
    try:
        with acting(service.desk) as connection:
            caller = caller_with(connection, token, [kind], now)
            if kind == "login" and not revoke_token(connection, token, now):
                raise MarketRefusal("unknown", "another request was first.")
            made = issue_token(connection, "session", caller, now, SESSION)
    except MarketRefusal:
        raise MarketRefusal("unknown", "this link opens nothing (any more).") from None
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
