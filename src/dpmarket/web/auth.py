"""Bearer tokens and session cookies as callers; what is not a caller's does not exist for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from dpmarket.campaign.access import caller_of
from dpmarket.campaign.acts import Caller
from dpmarket.campaign.transaction import nothing
from dpmarket.errors import MarketRefusal
from dpmarket.web.problems import NotSignedIn
from dpmarket.web.service import Service

COOKIE = "__Host-dpmarket"
"""Browsers take it over TLS (or from loopback) only, for this host alone."""
SESSION = timedelta(hours=12)
_LONGEST = 200

_bearer = HTTPBearer(
    auto_error=False,
    description="A member's API token, or the token of a seller's invitation: 256 random bits as text.",
)


def the_service(request: Request) -> Service:
    """Return the service whose request this is."""
    found = request.app.state.service
    assert isinstance(found, Service)
    return found


TheService = Annotated[Service, Depends(the_service)]


def bearer(
    service: TheService, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    """Return who calls the API, by the token in the header ``Authorization`` and by nothing else."""
    if given is None:
        raise NotSignedIn("no token")
    return _caller(service, given.credentials, "api", "invitation")


AnyCaller = Annotated[Caller, Depends(bearer)]


def session(request: Request, service: TheService) -> Caller:
    """Return who looks at a page, by their session's cookie."""
    return _caller(service, request.cookies.get(COOKIE, ""), "session")


def signed_in_seller(request: Request, service: TheService) -> Caller:
    """Return the seller who is signed in; for members there is nothing here."""
    caller = session(request, service)
    if caller.participation is None:
        raise nothing()
    return caller


def signed_in_member(request: Request, service: TheService) -> Caller:
    """Return the member who is signed in; for sellers there is nothing here."""
    caller = session(request, service)
    if caller.member is None:
        raise nothing()
    return caller


SignedSeller = Annotated[Caller, Depends(signed_in_seller)]
SignedMember = Annotated[Caller, Depends(signed_in_member)]


def start_session(token: str, lasts: timedelta = SESSION) -> Response:
    """Return an answer that keeps a session's token in a cookie, and leads to where it goes on.

    The next page is asked for by this site itself, so that the cookie goes with it.
    """
    answer = RedirectResponse("/signed-in", status_code=303)
    seconds = int(lasts.total_seconds())
    answer.set_cookie(COOKIE, token, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")
    return answer


def _caller(service: Service, token: str, *kinds: str) -> Caller:
    if not 0 < len(token) <= _LONGEST or not token.isascii():
        raise NotSignedIn("no token")
    try:
        with service.market.look() as c:
            return caller_of(c, token, kinds, service.now)
    except MarketRefusal:
        raise NotSignedIn("no token that is known") from None
