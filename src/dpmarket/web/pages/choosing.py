"""Choosing: a seat, the slider over the menu or a cost of one's own, the offer, yes or no."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from dpmarket import market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import Caller
from dpmarket.web.api import models, sellers
from dpmarket.web.auth import TheService
from dpmarket.web.pages.choices import Choices, choices_of
from dpmarket.web.pages.forms import Form, Sent, number_in
from dpmarket.web.pages.looking import Arrived, SignedSeller, View, look
from dpmarket.web.pages.meaning import REFERENCE, STRANGERS, cost_of
from dpmarket.web.pages.rendering import page, see, texts_of
from dpmarket.web.pages.selling import HOME, frame
from dpmarket.web.pages.texts import Texts
from dpmarket.web.service import Service

router = APIRouter(prefix="/s", include_in_schema=False)
CHOOSE = "/s/choose"
_REPORT = "consented_offline"


@router.post("/seat")
def take_seat(form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Set money aside for whatever is chosen, then show the menu; without room there is a line."""
    seat = sellers.take_seat(caller, service, form.key)
    return see(CHOOSE if seat.state == "seated" else HOME)


@router.get("/choose")
def choose(
    request: Request,
    arrived: Arrived,
    service: TheService,
    line: Annotated[int, Query(ge=1, le=10_000)] = 1,
) -> Response:
    """Show the slider at one line of the menu; or, where all are quoted at once, ask for a cost."""
    return _choose(request, *arrived, service, line=line)


@router.post("/quote")
def quote(request: Request, form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Choose a line of the menu, or name a cost; the offer follows."""
    view = look(service, caller)
    if form.text("how") == "line" and view.quote is not None:
        return see(HOME)  # pressed twice: the menu is behind them, and the offer is what they came for
    if form.text("how") == "line":
        number = form.text("line")
        if not number.isdecimal() or len(number) > 5:
            raise MarketRefusal("invalid", "expected a line of the menu.")
        cost = _choices(texts_of(request), caller, service, view).at(int(number)).cost
    else:
        named = _cost(form)
        if named is None:
            return _choose(request, caller, view, service, problem="choose.worth.problem")
        cost = named
    body = models.Cost(cost=cost)
    if view.standing.mechanism == "offline":
        sellers.report(body, caller, service, form.key)
    else:
        sellers.choose(body, caller, service, form.key)
    return see(HOME)


@router.post("/accept")
def accept(form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Accept the offer."""
    sellers.accept(caller, service, form.key)
    return see("/s/record")


@router.post("/decline")
def decline(form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Decline: the offer, the seat, or, before there is either, to take part at all."""
    if look(service, caller).standing.state in ("seated", "quoted"):
        sellers.decline(caller, service, form.key)
    else:
        sellers.withdraw(caller, service, form.key)
    return see(HOME)


def _choose(
    request: Request,
    caller: Caller,
    view: View,
    service: Service,
    *,
    line: int = 1,
    problem: str | None = None,
) -> Response:
    status = 200 if problem is None else 422
    shown: dict[str, Any] = {"problem": problem, "reference": REFERENCE, "strangers": STRANGERS}
    if view.situation == _REPORT:
        return page(request, "report", status=status, **frame(view), **shown)
    if view.situation != "seated":
        return see(HOME)
    texts = texts_of(request)
    choices = _choices(texts, caller, service, view)
    return page(
        request,
        "choose",
        status=status,
        texts=texts,
        **frame(view),
        **shown,
        choices=choices,
        chosen=choices.at(line),
    )


def _choices(texts: Texts, caller: Caller, service: Service, view: View) -> Choices:
    """Return the menu of who has a seat; for others there is none."""
    if view.situation != "seated":
        raise MarketRefusal("state", "this is possible for who is seated only.")

    def lines() -> list[market.MenuLine]:
        with reading(service.desk.ledger) as connection:
            return market.menu_for(connection, caller.id, service.clock())

    found = view.standing
    return choices_of(str(found.curve_digest), texts, (found.minor_units, found.currency), lines)


def _cost(form: Form) -> float | None:
    """Return the cost of who said what their privacy is worth to them; None for what is no amount."""
    amount = number_in(form.text("amount"))
    return None if amount is None or not 0.0 <= amount <= 1e12 else cost_of(amount)
