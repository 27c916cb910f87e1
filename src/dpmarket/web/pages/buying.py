"""Members' pages: campaigns, a new one as a form with its plan beside it, and the steps until it is open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ValidationError

from dpmarket import market
from dpmarket.campaign.market_file import check_market
from dpmarket.errors import FileProblem, MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import Caller
from dpmarket.web.api import campaigns, models
from dpmarket.web.api.models import CampaignId
from dpmarket.web.auth import TheService
from dpmarket.web.pages.asking import MODEL, NUMBERS
from dpmarket.web.pages.forms import Form, Sent
from dpmarket.web.pages.looking import session_of
from dpmarket.web.pages.market_form import (
    FEATURE_KINDS,
    GAPS,
    MOST_ROWS,
    ROWS,
    keys,
    market_data,
    places_of,
    starts,
)
from dpmarket.web.pages.prospects import planned
from dpmarket.web.pages.rendering import page, see
from dpmarket.web.pages.statistic_form import KINDS, beside_lines, lines_shown, with_numbers
from dpmarket.web.service import Service

router = APIRouter(prefix="/b", include_in_schema=False)
HOME = "/b"
Member = Annotated[Caller, Depends(session_of("buyer", "operator", "auditor"))]
SignedBuyer = Annotated[Caller, Depends(session_of("buyer"))]
_TIMES = ("opens_at", "closes_at", "deliver_until")
_AMOUNT = re.compile(r"^\d{1,16}(?:(?P<sign>[.,])(?P<decimals>\d{1,16}))?$", re.ASCII)


@router.get("")
def index(request: Request, caller: Member, service: TheService) -> Response:
    """List a buyer's own campaigns, or all for an auditor or operator."""
    with reading(service.desk.ledger) as connection:
        found = market.list_campaigns(connection, caller)
    return page(request, "campaigns", **frame(caller), campaigns=found)


@router.get("/new")
def new(request: Request, caller: SignedBuyer, service: TheService) -> Response:
    """Show the form of a new campaign."""
    now = service.clock()
    times = {name: _written(now + timedelta(days=days)) for name, days in zip(_TIMES, (0, 7, 9), strict=True)}
    return _form(request, caller, service, {**starts(), **times, "mechanism": "online"})


@router.post("/new")
def draft(request: Request, form: Sent, caller: SignedBuyer, service: TheService) -> Response:
    """Plan what the form says, or draft it; with problems the form is shown again."""
    typed = {name: form.text(name) for name in form.names()}
    data = with_numbers(form, market_data(form))
    try:
        checked = check_market(data)
    except FileProblem as refusal:
        problems = list(refusal.details)
        return _form(request, caller, service, typed, problems, beside_numbers=beside_lines(form, problems))
    try:
        plan = planned(checked, form.text("mechanism"))
        if form.text("act") != "draft":
            return _form(request, caller, service, typed, plan=plan)
        if plan.problem is not None:
            return _form(request, caller, service, typed, [plan.problem], plan=plan)
        body = models.NewCampaign(
            title=form.text("title"),
            mechanism=form.text("mechanism"),  # type: ignore[arg-type]
            market=checked,
            **{name: _moment(form, name) for name in _TIMES},  # type: ignore[arg-type]
            consent_version=_version(form),  # type: ignore[arg-type]
        )
        made = campaigns.draft(body, caller, service, form.key)
    except ValidationError as refusal:
        return _form(request, caller, service, typed, [_line(found) for found in refusal.errors()])
    except MarketRefusal as refusal:
        return _form(request, caller, service, typed, [str(refusal)])
    return see(f"{HOME}/{made.id}")


@router.post("/{campaign_id}/open")
def open_(campaign_id: CampaignId, form: Sent, caller: SignedBuyer, service: TheService) -> Response:
    """Freeze the rules and let sellers come."""
    campaigns.open_(campaign_id, caller, service, form.key)
    return see(f"{HOME}/{campaign_id}")


