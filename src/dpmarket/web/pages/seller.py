"""A seller's pages, and the forms that run a seller's acts: one choice is one transaction."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from dpmarket.campaign import schema, views
from dpmarket.campaign.acts import Caller
from dpmarket.campaign.rules.meaning import REFERENCE, chance_of, cost_of, epsilon_shown, guess_percent
from dpmarket.campaign.rules.rules_file import Rules, rules_from
from dpmarket.campaign.transaction import nothing
from dpmarket.certificates import verify
from dpmarket.errors import MarketRefusal
from dpmarket.web.api import run_form
from dpmarket.web.pages.forms import Form, Sent, number_in
from dpmarket.web.pages.purchase import numbers_of, purpose_of, wanted_of
from dpmarket.web.pages.record_form import Filled, fields_of_form, filled, form_of
from dpmarket.web.pages.rendering import attached, page, see, texts_of
from dpmarket.web.pages.texts import Texts
from dpmarket.web.service import Service, TheService, session

router = APIRouter(prefix="/s", include_in_schema=False)
HOME = "/s"


STEPS = ("consent", "choose", "record", "payment")
# How many of the four steps are behind somebody.
STEP_OF = {
    "early": 0, "screening": 0, "invited": 0, "consented": 1, "consented_offline": 1, "full": 1,
    "own_limit": 1, "reserved": 1, "reservation_over": 1, "reported": 1, "quoted": 1, "unpaid": 1,
    "accepted": 2, "delivered": 3, "closed": 3, "training": 3, "released": 3, "on_its_way": 3, "failed": 3,
    "paid": 4,
}  # fmt: skip
SITUATIONS = (
    *STEP_OF, "too_late", "declined", "priced_out", "expired", "lapsed", "withdrawn", "screened_out",
    "group_full", "cancelled",
)  # fmt: skip
"""All of them, the last ones without a way on; each has a text in every catalogue."""
_COMING = ("invited", "consented", "waiting")


def situation_of(me: views.MyParticipation, at: str) -> str:
    """Return the situation of a seller at a time."""
    campaign = me.campaign_state
    if me.state in ("withdrawn", "declined", "priced_out"):
        return me.state
    if me.state == "screened_out":
        return "group_full" if me.reason == "full" else "screened_out"
    if campaign == "cancelled":
        return "cancelled"
    if me.state == "expired":
        return "too_late" if me.payment is None else "expired"
    if me.state in _COMING:
        return _coming(me, at)
    if me.state == "reserved":
        return "reserved" if str(me.until) > at else "reservation_over"
    if me.state == "quoted":
        return _quoted(me, at)
    if me.state == "accepted":
        late = me.deliver_until is not None and at >= me.deliver_until
        return "lapsed" if late and campaign != "unpaid" else "accepted"
    if me.state == "delivered":
        return campaign if campaign in ("closed", "training") else "delivered"
    if me.state == "spent":
        return _spent(me)
    return me.state


def _coming(me: views.MyParticipation, at: str) -> str:
    if me.campaign_state == "draft" or at < str(me.opens_at):
        return "early"
    if me.campaign_state != "open" or at >= str(me.closes_at):
        return "too_late"
    if me.screening:
        return "screening"
    if me.state == "waiting":
        return "own_limit" if me.reason == "cap" else "full"
    return "consented_offline" if me.state == "consented" and me.mechanism == "offline" else me.state


def _quoted(me: views.MyParticipation, at: str) -> str:
    if me.campaign_state == "unpaid":
        return "unpaid"
    return "quoted" if me.campaign_state in ("open", "offered") and str(me.until) > at else "expired"


def _spent(me: views.MyParticipation) -> str:
    if me.paid_at is not None:
        return "paid"
    if me.sent:
        return "on_its_way"
    return "failed" if me.campaign_state == "failed" else "released"


POSITIONS = 11  # paid choices of the slider; one more shares nothing


@dataclass(frozen=True)
class Choice:
    """One position of the slider."""

    number: int
    cost: float
    payment: str
    epsilon: str
    percent: int


@functools.lru_cache(maxsize=64)
def choices_of(
    lines: tuple[views.MenuLine, ...], texts: Texts, money: tuple[int, str], delta: float | None
) -> tuple[Choice, ...]:
    """Return a menu's choices, the most private first; lines without a payment are left out."""
    minor_units, currency = money
    paid = sorted((line for line in lines if line.payment > 0), key=lambda line: line.epsilon)
    nothing = views.MenuLine(float("inf"), 0.0, 0)
    return tuple(
        Choice(
            number,
            line.cost,
            texts.money(line.payment, minor_units, currency),
            texts.number(epsilon_shown(line.epsilon)),
            guess_percent(line.epsilon, delta),
        )
        for number, line in enumerate([nothing, *steps_of(paid)])
    )


