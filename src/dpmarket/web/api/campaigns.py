"""Campaigns: draft, fund, open, invite, close, cancel; what they came to, their model and certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from dpmarket import market
from dpmarket.campaign.contradictions import contradictions
from dpmarket.campaign.market_file import Bounds
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, reading
from dpmarket.market import Caller
from dpmarket.market.opening import market_of
from dpmarket.web.api import models
from dpmarket.web.api.models import CampaignId, MaybeKey, NeededKey, plain
from dpmarket.web.auth import AnyCaller, Buyer, TheService, only
from dpmarket.web.mailing import has_smtp
from dpmarket.web.problems import documented, problem
from dpmarket.web.service import INVITING, Service

router = APIRouter(prefix="/api/v1/campaigns", tags=["campaigns"], responses=documented(401, 404, 422, 503))
_ACTING = documented(400, 403, 409, 413, 415)
_HTML: dict[int | str, dict[str, Any]] = {200: {"content": {"text/html": {"schema": {"type": "string"}}}}}
_JSON: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}}
}


@router.post("", status_code=201, responses=_ACTING)
def draft(
    body: models.NewCampaign, caller: Buyer, service: TheService, key: MaybeKey = None
) -> models.CampaignAnswer:
    """Draft a campaign from the market file's own tables. It can still be cancelled."""
    data = body.market.model_dump(mode="json", exclude_none=True)
    found = contradictions(data, set(Bounds.model_fields), "")
    if found:
        raise Contradicting([path for path, _ in found])
    schedule = market.Schedule(body.opens_at, body.closes_at, body.deliver_until)

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        made = market.draft_campaign(
            connection,
            caller.id,
            body.title,
            data,
            body.mechanism,
            schedule,
            consent_version=body.consent_version,
            now=now,
        )
        return _told(made)

    return models.CampaignAnswer(**service.act(caller, key, {"draft": plain(body)}, act))


@router.get("")
def index(caller: AnyCaller, service: TheService) -> models.Campaigns:
    """List a buyer's own campaigns, or all for an auditor or operator."""
    with reading(service.desk.ledger) as connection:
        found = market.list_campaigns(connection, caller)
    return models.Campaigns(campaigns=[models.CampaignAnswer(**_told(one)) for one in found])


@router.get("/{campaign_id}")
def show(campaign_id: CampaignId, caller: AnyCaller, service: TheService) -> models.CampaignAnswer:
    """Show a campaign to its buyer, its sellers, an auditor or an operator."""
    with reading(service.desk.ledger) as connection:
        told = _told(market.show_campaign(connection, caller, campaign_id))
    return models.CampaignAnswer(**{**told, "debt": None} if caller.role == "seller" else told)


@router.get("/{campaign_id}/market", responses=_JSON)
def rules(campaign_id: CampaignId, caller: AnyCaller, service: TheService) -> Response:
    """Show the market file: what is bought, at which prices, and which records are asked for."""
    with reading(service.desk.ledger) as connection:
        found = market.show_campaign(connection, caller, campaign_id)
    return Response(found.market, media_type="application/json")


@router.post("/{campaign_id}/fund", responses=_ACTING)
def fund(
    campaign_id: CampaignId, body: models.Amount, caller: AnyCaller, service: TheService, key: NeededKey
) -> models.Available:
    """Enter that money has arrived for a campaign; a debt is paid from it.

    For an open online campaign a multiple of the largest payment: other amounts would tell what is held. By a
    paymaster or an operator, who see it arrive; by the buyer if the service is set up so.
    """
    _refuse_unless(service, caller, campaign_id, ("paymaster", "operator"), service.settings.funding)

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        return {"available": market.fund_campaign(connection, campaign_id, body.amount, now)}

    return models.Available(**service.act(caller, key, {"fund": campaign_id, **plain(body)}, act))


@router.post("/{campaign_id}/refund", responses=_ACTING)
def refund(
    campaign_id: CampaignId, body: models.Amount, caller: AnyCaller, service: TheService, key: NeededKey
) -> models.State:
    """Enter that money went back which is promised to nobody: of a draft, or of a campaign that has ended."""
    _refuse_unless(service, caller, campaign_id, ("paymaster", "operator"), service.settings.funding)

    transfer = market.refund_id(caller.id, key)

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        market.refund_campaign(connection, campaign_id, body.amount, now, transfer)
        return {"state": market.campaign_of(connection, campaign_id).state}

    return models.State(**service.act(caller, key, {"refund": campaign_id, **plain(body)}, act))


