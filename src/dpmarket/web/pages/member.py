"""Members' pages: campaigns, a new one as a form with its plan beside it, dashboards, and members' acts.

A dashboard shows sums in batches, never one person. The live balance of escrow is not shown: it would change
by each seller's payment, and a payment tells a cost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from dpmarket.campaign import views
from dpmarket.campaign.access import roles_of
from dpmarket.campaign.acts import ACTS, Caller
from dpmarket.campaign.campaigns import ENDED
from dpmarket.campaign.checks import books
from dpmarket.campaign.consent import consent_versions
from dpmarket.campaign.rules.rules_file import check_rules, rules_from
from dpmarket.campaign.times import moment_of
from dpmarket.certificates import verify
from dpmarket.errors import FileProblem, MarketRefusal
from dpmarket.web.api import (
    CampaignId,
    Confirmed,
    People,
    document_of,
    invite_arguments,
    open_arguments,
    plan_of,
)
from dpmarket.web.auth import SignedMember, TheService
from dpmarket.web.pages.forms import Form, Sent
from dpmarket.web.pages.meaning import chance_of, epsilon_shown, right_guesses
from dpmarket.web.pages.people_file import names_in
from dpmarket.web.pages.plan import error_so_far, planned
from dpmarket.web.pages.rendering import page, see, whole_page
from dpmarket.web.pages.rules_form import (
    FEATURE_KINDS,
    GAPS,
    MOST_ROWS,
    ROWS,
    keys,
    places_of,
    rules_data,
    starts,
)
from dpmarket.web.pages.statistic_form import KINDS, beside_lines, lines_shown, with_numbers
from dpmarket.web.pages.statistics import MODEL, NUMBERS, numbers_of, purpose_of, wanted_of
from dpmarket.web.pages.uploads import Uploaded
from dpmarket.web.problems import WrongRules
from dpmarket.web.service import Service, path_of

router = APIRouter(prefix="/m", include_in_schema=False)
HOME = "/m"
# Who has come so far: a state counts for itself and for all before it.
FUNNEL = (
    ("invited", ("invited",)),
    ("consented", ("consented", "waiting", "reserved", "reported")),
    ("quoted", ("quoted",)),
    ("accepted", ("accepted",)),
    ("delivered", ("delivered",)),
    ("spent", ("spent",)),
)
LEFT = ("declined", "priced_out", "expired", "lapsed", "withdrawn")
_TIMES = ("opens_at", "closes_at", "deliver_until")
_AMOUNT = re.compile(r"^\d{1,16}(?:(?P<sign>[.,])(?P<decimals>\d{1,16}))?$", re.ASCII)
_FILES = ("released", "certificate", "signature", "openings")


def member_roles(caller: SignedMember, service: TheService) -> frozenset[str]:
    """Return the roles of the member who is signed in."""
    with service.market.look() as c:
        return roles_of(c, caller)


Roles = Annotated[frozenset[str], Depends(member_roles)]


@router.get("")
def index(request: Request, caller: SignedMember, service: TheService, roles: Roles) -> Response:
    """List the campaigns that a member has a role in; for a paymaster alone, what is to be paid."""
    if roles == {"paymaster"}:
        return see(f"{HOME}/money")
    with service.market.look() as c:
        found = views.list_campaigns(c, caller)
    return page(request, "campaigns", **frame(roles), campaigns=found)


@router.get("/new")
def new(request: Request, caller: SignedMember, service: TheService, roles: Roles) -> Response:
    """Show the form of a new campaign."""
    _refuse_unless("buyer", roles)
    times = (service.moment + timedelta(days=days) for days in (0, 7, 9))
    written = {name: _written(moment) for name, moment in zip(_TIMES, times, strict=True)}
    return _form(request, service, roles, {**starts(), **written})


@router.post("/new")
def draft(request: Request, form: Sent, caller: SignedMember, service: TheService, roles: Roles) -> Response:
    """Plan what the form says, or draft it; with problems the form is shown again."""
    _refuse_unless("buyer", roles)
    typed = {name: form.text(name) for name in form.names()}
    data = with_numbers(form, rules_data(form))
    try:
        plan = planned(check_rules(data))
        if form.text("act") != "draft":
            return _form(request, service, roles, typed, plan=plan)
        if plan.problem is not None:
            return _form(request, service, roles, typed, [plan.problem], plan=plan)
        times = {name: _moment(form, name) for name in _TIMES}
        made = service.run(
            ACTS["draft"], caller, form.key, plan=plan_of(data, **times, consent=_version(form))
        )
    except (FileProblem, WrongRules) as refusal:
        problems = list(refusal.details)
        return _form(request, service, roles, typed, problems, beside_numbers=beside_lines(form, problems))
    except MarketRefusal as refusal:
        return _form(request, service, roles, typed, [str(refusal)])
    return see(path_of(made))


@router.get("/campaigns/{campaign}")
def dashboard(
    campaign: CampaignId, request: Request, caller: SignedMember, service: TheService, roles: Roles
) -> Response:
    """Show how a campaign stands."""
    return _dashboard(request, caller, service, roles, campaign)


@router.post("/campaigns/{campaign}/invite")
def invite(
    campaign: CampaignId,
    request: Request,
    sent: Uploaded,
    caller: SignedMember,
    service: TheService,
    roles: Roles,
) -> Response:
    """Invite people from a file or a list; links are shown in this answer only."""
    people = names_in(sent.files.get("file", b""), sent.form.text("people"))
    if not 0 < len(people) <= 1_000:
        raise MarketRefusal("invalid", "Expected a list of 1 to 1000 people.")
    arguments = invite_arguments(service, caller, campaign, People(ids=people, group=None))
    made = service.run(ACTS["invite"], caller, sent.form.key, campaign=campaign, **arguments)
    with service.market.look() as c:
        found = views.show_campaign(c, caller, campaign)
    links = [(one.id, service.link(one.token)) for one in made if one.token is not None]
    return page(
        request,
        "invitations",
        **frame(roles),
        campaign=found,
        links=links,
        mailed=len(made) - len(links),
        known=len(set(people)) - len(made),
    )


@router.post("/campaigns/{campaign}/{act}")
def run(
    campaign: CampaignId,
    act: str,
    request: Request,
    form: Sent,
    caller: SignedMember,
    service: TheService,
) -> Response:
    """Run a member's act on a campaign, then lead back to where it was called from."""
    with service.market.look() as c:
        found = views.show_campaign(c, caller, campaign)
    arguments: dict[str, Any]
    if act == "open":
        body = Confirmed(confirmed=form.text("confirmed") == "yes")
        arguments = open_arguments(service, caller, campaign, body)
    elif act in ("fund", "refund"):
        arguments = {"amount": amount_in(form.text("amount"), found.minor_units)}
    elif act in ("cancel", "pay_out"):
        arguments = {}
    else:
        raise MarketRefusal("unknown", "There is nothing here for this caller.")
    try:
        service.run(ACTS[act], caller, form.key, campaign=campaign, **arguments)
    except MarketRefusal as refusal:
        if refusal.kind != "confirm":
            raise
        roles = member_roles(caller, service)
        return _dashboard(request, caller, service, roles, campaign, warning=str(refusal))
    return see(f"{HOME}/money" if form.text("from") == "money" else path_of(campaign))


