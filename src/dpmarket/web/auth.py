"""Turn bearer tokens and session cookies into callers; what is not a caller's does not exist for them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import Caller, caller_with
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


def only(*roles: str) -> Callable[[AnyCaller], Caller]:
    """Return a dependency that gives callers of some roles; for all others there is nothing here."""

    def chosen(caller: AnyCaller) -> Caller:
        if caller.role not in roles:
            raise MarketRefusal("unknown", "there is nothing here for this caller.")
        return caller

    return chosen


Seller = Annotated[Caller, Depends(only("seller"))]
Buyer = Annotated[Caller, Depends(only("buyer"))]
Paymaster = Annotated[Caller, Depends(only("paymaster"))]


def session(request: Request, service: TheService) -> Caller:
    """Return who looks at a page, by their session's cookie."""
    return _caller(service, request.cookies.get(COOKIE, ""), "session")


def _caller(service: Service, token: str, *kinds: str) -> Caller:
    if not 0 < len(token) <= _LONGEST or not token.isascii():
        raise NotSignedIn("no token")
    try:
        with reading(service.desk.ledger) as connection:
            return caller_with(connection, token, kinds, service.clock())
    except MarketRefusal:
        raise NotSignedIn("no token that is known") from None