@router.post("/{campaign_id}/open", responses=_ACTING | documented(402, 410))
def open_(
    campaign_id: CampaignId, caller: Buyer, service: TheService, key: MaybeKey = None
) -> models.CampaignAnswer:
    """Freeze the rules and let sellers come. 402 if escrow has too little.

    A worker makes the campaign's keys right after it was drafted; without one, 503.
    """
    with reading(service.desk.ledger) as connection:
        found = market.show_campaign(connection, caller, campaign_id)
    # Planned outside of the transaction, which it would hold up for all others.
    planned = (
        market.plan_opening(market_of(found.market), found.mechanism) if found.state == "draft" else None
    )

    market.await_campaign_key(service.desk, campaign_id)

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        if planned is None:
            raise MarketRefusal("state", "expected a draft: this campaign was opened or cancelled before.")
        public = market.public_key_of(connection, campaign_id)
        return _told(market.open_campaign(connection, campaign_id, planned, public, now))

    return models.CampaignAnswer(**service.act(caller, key, {"open": campaign_id}, act))


@router.post("/{campaign_id}/close", responses=_ACTING)
def close(
    campaign_id: CampaignId, caller: Buyer, service: TheService, key: MaybeKey = None
) -> models.CampaignAnswer:
    """Close a campaign whose time is over, if no worker did yet. Never earlier: sums decide nothing."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        market.show_campaign(connection, caller, campaign_id)
        market.close_campaign(connection, campaign_id, now)
        return _told(market.campaign_of(connection, campaign_id))

    return models.CampaignAnswer(**service.act(caller, key, {"close": campaign_id}, act))


@router.post("/{campaign_id}/cancel", responses=_ACTING)
def cancel(
    campaign_id: CampaignId, caller: Buyer, service: TheService, key: MaybeKey = None
) -> models.CampaignAnswer:
    """Cancel a draft, or an open campaign in which nobody was quoted: a quote is a promise."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        market.show_campaign(connection, caller, campaign_id)
        market.cancel_campaign(connection, campaign_id, now)
        return _told(market.campaign_of(connection, campaign_id))

    return models.CampaignAnswer(**service.act(caller, key, {"cancel": campaign_id}, act))


@router.post("/{campaign_id}/invitations", status_code=201, responses=_ACTING | documented(429))
def invite(
    campaign_id: CampaignId,
    body: models.NewInvitations,
    caller: AnyCaller,
    service: TheService,
    key: NeededKey,
) -> models.Invitations:
    """Invite people, each once. Tokens are told in this answer only, and again for the same key.

    Where the service sends mails, people whose name is a mail address get their link there, and nobody else.
    By an operator: whoever has a token acts for the seller. By the buyer if the service is set up so; a limit
    over the campaigns of all buyers is not one buyer's to set.
    """
    _refuse_unless(service, caller, campaign_id, ("operator",), service.settings.inviting)
    if caller.role == "buyer" and body.lifetime_epsilon is not None:
        raise MarketRefusal("invalid", "expected no limit: people's limits are set by an operator.")
    service.limit("invitation", caller.id, INVITING)
    cap = body.lifetime_epsilon or service.settings.lifetime_cap

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        made = []
        for person in dict.fromkeys(body.people):
            for one in market.invite(connection, campaign_id, [person], cap, now):
                told: dict[str, str | None] = {
                    "token": one.token,
                    "link": f"{service.settings.public_url}/i/{one.token}",
                }
                mailed = has_smtp(service.settings) and market.is_address(person)
                if mailed:
                    operator = market.operator_public_key(connection)
                    market.enter_invitation(connection, one.participation, person, one.token, operator, now)
                    told = {"token": None, "link": None}
                made.append({"person": person, "mailed": mailed, **told})
        return {"invitations": made}

    return models.Invitations(**service.act(caller, key, {"invite": campaign_id, **plain(body)}, act))


@router.get("/{campaign_id}/totals")
def totals(campaign_id: CampaignId, caller: AnyCaller, service: TheService) -> models.Totals:
    """Tell a buyer or an auditor what a campaign has come to, in whole batches."""
    with reading(service.desk.ledger) as connection:
        return _totals(service, connection, caller, campaign_id)


@router.get("/{campaign_id}/model", responses=_JSON)
def model(campaign_id: CampaignId, caller: AnyCaller, service: TheService) -> Response:
    """Give what was released, a model or statistics, to the buyer, a seller or an auditor."""
    with reading(service.desk.ledger) as connection:
        return Response(market.show_model(connection, caller, campaign_id), media_type="application/json")


