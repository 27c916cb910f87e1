"""Look up all that a seller's page needs, for that seller alone, in one reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from dpmarket import market
from dpmarket.campaign.market_file import Market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, reading
from dpmarket.market import Caller, GivenQuote, caller_with
from dpmarket.market.desk import time_text
from dpmarket.market.opening import market_of
from dpmarket.market.standing import Standing
from dpmarket.web.auth import COOKIE, TheService, session
from dpmarket.web.pages.situations import situation_of
from dpmarket.web.problems import NotSignedIn
from dpmarket.web.service import Service

_KEPT = 256
_titles: dict[str, tuple[str, str]] = {}  # by campaign: title and market file, which never change


@dataclass(frozen=True)
class View:
    """What a seller's pages are made of.

    Attributes
    ----------
    standing, title
        Where they stand, in a campaign of which title.
    quote
        Their offer, or None.
    situation
        By which text it is told.
    rules
        The market file, as JSON.
    """

    standing: Standing
    title: str
    quote: GivenQuote | None
    situation: str
    rules: str

    @property
    def market(self) -> Market:
        """The market file."""
        return market_of(self.rules)

    @property
    def can_leave(self) -> bool:
        """Whether withdrawing undoes anything."""
        return self.standing.state in ACTIVE and self.standing.campaign_state != "training"


ACTIVE = ("invited", "consented", "waiting", "seated", "reported", "quoted", "accepted", "delivered")
_WITH_QUOTE = ("quoted", "accepted", "delivered", "spent", "declined", "expired", "lapsed")


def look(service: Service, caller: Caller) -> View:
    """Return what there is for a seller."""
    with reading(service.desk.ledger) as connection:
        return _look(connection, caller, time_text(service.clock()))


def arrive(request: Request, service: TheService) -> tuple[Caller, View]:
    """Return the seller who is signed in and what there is for them, in one reading: most pages are this.

    Raises
    ------
    NotSignedIn, MarketRefusal
        Nobody is signed in, or no seller.
    """
    token, now = request.cookies.get(COOKIE, ""), service.clock()
    with reading(service.desk.ledger) as connection:
        try:
            caller = caller_with(connection, token, ("session",), now)
        except MarketRefusal:
            raise NotSignedIn("no token that is known") from None
        return caller, _look(connection, caller, time_text(now))


Arrived = Annotated[tuple[Caller, View], Depends(arrive)]


def _look(connection: Connection, caller: Caller, at: str) -> View:
    found = market.show_standing(connection, caller, caller.id)
    title, rules = _title(connection, found.campaign)
    quote = payment = None
    if found.state in _WITH_QUOTE:
        quote = _quote(connection, caller)
    if found.state == "spent":
        payment = market.payment_state(connection, caller.id)
    return View(found, title, quote, situation_of(found, quote, payment, at), rules)


def session_of(*roles: str) -> Callable[[Request, TheService], Caller]:
    """Return a dependency that gives who is signed in, if they have one of these roles.

    For all others there is nothing here.
    """

    def chosen(request: Request, service: TheService) -> Caller:
        caller = session(request, service)
        if caller.role not in roles:
            raise MarketRefusal("unknown", "there is nothing here for this caller.")
        return caller

    return chosen


SignedSeller = Annotated[Caller, Depends(session_of("seller"))]


def _quote(connection: Connection, caller: Caller) -> GivenQuote | None:
    try:
        return market.show_quote(connection, caller, caller.id)
    except MarketRefusal:
        return None


def _title(connection: Connection, campaign: str) -> tuple[str, str]:
    known = _titles.get(campaign)
    if known is None:
        found = market.campaign_of(connection, campaign)
        while len(_titles) >= _KEPT:
            _titles.pop(next(iter(_titles)), None)
        known = _titles[campaign] = (found.title, found.market)
    return known
