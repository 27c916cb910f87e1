"""Payouts: what sellers are owed as lines of payee and amount, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter

from dpmarket import market
from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, reading
from dpmarket.web.api import models
from dpmarket.web.api.models import NeededKey, PayoutId, plain
from dpmarket.web.auth import Paymaster, TheService
from dpmarket.web.problems import documented

router = APIRouter(prefix="/api/v1/payouts", tags=["payouts"], responses=documented(401, 404, 422, 503))
_ACTING = documented(400, 403, 409, 413, 415)


@router.get("")
def index(caller: Paymaster, service: TheService) -> models.PayingList:
    """List what is owed, on its way and paid out, campaign by campaign."""
    with reading(service.desk.ledger) as connection:
        found = market.list_paying(connection, caller)
    told = []
    for one in found:
        names = ("campaign", "title", "state", "currency", "minor_units")
        told.append(
            models.PayingAnswer(
                **{name: getattr(one.campaign, name) for name in names},
                owed=one.balance.owed,
                on_its_way=one.balance.on_its_way,
                paid_out=one.balance.paid_out,
                payouts=[models.PayoutAnswer(**vars(made)) for made in one.payouts],
            )
        )
    return models.PayingList(campaigns=told)


@router.post("", status_code=201, responses=_ACTING)
def make(
    body: models.NewPayout, caller: Paymaster, service: TheService, key: NeededKey
) -> models.PayoutAnswer:
    """Enter all that a campaign's sellers are owed as a new payout."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        return vars(market.enter_payout(connection, caller, body.campaign, now))

    return models.PayoutAnswer(**service.act(caller, key, {"payout": plain(body)}, act))


@router.get("/{payout_id}")
def lines(payout_id: PayoutId, caller: Paymaster, service: TheService) -> models.PayoutLines:
    """Give the lines of a payout: whom to pay how much, by which reference."""
    with reading(service.desk.ledger) as connection:
        _, made = market.campaign_of_payout(connection, payout_id)
    given = market.ask_for_payout(service.desk, caller, payout_id, service.clock())
    return models.PayoutLines(
        payout=models.PayoutAnswer(**vars(made)),
        lines=[models.PayoutLineAnswer(**vars(line)) for line in given],
    )


@router.post("/{payout_id}/confirmation", responses=_ACTING)
def confirm(
    payout_id: PayoutId, body: models.Confirmation, caller: Paymaster, service: TheService, key: NeededKey
) -> models.Entered:
    """Enter that payments of a payout were made, or that they came back and are owed again."""

    def act(connection: Connection, now: datetime) -> Mapping[str, Any]:
        found, made = market.campaign_of_payout(connection, payout_id)
        known = market.references_of(connection, made)
        if not known.issuperset(body.references):
            raise MarketRefusal("invalid", "expected references of this payout.")
        campaign = found.campaign
        entered = market.enter_payments_in(connection, caller, campaign, body.kind, body.references, now=now)
        return {"entered": entered}

    return models.Entered(**service.act(caller, key, {"confirm": payout_id, **plain(body)}, act))