def steps_of(paid: Sequence[views.MenuLine]) -> list[views.MenuLine]:
    """Return few lines of a menu, in its order, whose payments are spread evenly, both ends included.

    Fewer lines to choose from keep a truthful choice the best one: each is a quote of the same schedule.

    >>> lines = [views.MenuLine(100.0 - k, k, k * k) for k in range(1, 50)]
    >>> [line.payment for line in steps_of(lines)][:4], len(steps_of(lines))
    ([1, 256, 484, 729], 11)
    """
    if len(paid) <= POSITIONS:
        return list(paid)
    least, most = paid[0].payment, paid[-1].payment
    wanted = [least + (most - least) * step / (POSITIONS - 1) for step in range(POSITIONS)]
    nearest = [min(range(len(paid)), key=lambda k: abs(paid[k].payment - one)) for one in wanted]
    return [paid[k] for k in sorted(set(nearest))]


@dataclass(frozen=True)
class View:
    """What a seller's pages are made of: who looks, the participation, its situation, the rules."""

    request: Request
    caller: Caller
    service: Service
    me: views.MyParticipation
    situation: str
    rules: Rules

    @property
    def texts(self) -> Texts:
        """Texts in the reader's language."""
        return texts_of(self.request)

    @property
    def can_leave(self) -> bool:
        """Whether withdrawing undoes anything."""
        return self.me.state in schema.ACTIVE and self.me.campaign_state != "training"

    def page(self, template: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
        """Return a page, with what every page of a seller shows around its own content."""
        frame: dict[str, Any] = {
            **{"view": self, "me": self.me, "title": self.me.name, "home": HOME},
            **{"steps": STEPS, "step": STEP_OF.get(self.situation), "purpose": purpose_of(self.rules)},
            "chance": chance_of(self.rules.objective.delta),
        }
        return page(self.request, template, status=status, **frame, **values)

    def document(self, kind: str) -> bytes | None:
        """Return a document of the seller's campaign; None while there is none."""
        with self.service.market.look() as c:
            try:
                return views.show_document(c, self.caller, self.me.campaign, kind)
            except MarketRefusal:
                return None


def look(request: Request, service: TheService) -> View:
    """Return what there is for the seller who is signed in; for members there is nothing here."""
    caller = session(request, service)
    with service.market.look() as c:
        me = views.show_participation(c, caller)
        rules = rules_from(views.show_rules(c, caller, me.campaign))
    return View(request, caller, service, me, situation_of(me, service.now), rules)


Viewed = Annotated[View, Depends(look)]


@router.get("")
def home(view: Viewed) -> Response:
    """Say where a seller stands, and what comes next."""
    if view.me.panel and view.situation in ("screened_out", "group_full"):
        return see("/s/done")
    return view.page("standing", {"offer": offer_of(view)})


@router.get("/consent")
def consent(view: Viewed) -> Response:
    """Show what taking part means."""
    if view.situation == "screening":
        return see("/s/screen")
    language, caller = view.texts.language, view.caller
    with view.service.market.look() as c:
        shown = views.show_consent(c, caller, language)
        roles = views.list_roles(c, caller)
        limits = views.show_limits(c, caller)
        found = views.show_campaign(c, caller, view.me.campaign)
    values = {
        "consent": shown,
        "paragraphs": _paragraphs(shown.text),
        "notice": _paragraphs(shown.notice),
        "roles": roles,
        "fields": fields_of_form(view.rules, language),
        "wanted": wanted_of(view.rules),
        "limit": limits.limit,
        "contact": view.service.settings.contact,
        "campaign": found,
        "open": view.situation == "invited",
    }
    return view.page("consent", values)


@router.get("/choose")
def choose(view: Viewed, line: Annotated[int, Query(ge=0, le=10_000)] = 1) -> Response:
    """Show the slider at one line of the menu; or, where all are quoted at once, ask for a cost."""
    return _choose(view, line=line)


@router.get("/record")
def record(view: Viewed) -> Response:
    """Ask for the record."""
    if view.situation != "accepted":
        return see(HOME)
    return view.page("record", form_of(view.rules, view.texts.language))


@router.get("/receipt")
def receipt(view: Viewed) -> Response:
    """Show a seller's receipt, with what the verifier says about it."""
    kept, certificate = view.document("receipt"), view.document("certificate")
    checks = None
    if kept is not None and certificate is not None:
        checks = verify(certificate, receipt=kept)
    numbers = numbers_of(view.rules, view.document("released"))
    return view.page("receipt", {"offer": offer_of(view), "checks": checks, "numbers": numbers})


@router.get("/{kind}.json")
def download(kind: str, view: Viewed) -> Response:
    """Give the receipt, the certificate or what was released as a file: it is the seller's to see as well."""
    content = view.document(kind) if kind in ("receipt", "certificate", "released") else None
    if content is None:
        raise nothing()
    return attached(f"{kind}.json", content)


def _history(view: View) -> dict[str, Any]:
    with view.service.market.look() as c:
        events = [(one.at, one.kind.replace(" ", "_")) for one in views.show_history(c, view.caller)]
        limits = views.show_limits(c, view.caller)
    known = [(at, kind if view.texts.has(f"event.{kind}") else "other") for at, kind in events]
    return {"events": known, "limits": limits}


PAGES: dict[str, Callable[[View], dict[str, Any]]] = {
    "history": _history,
    "statement": lambda view: {"limits": view.service.look(views.show_limits, view.caller)},
    "withdraw": lambda view: {"effect": effect_of(view)},
    "payee": lambda view: {"problem": None},
}
"""Pages that show and ask, whatever the situation: what happened to a seller's data, what campaigns hold and
have used of the limit, what withdrawing would do now, and whom to pay."""


@router.get("/{name}")
def show(name: str, view: Viewed) -> Response:
    """Show one of :data:`PAGES`."""
    if name not in PAGES:
        raise nothing()
    return view.page(name, PAGES[name](view))


def cost_form(form: Form, view: View) -> dict[str, Any] | Response:
    """Read a cost: that of a line of the menu, or what an amount for a known loss of privacy comes to.

    An amount is shown back before it is final: a report at which nothing is bought ends the participation.
    """
    if form.text("how") == "line":
        if view.situation != "reserved":
            return see(HOME)  # pressed twice: the offer is there
        number = form.text("line")
        if not number.isdecimal() or len(number) > 5:
            raise MarketRefusal("invalid", "Expected a line of the menu.")
        return {"cost": _nearest(_choices(view), int(number)).cost}
    amount = number_in(form.text("amount"))
    if amount is None or not 0.0 <= amount <= 1e12:
        return _choose(view, problem="choose.worth.problem")
    if form.text("confirmed") != form.text("amount"):
        act = "report" if view.situation == "consented_offline" else "choose"
        shown = {"amount": form.text("amount"), "reference": REFERENCE, "act_name": act}
        return view.page("confirm_cost", shown)
    return {"cost": cost_of(amount, view.rules.costs.shape)}


def answers_form(form: Form, view: View) -> dict[str, Any] | Response:
    """Read a record; with problems, or for more rows, the form is shown again."""
    given = filled(view.rules, form)
    if form.text("act") == "more" and view.situation == "accepted":
        kept = Filled(given.rows, {}, given.typed, {})
        used = max(len(given.rows), int(form.text("rows")) if form.text("rows").isdecimal() else 0)
        return view.page("record", form_of(view.rules, view.texts.language, kept, used))
    if given.problems or form.text("confirmed") != given.beyond_text:
        return view.page("record", form_of(view.rules, view.texts.language, given), status=422)
    return {"values": given.rows}


def payee_form(form: Form, view: View) -> dict[str, Any] | Response:
    """Read whom to pay."""
    text = form.text("payee")
    if not 0 < len(text.encode()) <= 200 or not text.isprintable():
        return view.page("payee", {"problem": "payee.problem"}, status=422)
    return {"payee": text}


FORMS: dict[str, Callable[[Form, View], dict[str, Any] | Response]] = {
    "consent": lambda form, view: {"page": form.text("page"), "language": form.text("language")},
    "choose": cost_form,
    "report": cost_form,
    "deliver": answers_form,
    "set_payee": payee_form,
    **dict.fromkeys(
        ("reserve", "accept", "decline", "undo", "withdraw", "end_invitations"), lambda form, view: {}
    ),
}
"""A seller's acts that pages run, and how each form is read."""
NEXT = {"reserve": "/s/choose", "accept": "/s/record", "deliver": "/s/payee"}
ENDING = ("choose", "report", "decline", "deliver", "set_payee", "withdraw")  # after which a part may be done


@router.post("/{act}")
def run(act: str, form: Sent, view: Viewed) -> Response:
    """Run an act of a seller, then lead to the page that comes next."""
    if act == "choose" and (form.text("how"), form.text("line")) == ("line", "0"):
        act = "decline"  # the slider's first position shares nothing
    if act not in FORMS:
        raise nothing()
    arguments = FORMS[act](form, view)
    if isinstance(arguments, Response):
        return arguments
    try:
        run_form(view.service, view.caller, act, form.key, arguments)
    except MarketRefusal as refusal:
        if act == "set_payee" and refusal.kind == "invalid":
            return view.page("payee", {"problem": "payee.iban"}, status=422)
        raise
    if view.me.panel and act in ENDING and (act != "deliver" or view.me.payee):
        return see("/s/done")
    return see(NEXT.get(act, HOME))


def offer_of(view: View) -> dict[str, Any] | None:
    """Return a seller's offer as pages write it, or None."""
    me = view.me
    if me.payment is None or me.epsilon is None:
        return None
    return {
        "payment": view.texts.money(me.payment, me.minor_units, me.currency),
        "epsilon": view.texts.number(epsilon_shown(me.epsilon)),
        "percent": guess_percent(me.epsilon, view.rules.objective.delta),
        "until": me.until or me.deliver_until,
    }


def effect_of(view: View) -> str:
    """Return the text that states the effect of withdrawing."""
    if view.me.campaign_state == "training" and view.me.state == "delivered":
        return "training"
    if not view.can_leave:
        return "after"
    effects = {"delivered": "delivered", "accepted": "quoted", "quoted": "quoted"}
    return effects.get(view.me.state, "before")


def _paragraphs(text: str) -> list[str]:
    return [part.strip() for part in text.split("\n\n") if part.strip()]


def _choose(view: View, *, line: int = 1, problem: str | None = None) -> Response:
    status = 200 if problem is None else 422
    shown: dict[str, Any] = {"problem": problem, "reference": REFERENCE}
    if view.situation == "consented_offline":
        return view.page("report", shown, status=status)
    if view.situation != "reserved":
        return see(HOME)
    choices = _choices(view)
    return view.page(
        "choose", {**shown, "choices": choices, "chosen": _nearest(choices, line)}, status=status
    )


def _choices(view: View) -> tuple[Choice, ...]:
    """Return the menu of a seller with a reservation."""
    lines = view.service.look(views.show_menu, view.caller, view.service.now)
    money = (view.me.minor_units, view.me.currency)
    return choices_of(tuple(lines), view.texts, money, view.rules.objective.delta)


def _nearest(choices: tuple[Choice, ...], number: int) -> Choice:
    return choices[min(max(number, 0), len(choices) - 1)]