@router.get("/{campaign_id}/certificate", responses=_JSON)
def certificate(campaign_id: CampaignId, caller: AnyCaller, service: TheService) -> Response:
    """Give the certificate to the buyer, a seller or an auditor; 'dpmarket verify' checks it."""
    with reading(service.desk.ledger) as connection:
        found = market.show_certificate(connection, caller, campaign_id)
    return Response(found, media_type="application/json")


@router.get("/{campaign_id}/openings", responses=_JSON)
def openings(
    campaign_id: CampaignId, caller: Annotated[Caller, Depends(only("auditor"))], service: TheService
) -> Response:
    """Give an auditor what the certificate commits to. Confidential."""
    found = market.ask_for_openings(service.desk, caller, campaign_id, service.clock())
    return Response(found, media_type="application/json")


@router.get("/{campaign_id}/costs")
def costs(
    campaign_id: CampaignId, caller: Annotated[Caller, Depends(only("auditor"))], service: TheService
) -> models.ReportedCosts:
    """Give an auditor what an offline campaign was cleared by, to decide it again. Confidential."""
    rows = market.ask_for_costs(service.desk, caller, campaign_id, service.clock()).iter_rows(named=True)
    return models.ReportedCosts(costs=[models.ReportedCost(**row) for row in rows])


@router.get("/{campaign_id}/report", responses=_HTML)
def report(campaign_id: CampaignId, caller: AnyCaller, service: TheService) -> Response:
    """Give the report of a released campaign to its buyer or an auditor, as 'dpmarket report' writes it.

    One page of sums and of means over at least ten people, made once by a worker. 404 before that, and for a
    campaign with too few people.
    """
    with reading(service.desk.ledger) as connection:
        found = market.show_report(connection, caller, campaign_id)
    return Response(found, media_type="text/html; charset=utf-8")


@router.get("/{campaign_id}/figures")
def figures(campaign_id: CampaignId, caller: AnyCaller, service: TheService) -> models.Report:
    """Tell a released campaign in figures, with what the verifier says about its certificate."""
    from dpmarket.certificates import verify
    from dpmarket.report.promise import guess_after

    with reading(service.desk.ledger) as connection:
        sums = _totals(service, connection, caller, campaign_id)
        found = market.show_campaign(connection, caller, campaign_id)
        content = market.show_certificate(connection, caller, campaign_id)
    ceiling = float(found.ceiling or 0.0)
    checks = [
        models.Check.model_validate({"name": one.name, "verdict": one.verdict})
        for one in verify(content).checks
    ]
    return models.Report(
        title=found.title,
        state=found.state,
        totals=sums,
        largest_promise=ceiling,
        even_guess_becomes=math.ceil(1000 * guess_after(0.5, ceiling)) / 1000,
        certificate=checks,
    )


class Contradicting(Exception):
    """A market file whose keys contradict each other; ``paths`` says which."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__("contradicting")
        self.paths = paths


def told_contradictions(refusal: Contradicting, known: set[str]) -> Response:
    """Return what to say about keys that contradict each other: their places, without made-up names."""
    places = []
    for path in refusal.paths:
        parts = ["body", "market", *path.split(".")]
        places.append(".".join(part if part in known else "*" for part in parts))
    return problem(422, [(place, "contradiction") for place in dict.fromkeys(places)])


def _refuse_unless(
    service: Service, caller: Caller, campaign: str, roles: tuple[str, ...], buyers_may: str
) -> None:
    """Refuse who has neither one of these roles nor is the campaign's buyer, where buyers may."""
    with reading(service.desk.ledger) as connection:
        if caller.role in roles:
            market.campaign_of(connection, campaign)
            return
        if buyers_may == "buyer" and caller.role == "buyer":
            market.show_campaign(connection, caller, campaign)
            return
    raise MarketRefusal("unknown", "there is nothing here for this caller.")


def _totals(service: Service, connection: Connection, caller: Caller, campaign: str) -> models.Totals:
    found = market.show_sums(connection, caller, campaign, service.settings.terms)
    return models.Totals(**vars(found))


def _told(found: market.LiveCampaign) -> dict[str, Any]:
    """Return of a campaign what everybody may see who may see it at all."""
    names = [name for name in models.CampaignAnswer.model_fields if name != "id"]
    return {"id": found.campaign, **{name: getattr(found, name) for name in names}}
