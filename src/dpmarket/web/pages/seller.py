"""A seller's pages, and the forms that run a seller's acts: one choice is one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from dpmarket.campaign import schema, views
from dpmarket.campaign.acts import ACTS, Caller
from dpmarket.campaign.rules.encoding import encode_record
from dpmarket.campaign.rules.rules_file import Rules, rules_from
from dpmarket.certificates import verify
from dpmarket.errors import MarketRefusal
from dpmarket.web.auth import SignedSeller, TheService
from dpmarket.web.pages.forms import Form, Sent, number_in
from dpmarket.web.pages.meaning import (
    REFERENCE,
    STRANGERS,
    chance_of,
    cost_of,
    epsilon_left,
    epsilon_shown,
    right_guesses,
)
from dpmarket.web.pages.menu import Choices, choices_of
from dpmarket.web.pages.record_form import (
    OTHER,
    Filled,
    fields_of_form,
    filled,
    place_of,
    rows_of,
    rows_shown,
)
from dpmarket.web.pages.rendering import page, see, texts_of
from dpmarket.web.pages.situations import STEPS, situation_of, step_of
from dpmarket.web.pages.statistics import numbers_of, purpose_of, wanted_of
from dpmarket.web.pages.texts import Texts
from dpmarket.web.service import Service

router = APIRouter(prefix="/s", include_in_schema=False)
HOME = "/s"
_EMPTY = Filled([], {}, {})


@dataclass(frozen=True)
class View:
    """What a seller's pages are made of: the participation, its situation, and the campaign's rules."""

    me: views.MyParticipation
    situation: str
    rules: Rules

    @property
    def can_leave(self) -> bool:
        """Whether withdrawing undoes anything."""
        return self.me.state in schema.ACTIVE and self.me.campaign_state != "training"


def look(service: Service, caller: Caller) -> View:
    """Return what there is for a seller, in one reading."""
    with service.market.look() as c:
        me = views.show_participation(c, caller)
        rules = rules_from(views.show_rules(c, caller, me.campaign))
    return View(me, situation_of(me, service.now), rules)


# --- pages -----------------------------------------------------------------------------------------


@router.get("")
def home(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Say where a seller stands, and what comes next."""
    view = look(service, caller)
    return page(request, "standing", **frame(view), offer=offer_of(request, view))


