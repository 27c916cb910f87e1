"""A campaign as its buyer, an auditor or the operator sees it: sums in batches, never one person.

The live balance of escrow is not shown: it would change by each seller's payment, and a payment tells a cost.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from dpmarket import market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import balance_of, reading
from dpmarket.ledger.money import money_problems
from dpmarket.market import Caller, LiveCampaign, Sums
from dpmarket.market.opening import market_of
from dpmarket.web.api import campaigns, models
from dpmarket.web.api.models import CampaignId
from dpmarket.web.auth import TheService
from dpmarket.web.pages.asking import numbers_of, purpose_of, wanted_of
from dpmarket.web.pages.buying import Member, frame
from dpmarket.web.pages.meaning import chance_of, epsilon_shown, right_guesses
from dpmarket.web.pages.people_file import names_in
from dpmarket.web.pages.prospects import error_so_far
from dpmarket.web.pages.rendering import page, whole_page
from dpmarket.web.pages.uploads import Uploaded
from dpmarket.web.service import Service

router = APIRouter(prefix="/b", include_in_schema=False)
# Who has come so far: a state counts for itself and for all before it.
FUNNEL = (
    ("invited", ("invited",)),
    ("consented", ("consented", "waiting", "seated", "reported")),
    ("quoted", ("quoted",)),
    ("accepted", ("accepted",)),
    ("delivered", ("delivered",)),
    ("spent", ("spent",)),
)
ENDED = ("released", "lost", "cancelled")
LEFT = ("declined", "expired", "lapsed", "withdrawn")


@router.get("/{campaign_id}")
def dashboard(campaign_id: CampaignId, request: Request, caller: Member, service: TheService) -> Response:
    """Show how a campaign stands."""
    with reading(service.desk.ledger) as connection:
        found = market.show_campaign(connection, caller, campaign_id)
        sums = None
        if caller.role != "operator":
            sums = market.show_sums(connection, caller, campaign_id, service.settings.terms)
        balance = balance_of(connection, campaign_id)
        books = None if caller.role != "auditor" else not money_problems(connection)
        numbers = numbers_of(connection, caller, campaign_id) if found.state == "released" else []
    return page(
        request,
        "campaign",
        **frame(caller),
        campaign=found,
        sums=sums,
        funded=balance.funded,
        books=books,
        left_over=balance.available if found.state in ENDED else None,
        funnel=funnel_of(sums.counts) if sums else [],
        left=[(state, sums.counts[state]) for state in LEFT if state in sums.counts] if sums else [],
        error=_error(found, sums),
        purpose=purpose_of(market_of(found.market)),
        wanted=wanted_of(market_of(found.market)),
        numbers=numbers,
        ceiling=epsilon_shown(found.ceiling or 0.0),
        guesses=right_guesses(found.ceiling or 0.0),
        chance=chance_of(market_of(found.market).objective.delta),
        hours=hours_left(found, service.clock()),
        batch=service.settings.batch,
        may_fund=_may(caller, service.settings.funding) and found.state not in ENDED,
        may_refund=_may(caller, service.settings.funding) and found.state in ENDED,
        may_invite=_may(caller, service.settings.inviting) and found.state in ("draft", "open"),
        closable=_over(found, service.clock()),
    )


@router.post("/{campaign_id}/invitations")
def invite(
    campaign_id: CampaignId, request: Request, sent: Uploaded, caller: Member, service: TheService
) -> Response:
    """Invite people from a file or a list; links are shown in this answer only."""
    people = names_in(sent.files.get("file", b""), sent.form.text("people"))
    if not 0 < len(people) <= 2_000:
        raise MarketRefusal("invalid", "expected a list of 1 to 2000 people.")
    body = models.NewInvitations(people=people, lifetime_epsilon=None)
    made = campaigns.invite(campaign_id, body, caller, service, sent.form.key)
    with reading(service.desk.ledger) as connection:
        found = market.show_campaign(connection, caller, campaign_id)
    return page(
        request,
        "invitations",
        **frame(caller),
        campaign=found,
        invitations=made.invitations,
        known=len(set(people)) - len(made.invitations),
    )


@router.get("/{campaign_id}/report")
def report(campaign_id: CampaignId, request: Request, caller: Member, service: TheService) -> Response:
    """Tell a released campaign in figures, with what the verifier says about its certificate."""
    told = campaigns.figures(campaign_id, caller, service)
    with reading(service.desk.ledger) as connection:
        found = market.show_campaign(connection, caller, campaign_id)
        made = market.has_report(connection, campaign_id)
    return page(
        request,
        "campaign_report",
        **frame(caller),
        campaign=found,
        told=told,
        made=made,
        ceiling=epsilon_shown(told.largest_promise),
        guesses=right_guesses(told.largest_promise),
        chance=chance_of(market_of(found.market).objective.delta),
    )


@router.get("/{campaign_id}/report.html")
def whole_report(campaign_id: CampaignId, request: Request, caller: Member, service: TheService) -> Response:
    """Show the whole report, as a worker made it."""
    with reading(service.desk.ledger) as connection:
        return whole_page(request, market.show_report(connection, caller, campaign_id))


@router.get("/{campaign_id}/{name}.json")
def file(campaign_id: CampaignId, name: str, caller: Member, service: TheService) -> Response:
    """Give the model, the certificate or the market file; to an auditor the openings as well."""
    gives: dict[str, Any] = {
        "model": campaigns.model,
        "certificate": campaigns.certificate,
        "market": campaigns.rules,
    }
    if caller.role == "auditor":
        gives |= {"openings": campaigns.openings, "costs": _costs}
    if name not in gives:
        raise MarketRefusal("unknown", "there is nothing here for this caller.")
    answer = gives[name](campaign_id, caller, service)
    assert isinstance(answer, Response)
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}.json"'
    return answer


def _costs(campaign_id: str, caller: Caller, service: Service) -> Response:
    told = campaigns.costs(campaign_id, caller, service)
    return Response(told.model_dump_json(), media_type="application/json")


def funnel_of(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Return how many came at least so far, step by step; who left is in none but the first.

    Examples
    --------
    >>> funnel_of({"invited": 2, "quoted": 1, "spent": 3, "declined": 1})[:4]
    [('invited', 7), ('consented', 4), ('quoted', 4), ('accepted', 3)]
    """
    numbers = [sum(counts.get(state, 0) for state in states) for _, states in FUNNEL]
    came = [sum(numbers[place:]) for place in range(len(numbers))]
    came[0] = sum(counts.values())
    return [(name, number) for (name, _), number in zip(FUNNEL, came, strict=True)]


def hours_left(found: LiveCampaign, now: datetime) -> int | None:
    """Return how many whole hours sellers have left, rounded down; None if that time is over."""
    last = datetime.fromisoformat(found.closes_at if found.mechanism == "offline" else found.deliver_until)
    seconds = (last - now).total_seconds()
    return int(seconds // 3600) if seconds > 0 and found.state == "open" else None


def _error(found: LiveCampaign, sums: Sums | None) -> float | None:
    return None if sums is None else error_so_far(market_of(found.market), sums.acceptances, sums.promised)


def _may(caller: Caller, buyers_may: str) -> bool:
    return caller.role == "operator" or (caller.role == "buyer" and buyers_may == "buyer")


def _over(found: LiveCampaign, now: datetime) -> bool:
    waiting = found.state == ("open" if found.mechanism == "online" else "deciding")
    return waiting and datetime.fromisoformat(found.deliver_until) <= now
