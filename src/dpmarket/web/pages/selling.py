"""A seller's pages: where they stand, consent, what happened, leaving, and the receipt."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from dpmarket import market
from dpmarket.certificates import verify
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import reading
from dpmarket.web.api import models, sellers
from dpmarket.web.auth import TheService
from dpmarket.web.pages.asking import Shown, numbers_of, purpose_of, wanted_of
from dpmarket.web.pages.forms import Sent
from dpmarket.web.pages.looking import Arrived, SignedSeller, View, look
from dpmarket.web.pages.meaning import chance_of, epsilon_left, epsilon_shown, right_guesses
from dpmarket.web.pages.recording import fields_of
from dpmarket.web.pages.rendering import page, see, texts_of
from dpmarket.web.pages.situations import STEPS, step_of

router = APIRouter(prefix="/s", include_in_schema=False)
HOME = "/s"
_AT_WORK = ("buyer", "paymaster", "operator", "auditor")


@router.get("")
def standing(request: Request, arrived: Arrived) -> Response:
    """Tell a seller where they stand, and what they can do next."""
    _, view = arrived
    return page(request, "standing", **frame(view), offer=offer_of(request, view))


@router.get("/consent")
def consent_page(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Show what taking part means."""
    view = look(service, caller)
    with reading(service.desk.ledger) as connection:
        pages = market.consent_pages(connection, view.standing.campaign)
        shown = pages.get(texts_of(request).language) or market.consent_page(
            connection, view.standing.campaign
        )
        roles = market.roles_of(connection, view.standing.campaign)
        limits = market.show_account(connection, caller, caller.id).limits
    ceiling = view.standing.ceiling
    return page(
        request,
        "consent",
        **frame(view),
        consent=shown,
        paragraphs=[part.strip() for part in shown.text.split("\n\n") if part.strip()],
        roles=[(role, name) for wanted in _AT_WORK for role, name in roles if role == wanted],
        fields=fields_of(view.market),
        wanted=wanted_of(view.market),
        ceiling=epsilon_shown(ceiling),
        ceiling_guesses=right_guesses(ceiling),
        limit=limits.cap,
        open=view.situation == "invited",
    )


@router.post("/consent")
def consent(form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Take part."""
    digest = form.text("digest")
    if len(digest) != 64 or not digest.isalnum():
        raise MarketRefusal("invalid", "expected the digest of the page.")
    sellers.consent(models.Consent.model_construct(digest=digest), caller, service, form.key)
    return see(HOME)


@router.get("/history")
def history(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Tell what happened to a seller's data, in order."""
    view = look(service, caller)
    with reading(service.desk.ledger) as connection:
        events = market.show_history(connection, caller, caller.id)
        limits = market.show_account(connection, caller, caller.id).limits
    texts = texts_of(request)
    told = [
        (one.at, _event(one.kind) if texts.has(f"event.{_event(one.kind)}") else "other") for one in events
    ]
    return page(
        request,
        "history",
        texts=texts,
        **frame(view),
        events=told,
        cap=limits.cap,
        spent=epsilon_shown(limits.spent),
        held=epsilon_shown(limits.held),
    )


@router.get("/statement")
def statement(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Tell a seller what campaigns hold and have used of their limit."""
    view = look(service, caller)
    with reading(service.desk.ledger) as connection:
        account = market.show_account(connection, caller, caller.id)
    limits = account.limits
    return page(
        request,
        "statement",
        **frame(view),
        line=account.line,
        others_held=account.others_held,
        others_spent=account.others_spent,
        shown=epsilon_shown,
        cap=limits.cap,
        spent=epsilon_shown(limits.spent),
        held=epsilon_shown(limits.held),
        left=epsilon_left(limits.left),
    )


@router.get("/withdraw")
def leaving(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Say what withdrawing would do now, and ask."""
    view = look(service, caller)
    return page(request, "withdraw", **frame(view), effect=effect_of(view))


@router.post("/withdraw")
def withdraw(form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Leave."""
    sellers.withdraw(caller, service, form.key)
    return see(HOME)


@router.get("/payee")
def paying(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Ask whom to pay."""
    return page(request, "payee", **frame(look(service, caller)), problem=None)


@router.post("/payee")
def payee(request: Request, form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Enter whom to pay."""
    text = form.text("payee")
    if not 0 < len(text.encode()) <= 200 or not text.isprintable():
        return page(request, "payee", status=422, **frame(look(service, caller)), problem="payee.problem")
    sellers.payee(models.Payee(payee=text), caller, service, form.key)
    return see(HOME)


@router.get("/receipt")
def receipt(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Show a seller's receipt, with what the verifier says about it."""
    view = look(service, caller)
    checks = kept = certificate = None
    numbers: list[Shown] = []
    with reading(service.desk.ledger) as connection:
        try:
            kept = market.show_receipt(connection, caller, caller.id)
            certificate = market.show_certificate(connection, caller, view.standing.campaign)
        except MarketRefusal:
            kept = None
        numbers = numbers_of(connection, caller, view.standing.campaign)
    if kept is not None and certificate is not None:
        checks = verify(certificate, receipt=kept)
    offer = offer_of(request, view)
    return page(request, "receipt", **frame(view), offer=offer, checks=checks, numbers=numbers)


@router.get("/receipt.json")
def receipt_file(caller: SignedSeller, service: TheService) -> Response:
    """Give a seller's receipt as a file."""
    return _file(sellers.receipt(caller, service), "receipt.json")


@router.get("/certificate.json")
def certificate_file(caller: SignedSeller, service: TheService) -> Response:
    """Give the certificate as a file."""
    view = look(service, caller)
    with reading(service.desk.ledger) as connection:
        found = market.show_certificate(connection, caller, view.standing.campaign)
    return _file(Response(found, media_type="application/json"), "certificate.json")


@router.get("/model.json")
def model_file(caller: SignedSeller, service: TheService) -> Response:
    """Give the released model as a file: what was learned is theirs to see, too."""
    view = look(service, caller)
    with reading(service.desk.ledger) as connection:
        found = market.show_model(connection, caller, view.standing.campaign)
    return _file(Response(found, media_type="application/json"), "model.json")


def frame(view: View) -> dict[str, Any]:
    """Return what every page of a seller shows around its own content."""
    return {
        "view": view,
        "title": view.title,
        "steps": STEPS,
        "step": step_of(view.situation),
        "home": HOME,
        "purpose": purpose_of(view.market),
        "chance": chance_of(view.market.objective.delta),
    }


def offer_of(request: Request, view: View) -> dict[str, Any] | None:
    """Return a seller's offer as pages write it, or None."""
    if view.quote is None:
        return None
    texts = texts_of(request)
    quote = view.quote
    return {
        "payment": texts.money(quote.payment, quote.minor_units, quote.currency),
        "epsilon": texts.number(epsilon_shown(quote.epsilon)),
        "guesses": right_guesses(quote.epsilon),
        "until": quote.expires_at,
    }


def effect_of(view: View) -> str:
    """Return by which text the effect of withdrawing is told."""
    if view.standing.campaign_state == "training" and view.standing.state == "delivered":
        return "training"
    if not view.can_leave:
        return "after"
    return {"delivered": "delivered", "accepted": "quoted", "quoted": "quoted"}.get(
        view.standing.state, "before"
    )


def _event(kind: str) -> str:
    return kind.replace(" ", "_")


def _file(answer: Response, name: str) -> Response:
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