@router.get("/campaigns/{campaign}/report")
def report(
    campaign: CampaignId, request: Request, caller: SignedMember, service: TheService, roles: Roles
) -> Response:
    """Show a released campaign in figures, with what the verifier says about its certificate."""
    with service.market.look() as c:
        found = views.show_campaign(c, caller, campaign)
        sums = views.show_sums(c, caller, campaign, service.market.terms)
        content = views.show_document(c, caller, campaign, "certificate")
        made = views.has_report(c, campaign)
    return page(
        request,
        "campaign_report",
        **frame(roles),
        campaign=found,
        sums=sums,
        checks=verify(content).checks,
        made=made,
        ceiling=epsilon_shown(found.ceiling or 0.0),
        guesses=right_guesses(found.ceiling or 0.0),
        chance=chance_of(found.delta or None),
    )


@router.get("/campaigns/{campaign}/report.html")
def whole_report(
    campaign: CampaignId, request: Request, caller: SignedMember, service: TheService
) -> Response:
    """Show the whole report, as a worker made it."""
    return whole_page(request, document_of(service, caller, campaign, "report"))


@router.get("/campaigns/{campaign}/{name}")
def file(campaign: CampaignId, name: str, caller: SignedMember, service: TheService) -> Response:
    """Give the rules, what was released and the certificate as files; to an auditor openings and costs."""
    kind, _, ending = name.partition(".")
    if name == "rules.json":
        with service.market.look() as c:
            content = views.show_rules(c, caller, campaign).encode()
    elif name == "costs.csv" or (kind in _FILES and ending == "json"):
        content = document_of(service, caller, campaign, kind)
    else:
        raise MarketRefusal("unknown", "There is nothing here for this caller.")
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    media = "text/csv; charset=utf-8" if ending == "csv" else "application/json"
    return Response(content, media_type=media, headers=headers)