@router.post("/{campaign_id}/close")
def close(campaign_id: CampaignId, form: Sent, caller: SignedBuyer, service: TheService) -> Response:
    """Close a campaign whose time is over."""
    campaigns.close(campaign_id, caller, service, form.key)
    return see(f"{HOME}/{campaign_id}")


@router.post("/{campaign_id}/cancel")
def cancel(campaign_id: CampaignId, form: Sent, caller: SignedBuyer, service: TheService) -> Response:
    """Cancel a draft, or a campaign in which nobody was quoted."""
    campaigns.cancel(campaign_id, caller, service, form.key)
    return see(f"{HOME}/{campaign_id}")


@router.post("/{campaign_id}/fund")
def fund(campaign_id: CampaignId, form: Sent, caller: Member, service: TheService) -> Response:
    """Enter that money has arrived, where the service lets this member do it."""
    with reading(service.desk.ledger) as connection:
        found = market.show_campaign(connection, caller, campaign_id)
    amount = amount_in(form.text("amount"), found.minor_units)
    campaigns.fund(campaign_id, models.Amount(amount=amount), caller, service, form.key)
    return see(f"{HOME}/{campaign_id}")


@router.post("/{campaign_id}/refund")
def refund(campaign_id: CampaignId, form: Sent, caller: Member, service: TheService) -> Response:
    """Enter that money went back, where the service lets this member do it."""
    with reading(service.desk.ledger) as connection:
        found = market.show_campaign(connection, caller, campaign_id)
    amount = amount_in(form.text("amount"), found.minor_units)
    campaigns.refund(campaign_id, models.Amount(amount=amount), caller, service, form.key)
    return see(f"{HOME}/{campaign_id}")


def frame(caller: Caller) -> dict[str, Any]:
    """Return what every page of a member shows around its own content."""
    return {"role": caller.role, "title": None, "home": HOME, "wide": True}


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
        raise MarketRefusal("invalid", "expected an amount of money, such as 1000 or 12.50.")
    minor = Fraction(text.replace(",", ".")) * minor_units
    # More decimals than there are minor units, or a comma before three digits, are meant as thousands: what
    # is entered must not be a thousandth of what arrived.
    most = 2 if found["sign"] == "," else max(len(str(minor_units)) - 1, 0)
    if minor.denominator != 1 or not 0 < minor <= 2**53 or len(found["decimals"] or "") > most:
        raise MarketRefusal("invalid", "expected an amount of money > 0, in whole minor units.")
    return int(minor)


def _form(
    request: Request,
    caller: Caller,
    service: Service,
    typed: dict[str, str],
    problems: Sequence[str] = (),
    *,
    plan: Any = None,
    beside_numbers: Mapping[str, str] | None = None,
) -> Response:
    first, others = keys()
    with reading(service.desk.ledger) as connection:
        consents = market.consent_versions(connection)
    used = [row for row in range(MOST_ROWS) if typed.get(f"feature{row}.name")]
    rows = min(max(used, default=-1) + 1 + ROWS, MOST_ROWS)
    places = places_of(typed)
    by_path = {line.split(":")[0]: line for line in problems if ":" in line}
    beside = {places.get(path, path): line for path, line in by_path.items()} | dict(beside_numbers or {})
    return page(
        request,
        "new_campaign",
        status=422 if problems else 200,
        **frame(caller),
        first=first,
        others=others,
        rows=rows,
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


def _minor_units(text: str) -> int:
    """Return what the form says, or the usual: this is only for writing amounts beside it."""
    return int(text) if text.isdecimal() and 0 < len(text) < 12 and int(text) > 0 else 100


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")


def _moment(form: Form, name: str) -> datetime | str:
    """Return a time of the form, which is in UTC; what is none is left to the model to refuse."""
    text = form.text(name)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return text


def _version(form: Form) -> int | str:
    """Return which consent text was chosen, 1 if none was; what is no number is left to the model."""
    text = form.text("consent_version") or "1"
    return int(text) if text.isdecimal() and len(text) < 9 else text


def _line(found: Any) -> str:
    return f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}"
