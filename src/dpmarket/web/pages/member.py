"""Members' pages: campaigns, dashboards, and members' acts on a campaign.

The live balance of escrow is not shown: a change by one seller's payment would tell a cost.
"""

import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any, TypeVar

import polars as pl
from fastapi import APIRouter, Depends, Request, Response

from dpmarket.campaign import views
from dpmarket.campaign.access import roles_of
from dpmarket.campaign.acts import Caller
from dpmarket.campaign.campaigns import ENDED
from dpmarket.campaign.checks import books
from dpmarket.campaign.jobs import forecast_of
from dpmarket.campaign.rules.rules_file import Rules, rules_from
from dpmarket.campaign.schema import moment_of
from dpmarket.campaign.transaction import nothing
from dpmarket.campaign.views import deeds_after
from dpmarket.certificates import verify
from dpmarket.errors import MarketRefusal
from dpmarket.files.formulas import csv_text
from dpmarket.web.api import CampaignId, document_of, links_of, run_form
from dpmarket.web.pages.forms import Form, Sent
from dpmarket.web.pages.purchase import error_so_far, numbers_of, planned, purpose_of, wanted_of
from dpmarket.web.pages.rendering import attached, page, see, whole_page
from dpmarket.web.service import Service, TheService, path_of, session

router = APIRouter(prefix="/m", include_in_schema=False)
HOME = "/m"
_T = TypeVar("_T")
# How many have come so far: a state counts for itself and for all before it.
FUNNEL = (
    ("invited", ("invited",)),
    ("consented", ("consented", "waiting", "reserved", "reported")),
    ("quoted", ("quoted",)),
    ("accepted", ("accepted",)),
    ("delivered", ("delivered",)),
    ("spent", ("spent",)),
)
LEFT = ("declined", "screened_out", "priced_out", "expired", "lapsed", "withdrawn")
_AMOUNT = re.compile(r"^\d{1,16}(?:(?P<sign>[.,])(?P<decimals>\d{1,16}))?$", re.ASCII)
EXPORTS: dict[str, Callable[..., Any]] = {"events.csv": views.list_events, "acts.csv": deeds_after}
"""Tables of a campaign without any value: what happened to it, and who did what."""
_HEADS = ("person", "people", "seller", "id", "name", "email")
_FILES = ("released", "certificate", "signature", "openings")