# --- parts -----------------------------------------------------------------------------------------


def frame(roles: frozenset[str]) -> dict[str, Any]:
    """Return what every page of a member shows around its own content."""
    return {"roles": roles, "title": None, "home": HOME, "wide": True}


def _dashboard(
    request: Request,
    caller: Caller,
    service: Service,
    roles: frozenset[str],
    campaign: int,
    warning: str | None = None,
) -> Response:
    with service.market.look() as c:
        found = views.show_campaign(c, caller, campaign)
        rules = rules_from(views.show_rules(c, caller, campaign))
        sums = _seen(lambda: views.show_sums(c, caller, campaign, service.market.terms))
        money = _seen(lambda: views.show_money(c, caller, campaign))
        released = _seen(lambda: views.show_document(c, caller, campaign, "released"))
        balanced = not books(c) if "auditor" in roles else None
    counts = sums.counts if sums else {}
    return page(
        request,
        "campaign",
        **frame(roles),
        status=200 if warning is None else 409,
        campaign=found,
        path=path_of(campaign),
        warning=warning,
        sums=sums,
        money_of=money,
        books=balanced,
        funnel=funnel_of(counts) if sums else [],
        left=[(state, counts[state]) for state in LEFT if state in counts],
        error=None if sums is None else error_so_far(rules, sums.acceptances, sums.epsilon),
        purpose=purpose_of(rules),
        wanted=wanted_of(rules),
        released=released is not None,
        numbers=numbers_of(released),
        ceiling=epsilon_shown(found.ceiling or 0.0),
        guesses=right_guesses(found.ceiling or 0.0),
        chance=chance_of(rules.objective.delta),
        hours=hours_left(found, service.moment),
        batch=service.market.terms.batch,
        ended=found.state in ENDED,
    )


def _seen(show: Any) -> Any:
    """Return what a caller may see, or None."""
    try:
        return show()
    except MarketRefusal:
        return None


def funnel_of(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return how many came at least so far, step by step; sellers who left are in the first alone.

    Examples
    --------
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

    Raises
    ------
    MarketRefusal
        It is none.

    Examples
    --------
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


def _form(
    request: Request,
    service: Service,
    roles: frozenset[str],
    typed: dict[str, str],
    problems: Sequence[str] = (),
    *,
    plan: Any = None,
    beside_numbers: Mapping[str, str] | None = None,
) -> Response:
    first, others = keys()
    with service.market.look() as c:
        consents = consent_versions(c)
    used = [row for row in range(MOST_ROWS) if typed.get(f"feature{row}.name")]
    places = places_of(typed)
    by_path = {line.split(":")[0]: line for line in problems if ":" in line}
    beside = {places.get(path, path): line for path, line in by_path.items()} | dict(beside_numbers or {})
    return page(
        request,
        "new_campaign",
        status=422 if problems else 200,
        **frame(roles),
        first=first,
        others=others,
        rows=min(max(used, default=-1) + 1 + ROWS, MOST_ROWS),
        feature_kinds=FEATURE_KINDS,
        gaps=GAPS,
        consents=consents,
        beside_others=any(key.path in beside for key in others),
        purpose=NUMBERS if typed.get("purpose") == NUMBERS else MODEL,
        lines=lines_shown(typed),
        kinds=KINDS,
        typed=typed,
        problems=problems,
        beside=beside,
        plan=plan,
        minor_units=_minor_units(typed.get("money.minor_units", "")),
        currency=typed.get("money.currency", ""),
    )


def _refuse_unless(role: str, roles: frozenset[str]) -> None:
    if role not in roles:
        raise MarketRefusal("unknown", "There is nothing here for this caller.")


def _minor_units(text: str) -> int:
    """Return what the form says, or the usual: this is only for writing amounts beside it."""
    return int(text) if text.isdecimal() and 0 < len(text) < 12 and int(text) > 0 else 100


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def _moment(form: Form, name: str) -> datetime:
    """Return a time of the form, which is in UTC."""
    try:
        return datetime.fromisoformat(form.text(name)).replace(tzinfo=UTC)
    except ValueError:
        raise MarketRefusal("invalid", f"{name}: expected a day and a time.") from None


def _version(form: Form) -> int | None:
    """Return which consent text was chosen; None: the newest."""
    text = form.text("consent_version")
    return int(text) if text.isdecimal() and len(text) < 9 else None
