"""What sellers do: read, agree, see the menu, choose, accept, send a record, leave, and look at it all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response

from dpmarket import market
from dpmarket.ledger import Connection, reading
from dpmarket.market import Caller
from dpmarket.web.api import models
from dpmarket.web.api.models import MaybeKey, NeededKey, plain
from dpmarket.web.auth import Seller, TheService
from dpmarket.web.problems import documented
from dpmarket.web.service import QUOTING

router = APIRouter(prefix="/api/v1/me", tags=["sellers"], responses=documented(401, 404, 422, 503))
_ACTING = documented(400, 403, 409, 410, 413, 415)
_JSON: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}}
}


@router.get("")
def show(caller: Seller, service: TheService) -> models.Me:
    """Tell where you stand, and what is left of your limit."""
    with reading(service.desk.ledger) as connection:
        found = market.show_standing(connection, caller, caller.id)
        limits = market.show_account(connection, caller, caller.id).limits
        title = market.campaign_of(connection, found.campaign).title
    names = ("state", "campaign", "campaign_state", "mechanism", "currency", "minor_units")
    times = ("opens_at", "closes_at", "deliver_until")
    return models.Me(
        **{name: getattr(found, name) for name in (*names, *times)},
        title=title,
        seat_until=found.lease_until,
        limit=limits.cap,
        spent=limits.spent,
        held=limits.held,
    )


@router.get("/consent", responses=documented(409))
def consent_page(
    caller: Seller, service: TheService, language: models.Language = "en"
) -> models.ConsentAnswer:
    """Show what taking part means, what is promised and what is not. 404 for a language without a text."""
    with reading(service.desk.ledger) as connection:
        found = market.show_standing(connection, caller, caller.id)
        return models.ConsentAnswer(**vars(market.consent_page(connection, found.campaign, language)))


@router.post("/consent", responses=_ACTING)
def consent(body: models.Consent, caller: Seller, service: TheService, key: MaybeKey = None) -> models.State:
    """Take part. You wait if your limit has no room for what the campaign could ask."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        found = market.show_standing(connection, caller, caller.id)
        pages = {} if found.campaign_state == "draft" else market.consent_pages(connection, found.campaign)
        read = next((name for name, shown in pages.items() if shown.digest == body.digest), "en")
        return {"state": market.give_consent(connection, caller.id, body.digest, now, read)}

    return models.State(**service.act(caller, key, {"consent": plain(body)}, act))


@router.post("/menu", responses=_ACTING | documented(429))
def take_seat(caller: Seller, service: TheService, key: MaybeKey = None) -> models.Menu:
    """Take a seat, for which the largest payment is set aside, and see the menu; or get a place in line."""
    service.limit("quote", caller.id, QUOTING)

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        seat = market.take_seat(connection, caller.id, now, service.settings.terms)
        lines = _menu(connection, caller, now) if seat.state == "seated" else []
        return {**vars(seat), "menu": lines}

    return models.Menu(**service.act(caller, key, {"menu": None}, act))


@router.get("/menu", responses=documented(409, 410))
def menu(caller: Seller, service: TheService) -> models.Menu:
    """See the menu again; only with a seat, so that nobody chooses in vain."""
    with reading(service.desk.ledger) as connection:
        lines = _menu(connection, caller, service.clock())
        found = market.show_standing(connection, caller, caller.id)
    return models.Menu(
        state="seated",
        lease_until=found.lease_until,
        place=None,
        menu=[models.Line(**line) for line in lines],
    )


@router.post("/quote", responses=_ACTING | documented(429))
def choose(body: models.Cost, caller: Seller, service: TheService, key: NeededKey) -> models.QuoteAnswer:
    """Choose: name your cost, or that of a line of the menu. It is used for the offer and kept nowhere."""
    service.limit("quote", caller.id, QUOTING)

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        return vars(market.choose(connection, caller.id, body.cost, now, service.settings.terms))

    return models.QuoteAnswer(**service.act(caller, key, {"quote": plain(body)}, act))