@dataclass(frozen=True)
class Visit:
    """A member who is signed in and looks at a page: who, with which roles in any campaign."""

    request: Request
    caller: Caller
    service: Service
    roles: frozenset[str]

    def need(self, role: str) -> None:
        """Refuse a member without a role, as if there were nothing."""
        if role not in self.roles:
            raise nothing()

    def page(self, template: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
        """Return a page, with what every page of a member shows around its own content."""
        frame: dict[str, Any] = {"roles": self.roles, "home": HOME, "wide": True}
        return page(self.request, template, status=status, **frame, **values)

    def look(self, view: Callable[..., _T], *args: Any) -> _T:
        """Return what a view shows the member."""
        return self.service.look(view, self.caller, *args)

    def campaign(self, campaign: int) -> views.ShownCampaign:
        """Return a campaign that the member has a role in."""
        return self.look(views.show_campaign, campaign)

    def rules(self, campaign: int) -> Rules:
        """Return a campaign's rules."""
        return rules_from(self.look(views.show_rules, campaign))

    def run(self, act: str, key: str, typed: Mapping[str, Any], campaign: int | None = None) -> Any:
        """Run an act of the member once for a form's key."""
        return run_form(self.service, self.caller, act, key, typed, campaign)


def visit(request: Request, service: TheService) -> Visit:
    """Return the visit of the member who is signed in; for sellers there is nothing here."""
    caller = session(request, service)
    if caller.member is None:
        raise nothing()
    with service.market.look() as c:
        return Visit(request, caller, service, roles_of(c, caller))


Visited = Annotated[Visit, Depends(visit)]


@router.get("")
def index(visit: Visited) -> Response:
    """List the campaigns that a member has a role in; for a paymaster alone, what is to be paid."""
    if visit.roles == {"paymaster"}:
        return see(f"{HOME}/money")
    found = visit.look(views.list_campaigns)
    return visit.page("campaigns", {"campaigns": found})


@router.get("/campaigns/{campaign}")
def dashboard(campaign: CampaignId, visit: Visited) -> Response:
    """Show how a campaign stands."""
    return _dashboard(visit, campaign)


def _people(form: Form, _: views.ShownCampaign) -> dict[str, Any]:
    people = names_in(form.files.get("file", b""), form.text("people"))
    if not 0 < len(people) <= 1_000:
        raise MarketRefusal("invalid", "Expected a list of 1 to 1000 people.")
    return {"ids": people}


def _amount(form: Form, found: views.ShownCampaign) -> dict[str, Any]:
    return {"amount": amount_in(form.text("amount"), found.minor_units)}


def _sample(form: Form, _: views.ShownCampaign) -> dict[str, Any]:
    try:
        return {"sample": form.files.get("sample", b"").decode("utf-8-sig")}
    except UnicodeDecodeError:
        raise MarketRefusal("invalid", "Expected a CSV file in UTF-8.") from None


FORMS: dict[str, Callable[[Form, views.ShownCampaign], dict[str, Any]]] = {
    **dict.fromkeys(("fund", "refund"), _amount),
    **dict.fromkeys(("cancel", "pay_out"), lambda form, found: {}),
    "open": lambda form, found: {"confirmed": form.text("confirmed") == "yes"},
    **dict.fromkeys(("invite", "reissue_links", "revoke_links", "withdraw_people"), _people),
    "share": lambda form, found: {"subject": form.text("subject")},
    "ask_forecast": _sample,
}
"""Members' acts on a campaign that pages run, and how each form is read."""
CONFIRMED = ("fund", "refund", "cancel", "withdraw_people", "revoke_links")  # shown back before


@router.post("/campaigns/{campaign}/{act}")
def run(campaign: CampaignId, act: str, form: Sent, visit: Visited) -> Response:
    """Run a member's act on a campaign, then lead back to where it was called from."""
    found = visit.campaign(campaign)
    if act not in FORMS:
        raise nothing()
    arguments = FORMS[act](form, found)
    if act in CONFIRMED and form.text("confirmed") != "yes":
        people, amount = arguments.get("ids", []), arguments.get("amount", 0)
        shown = {"campaign": found, "act_name": act, "amount": amount, "people": people}
        own = {"action": visit.request.url.path, "origin": form.text("from"), "typed": form.text("amount")}
        return visit.page("confirm_act", shown | own)
    try:
        made = visit.run(act, form.key, arguments, campaign)
    except MarketRefusal as refusal:
        if refusal.kind != "confirm":
            raise
        return _dashboard(visit, campaign, warning=str(refusal))
    if act in ("invite", "reissue_links"):
        return _links(visit, found, made, len(arguments["ids"]), as_file=form.text("as") == "csv")
    return see(f"{HOME}/money" if form.text("from") == "money" else path_of(campaign))


def _links(visit: Visit, found: views.ShownCampaign, made: Any, named: int, *, as_file: bool) -> Response:
    """Show new links, in this answer only, or give them as a file."""
    links = [(one.id, visit.service.link(one.token)) for one in made if one.token is not None]
    if as_file:
        table = pl.DataFrame(links, schema={"person": pl.String, "link": pl.String}, orient="row")
        return attached("links.csv", csv_text(table))
    mailed = len(made) - len(links)
    return visit.page(
        "invitations", {"campaign": found, "links": links, "mailed": mailed, "known": named - len(made)}
    )


@router.get("/campaigns/{campaign}/report")
def report(campaign: CampaignId, visit: Visited) -> Response:
    """Show a released campaign in figures, with what the verifier says about its certificate."""
    found = visit.campaign(campaign)
    with visit.service.market.look() as c:
        sums = views.show_sums(c, visit.caller, campaign, visit.service.market.terms)
        content = views.show_document(c, visit.caller, campaign, "certificate")
        made = views.has_report(c, campaign)
    shown = {"campaign": found, "sums": sums, "checks": verify(content).checks, "made": made}
    return visit.page("campaign_report", shown)


@router.get("/campaigns/{campaign}/report.html")
def whole_report(campaign: CampaignId, visit: Visited) -> Response:
    """Show the whole report, as a worker made it."""
    return whole_page(document_of(visit.service, visit.caller, campaign, "report"))


@router.get("/campaigns/{campaign}/{name}")
def file(campaign: CampaignId, name: str, visit: Visited) -> Response:
    """Give the rules, what was released and the certificate as files; to an auditor openings and costs."""
    kind, _, ending = name.partition(".")
    if name in EXPORTS:
        with visit.service.market.look() as c:
            rows = [asdict(one) for one in EXPORTS[name](c, visit.caller, campaign)]
        return attached(name, csv_text(pl.DataFrame(rows)))
    if name == "rules.json":
        return attached(name, visit.look(views.show_rules, campaign))
    if name != "costs.csv" and (kind not in _FILES or ending != "json"):
        raise nothing()
    return attached(name, document_of(visit.service, visit.caller, campaign, kind))


def _dashboard(visit: Visit, campaign: int, warning: str | None = None) -> Response:
    found, rules = visit.campaign(campaign), visit.rules(campaign)
    caller, terms = visit.caller, visit.service.market.terms
    with visit.service.market.look() as c:
        sums = _seen(lambda: views.show_sums(c, caller, campaign, terms))
        money = _seen(lambda: views.show_money(c, caller, campaign))
        released = _seen(lambda: views.show_document(c, caller, campaign, "released"))
        balanced = not books(c) if "auditor" in visit.roles else None
        is_planned = found.state == "draft" and "buyer" in visit.roles
        forecast = forecast_of(c, campaign) if is_planned else None
    counts = sums.counts if sums else {}
    shown = {
        "campaign": found,
        "path": path_of(campaign),
        "warning": warning,
        "plan": planned(rules) if is_planned else None,
        "forecast": forecast,
        "sums": sums,
        "money_of": money,
        "books": balanced,
        "funnel": funnel_of(counts) if sums else [],
        "left": [(state, counts[state]) for state in LEFT if state in counts],
        "error": None if sums is None else error_so_far(rules, sums.acceptances, sums.epsilon),
        "purpose": purpose_of(rules),
        "wanted": wanted_of(rules),
        "released": released is not None,
        "numbers": numbers_of(rules, released),
        "hours": hours_left(found, visit.service.moment),
        "batch": terms.batch,
        "ended": found.state in ENDED,
        "panel": _seen(lambda: links_of(visit.service, caller, campaign)),
    }
    return visit.page("campaign", shown, status=200 if warning is None else 409)


def _seen(show: Any) -> Any:
    """Return what a caller may see, or None."""
    try:
        return show()
    except MarketRefusal:
        return None


def funnel_of(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return how many came at least so far, step by step; sellers who left are in the first alone.

    >>> funnel_of({"invited": 2, "quoted": 1, "spent": 3, "declined": 1})[:4]
    [('invited', 7), ('consented', 4), ('quoted', 4), ('accepted', 3)]
    """
    numbers = [sum(counts.get(state, 0) for state in states) for _, states in FUNNEL]
    came = [sum(numbers[place:]) for place in range(len(numbers))]
    came[0] = sum(counts.values())
    return [(name, number) for (name, _), number in zip(FUNNEL, came, strict=True)]


def hours_left(found: views.ShownCampaign, now: datetime) -> int | None:
    """Return how many whole hours sellers have left, rounded down; None if that time is over."""
    last = found.closes_at if found.mechanism == "offline" else found.deliver_until
    if found.state != "open" or last is None:
        return None
    seconds = (moment_of(last) - now).total_seconds()
    return int(seconds // 3600) if seconds > 0 else None


def amount_in(text: str, minor_units: int) -> int:
    """Return an amount of money that somebody typed, in whole minor units.

    >>> amount_in("12.5", 100), amount_in("12,50", 100)
    (1250, 1250)
    """
    found = _AMOUNT.match(text)
    if found is None:
        raise MarketRefusal("invalid", "Expected an amount of money, such as 1000 or 12.50.")
    minor = Fraction(text.replace(",", ".")) * minor_units
    # More decimals than there are minor units, or a comma before three digits, are meant as thousands: what
    # is entered must not be a thousandth of what arrived.
    most = 2 if found["sign"] == "," else max(len(str(minor_units)) - 1, 0)
    if minor.denominator != 1 or not 0 < minor <= 2**53 or len(found["decimals"] or "") > most:
        raise MarketRefusal("invalid", "Expected an amount of money > 0, in whole minor units.")
    return int(minor)


def names_in(content: bytes, text: str) -> list[str]:
    r"""Return the people of a file and of a list, each once, in their order.

    >>> names_in(b"person;note\nann;x\nbob;y\n", "cem\nann")
    ['ann', 'bob', 'cem']
    """
    try:
        written = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MarketRefusal("invalid", "expected a CSV file in UTF-8.") from None
    first = written.splitlines()[0] if written.strip() else ""
    separator = ";" if first.count(";") > first.count(",") else ","
    try:
        cells = [row[0].strip() for row in csv.reader(io.StringIO(written), delimiter=separator) if row]
    except csv.Error:
        raise MarketRefusal("invalid", "expected a CSV file.") from None
    if cells and cells[0].lower() in _HEADS:
        cells = cells[1:]
    names = list(dict.fromkeys(name for name in [*cells, *map(str.strip, text.splitlines())] if name))
    if any(len(name) > 200 or not name.isprintable() for name in names):
        raise MarketRefusal("invalid", "expected names of up to 200 characters that can be printed.")
    return names
