"""Payouts: what sellers are owed as lines of payee and amount, and what became of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from fastapi import APIRouter, Response

from dpmarket import campaign, market
from dpmarket.campaign import BankAccount, Payment
from dpmarket.errors import InvalidInput, MarketRefusal
from dpmarket.ledger import Connection, reading
from dpmarket.ledger.payouts import waiting_in
from dpmarket.market import Caller
from dpmarket.web.api import models
from dpmarket.web.api.models import NeededKey, PayoutId, plain
from dpmarket.web.auth import Paymaster, TheService
from dpmarket.web.problems import documented
from dpmarket.web.service import Service

router = APIRouter(prefix="/api/v1/payouts", tags=["payouts"], responses=documented(401, 404, 422, 503))
_ACTING = documented(400, 403, 409, 413, 415)
_XML: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/xml": {"schema": {"type": "string"}}}}
}


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


@router.post("/{payout_id}/bank-file", responses=_ACTING | _XML)
def bank_file(payout_id: PayoutId, body: models.BankFile, caller: Paymaster, service: TheService) -> Response:
    """Give a payout in euros as an ISO 20022 file, pain.001, for a bank. Nothing of the request is kept."""
    try:
        day = date.fromisoformat(body.day)
        payer = BankAccount(body.payer.name, body.payer.iban)
        accounts = {one.payee: BankAccount(one.name, one.iban) for one in body.accounts}
    except (ValueError, InvalidInput):
        raise MarketRefusal("invalid", "expected a day, and accounts with owner and IBAN.") from None
    if len(accounts) != len(body.accounts):
        raise MarketRefusal("invalid", "expected every payee once.")
    content = bank_file_of(payout_id, caller, service, payer, accounts, day)
    return Response(content, media_type="application/xml")


def bank_file_of(
    payout: str,
    caller: Caller,
    service: Service,
    payer: BankAccount,
    accounts: Mapping[str, BankAccount],
    day: date,
) -> bytes:
    """Return a payout as a pain.001 file.

    Raises
    ------
    MarketRefusal
        It is not in euros, or somebody has no account.
    """
    with reading(service.desk.ledger) as connection:
        found, made = market.campaign_of_payout(connection, payout)
        waiting = waiting_in(connection, made)
    given = market.ask_for_payout(service.desk, caller, payout, service.clock())
    payments = [
        Payment(line.reference, line.payee, line.amount) for line in given if line.reference in waiting
    ]
    # By its references, which a restored ledger makes again: a bank knows the same file by this.
    lines = " ".join(sorted(line.reference for line in given))
    identity = hashlib.sha256(lines.encode()).hexdigest()[:32]
    try:
        return campaign.bank_file(
            payments, accounts, payer, identity, day, currency=found.currency, minor_units=found.minor_units
        )
    except InvalidInput as problem:
        raise MarketRefusal("invalid", str(problem)) from None


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
        return {"entered": entered, "known": len(set(body.references)) - entered}

    return models.Entered(**service.act(caller, key, {"confirm": payout_id, **plain(body)}, act))