@router.get("/consent")
def consent(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Show what taking part means."""
    view = look(service, caller)
    with service.market.look() as c:
        shown = views.show_consent(c, caller, texts_of(request).language)
        roles = views.list_roles(c, caller)
        limits = views.show_limits(c, caller)
        found = views.show_campaign(c, caller, view.me.campaign)
    ceiling = view.me.ceiling or 0.0
    return page(
        request,
        "consent",
        **frame(view),
        consent=shown,
        paragraphs=[part.strip() for part in shown.text.split("\n\n") if part.strip()],
        roles=roles,
        fields=fields_of_form(view.rules),
        wanted=wanted_of(view.rules),
        ceiling=epsilon_shown(ceiling),
        ceiling_guesses=right_guesses(ceiling),
        limit=limits.limit,
        minimum=found.minimum,
        open=view.situation == "invited",
    )


@router.get("/history")
def history(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Show what happened to a seller's data, in order."""
    view, texts = look(service, caller), texts_of(request)
    with service.market.look() as c:
        events = [(one.at, one.kind.replace(" ", "_")) for one in views.show_history(c, caller)]
        limits = views.show_limits(c, caller)
    known = [(at, kind if texts.has(f"event.{kind}") else "other") for at, kind in events]
    return page(
        request, "history", texts=texts, **frame(view), events=known, limits=limits, shown=epsilon_shown
    )


@router.get("/statement")
def statement(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Show what campaigns hold and have used of a seller's limit."""
    view = look(service, caller)
    with service.market.look() as c:
        limits = views.show_limits(c, caller)
    left = None if limits.left is None else epsilon_left(limits.left)
    return page(request, "statement", **frame(view), limits=limits, shown=epsilon_shown, left=left)


@router.get("/withdraw")
def leaving(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Say what withdrawing would do now, and ask."""
    view = look(service, caller)
    return page(request, "withdraw", **frame(view), effect=effect_of(view))


@router.get("/payee")
def payee(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Ask whom to pay."""
    return page(request, "payee", **frame(look(service, caller)), problem=None)


@router.get("/choose")
def choose(
    request: Request,
    caller: SignedSeller,
    service: TheService,
    line: Annotated[int, Query(ge=1, le=10_000)] = 1,
) -> Response:
    """Show the slider at one line of the menu; or, where all are quoted at once, ask for a cost."""
    return _choose(request, caller, look(service, caller), service, line=line)


@router.get("/record")
def record(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Ask for the record."""
    view = look(service, caller)
    if view.situation != "accepted":
        return see(HOME)
    return page(request, "record", **frame(view), **_record_form(view, _EMPTY))


@router.get("/receipt")
def receipt(request: Request, caller: SignedSeller, service: TheService) -> Response:
    """Show a seller's receipt, with what the verifier says about it."""
    view = look(service, caller)
    checks = None
    kept, certificate = (document(service, caller, view, kind) for kind in ("receipt", "certificate"))
    if kept is not None and certificate is not None:
        checks = verify(certificate, receipt=kept)
    numbers = numbers_of(document(service, caller, view, "released"))
    return page(
        request, "receipt", **frame(view), offer=offer_of(request, view), checks=checks, numbers=numbers
    )


@router.get("/{kind}.json")
def download(kind: str, caller: SignedSeller, service: TheService) -> Response:
    """Give the receipt, the certificate or what was released as a file: it is the seller's to see as well."""
    content = None
    if kind in ("receipt", "certificate", "released"):
        content = document(service, caller, look(service, caller), kind)
    if content is None:
        raise MarketRefusal("unknown", "There is nothing here for this caller.")
    headers = {"Content-Disposition": f'attachment; filename="{kind}.json"'}
    return Response(content, media_type="application/json", headers=headers)


def document(service: Service, caller: Caller, view: View, kind: str) -> bytes | None:
    """Return a document of a seller's campaign; None while there is none."""
    with service.market.look() as c:
        try:
            return views.show_document(c, caller, view.me.campaign, kind)
        except MarketRefusal:
            return None


# --- acts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sending:
    """A form that a seller sent, with what is needed to read it."""

    request: Request
    form: Form
    caller: Caller
    service: Service
    view: View


def consent_form(sent: Sending) -> dict[str, Any] | Response:
    """Read which page a seller agrees to."""
    return {"page": sent.form.text("page"), "language": sent.form.text("language")}


def cost_form(sent: Sending) -> dict[str, Any] | Response:
    """Read a cost: that of a line of the menu, or what an amount for a known loss of privacy comes to."""
    form, view = sent.form, sent.view
    if form.text("how") == "line":
        if view.me.payment is not None:
            return see(HOME)  # pressed twice: the offer is there
        number = form.text("line")
        if not number.isdecimal() or len(number) > 5:
            raise MarketRefusal("invalid", "Expected a line of the menu.")
        return {
            "cost": _choices(texts_of(sent.request), sent.caller, sent.service, view).at(int(number)).cost
        }
    amount = number_in(form.text("amount"))
    if amount is None or not 0.0 <= amount <= 1e12:
        return _choose(sent.request, sent.caller, view, sent.service, problem="choose.worth.problem")
    return {"cost": cost_of(amount)}


def record_form(sent: Sending) -> dict[str, Any] | Response:
    """Read a record; with problems, or for more rows, the form is shown again."""
    view, form = sent.view, sent.form
    given = filled(view.rules, form)
    if form.text("act") == "more" and view.situation == "accepted":
        kept = Filled(given.rows, {}, given.typed)
        used = max(len(given.rows), int(form.text("rows")) if form.text("rows").isdecimal() else 0)
        return page(sent.request, "record", **frame(view), **_record_form(view, kept, used))
    if given.problems:
        return page(sent.request, "record", status=422, **frame(view), **_record_form(view, given))
    return {"record": encode_record(view.rules, given.rows)}


def payee_form(sent: Sending) -> dict[str, Any] | Response:
    """Read whom to pay."""
    text = sent.form.text("payee")
    if not 0 < len(text.encode()) <= 200 or not text.isprintable():
        return page(sent.request, "payee", status=422, **frame(sent.view), problem="payee.problem")
    return {"payee": text}


FORMS: dict[str, Callable[[Sending], dict[str, Any] | Response]] = {
    "consent": consent_form,
    "choose": cost_form,
    "report": cost_form,
    "deliver": record_form,
    "set_payee": payee_form,
    **dict.fromkeys(("reserve", "accept", "decline", "undo", "withdraw", "end_invitations"), lambda sent: {}),
}
"""A seller's acts that pages run, and how each form is read."""
NEXT = {"reserve": "/s/choose", "accept": "/s/record", "deliver": "/s/payee"}


@router.post("/{act}")
def run(act: str, request: Request, form: Sent, caller: SignedSeller, service: TheService) -> Response:
    """Run an act of a seller, then lead to the page that comes next."""
    if act not in FORMS:
        raise MarketRefusal("unknown", "There is nothing here for this caller.")
    view = look(service, caller)
    arguments = FORMS[act](Sending(request, form, caller, service, view))
    if isinstance(arguments, Response):
        return arguments
    try:
        service.run(ACTS[act], caller, form.key, **arguments)
    except MarketRefusal as refusal:
        if act == "set_payee" and refusal.kind == "invalid":
            return page(request, "payee", status=422, **frame(view), problem="payee.iban")
        raise
    return see(NEXT.get(act, HOME))


# --- parts -----------------------------------------------------------------------------------------


def frame(view: View) -> dict[str, Any]:
    """Return what every page of a seller shows around its own content."""
    return {
        "view": view,
        "me": view.me,
        "title": view.me.name,
        "steps": STEPS,
        "step": step_of(view.situation),
        "home": HOME,
        "purpose": purpose_of(view.rules),
        "chance": chance_of(view.rules.objective.delta),
    }


def offer_of(request: Request, view: View) -> dict[str, Any] | None:
    """Return a seller's offer as pages write it, or None."""
    me, texts = view.me, texts_of(request)
    if me.payment is None or me.epsilon is None:
        return None
    return {
        "payment": texts.money(me.payment, me.minor_units, me.currency),
        "epsilon": texts.number(epsilon_shown(me.epsilon)),
        "guesses": right_guesses(me.epsilon),
        "until": me.until or me.deliver_until,
    }


def effect_of(view: View) -> str:
    """Return by which text the effect of withdrawing is told."""
    if view.me.campaign_state == "training" and view.me.state == "delivered":
        return "training"
    if not view.can_leave:
        return "after"
    effects = {"delivered": "delivered", "accepted": "quoted", "quoted": "quoted"}
    return effects.get(view.me.state, "before")


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
    if view.situation == "consented_offline":
        return page(request, "report", status=status, **frame(view), **shown)
    if view.situation != "reserved":
        return see(HOME)
    texts = texts_of(request)
    choices = _choices(texts, caller, service, view)
    chosen = {"choices": choices, "chosen": choices.at(line)}
    return page(request, "choose", status=status, texts=texts, **frame(view), **shown, **chosen)


def _choices(texts: Texts, caller: Caller, service: Service, view: View) -> Choices:
    """Return the menu of a seller with a reservation."""
    with service.market.look() as c:
        lines = views.show_menu(c, caller, service.now)
    return choices_of(tuple(lines), texts, (view.me.minor_units, view.me.currency))


def _record_form(view: View, given: Filled, used: int = 0) -> dict[str, Any]:
    fields, most = fields_of_form(view.rules), rows_of(view.rules)
    last = max((row for row in range(most) if place_of(row, fields[-1].id) in given.typed), default=0)
    return {
        "fields": fields,
        "rows": rows_shown(view.rules, max(used, last + 1 if last else 0)),
        "most": most,
        "allowed": view.rules.sellers.rows_per_person,
        "place_of": place_of,
        "other": OTHER,
        "filled": given,
    }