@router.get("/quote")
def quote(caller: Seller, service: TheService) -> models.QuoteAnswer:
    """See your offer again."""
    with reading(service.desk.ledger) as connection:
        return models.QuoteAnswer(**vars(market.show_quote(connection, caller, caller.id)))


@router.post("/report", responses=_ACTING | documented(429))
def report(body: models.Cost, caller: Seller, service: TheService, key: NeededKey) -> models.State:
    """Report your cost to an offline campaign, once. It is sealed, and opened when all offers are made."""
    service.limit("quote", caller.id, QUOTING)

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        market.report_cost(connection, caller.id, body.cost, now)
        return {"state": "reported"}

    return models.State(**service.act(caller, key, {"report": plain(body)}, act))


@router.post("/acceptance", responses=_ACTING)
def accept(caller: Seller, service: TheService, key: NeededKey) -> models.State:
    """Accept your offer. Its money is set aside already."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        market.accept(connection, caller.id, now)
        return {"state": "accepted"}

    return models.State(**service.act(caller, key, {"acceptance": None}, act))


@router.post("/decline", responses=_ACTING)
def decline(caller: Seller, service: TheService, key: NeededKey) -> models.State:
    """Decline your offer, or give up your seat. The money set aside is free for others."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        market.decline(connection, caller.id, now, service.settings.terms)
        return {"state": "declined"}

    return models.State(**service.act(caller, key, {"decline": None}, act))


@router.post("/record", responses=_ACTING)
def deliver(body: models.Record, caller: Seller, service: TheService, key: MaybeKey = None) -> models.State:
    """Send your record. It is checked, then sealed to a key that is destroyed before noise is drawn."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        market.deliver(connection, caller.id, body.values, now)
        return {"state": "delivered"}

    return models.State(**service.act(caller, key, {"record": plain(body)}, act))


@router.post("/payee", responses=_ACTING)
def payee(body: models.Payee, caller: Seller, service: TheService, key: NeededKey) -> models.State:
    """Say whom to pay. It is sealed to the operator's key, and can be said again."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        market.set_payee(connection, caller.id, body.payee, market.operator_public_key(connection), now)
        return {"state": market.show_standing(connection, caller, caller.id).state}

    return models.State(**service.act(caller, key, {"payee": plain(body)}, act))


@router.post("/withdrawal", responses=_ACTING)
def withdraw(caller: Seller, service: TheService, key: NeededKey) -> models.State:
    """Leave. Before the training everything of yours is void; afterwards you are invited no more."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        return {"state": market.withdraw_participation(connection, caller.id, now, service.settings.terms)}

    return models.State(**service.act(caller, key, {"withdrawal": None}, act))


@router.get("/events")
def events(caller: Seller, service: TheService) -> models.Events:
    """Tell what happened to your data, in order."""
    with reading(service.desk.ledger) as connection:
        found = market.show_history(connection, caller, caller.id)
    return models.Events(events=[models.EventAnswer(**vars(one)) for one in found])


@router.get("/statement")
def statement(caller: Seller, service: TheService) -> models.AccountAnswer:
    """Tell what this campaign holds and has spent of your limit, and all others together, in tenths of it."""
    with reading(service.desk.ledger) as connection:
        found = market.show_account(connection, caller, caller.id)
    limits = found.limits
    return models.AccountAnswer(
        limit=limits.cap,
        spent=limits.spent,
        held=limits.held,
        left=limits.left,
        campaign=models.AccountLineAnswer(**vars(found.line)),
        others_held=found.others_held,
        others_spent=found.others_spent,
    )


@router.get("/receipt", responses=_JSON)
def receipt(caller: Seller, service: TheService) -> Response:
    """Give your receipt; with the certificate, 'dpmarket verify' checks it."""
    with reading(service.desk.ledger) as connection:
        found = market.show_receipt(connection, caller, caller.id)
    return Response(found, media_type="application/json")


def _menu(connection: Connection, caller: Caller, now: datetime) -> list[dict[str, Any]]:
    return [vars(line) for line in market.menu_for(connection, caller.id, now)]
