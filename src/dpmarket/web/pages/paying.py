"""The paymaster's pages: what is owed, payouts as files, and what became of them."""

from __future__ import annotations

import csv
import io
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from dpmarket import market
from dpmarket.campaign import BankAccount, accounts_in, money_text
from dpmarket.errors import FileProblem, InvalidInput, MarketRefusal
from dpmarket.ledger import reading
from dpmarket.market import Caller
from dpmarket.web.api import campaigns, models, payouts
from dpmarket.web.api.models import CampaignId, PayoutId
from dpmarket.web.auth import TheService
from dpmarket.web.pages.buying import amount_in
from dpmarket.web.pages.forms import Sent
from dpmarket.web.pages.looking import session_of
from dpmarket.web.pages.rendering import page, see
from dpmarket.web.pages.uploads import Uploaded

router = APIRouter(prefix="/p", include_in_schema=False)
HOME = "/p"
SignedPaymaster = Annotated[Caller, Depends(session_of("paymaster"))]
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@router.get("")
def index(request: Request, caller: SignedPaymaster, service: TheService) -> Response:
    """List what is owed, on its way and paid out, campaign by campaign."""
    with reading(service.desk.ledger) as connection:
        found = market.list_paying(connection, caller)
    return page(request, "paying", role=caller.role, title=None, home=HOME, wide=True, paying=found)


@router.post("/{campaign_id}/payout")
def make(campaign_id: CampaignId, form: Sent, caller: SignedPaymaster, service: TheService) -> Response:
    """Enter all that a campaign's sellers are owed as a new payout."""
    payouts.make(models.NewPayout(campaign=campaign_id), caller, service, form.key)
    return see(HOME)


@router.post("/{campaign_id}/fund")
def fund(campaign_id: CampaignId, form: Sent, caller: SignedPaymaster, service: TheService) -> Response:
    """Enter that money has arrived for a campaign."""
    with reading(service.desk.ledger) as connection:
        found = market.campaign_of(connection, campaign_id)
    amount = amount_in(form.text("amount"), found.minor_units)
    campaigns.fund(campaign_id, models.Amount(amount=amount), caller, service, form.key)
    return see(HOME)


@router.post("/{campaign_id}/refund")
def refund(campaign_id: CampaignId, form: Sent, caller: SignedPaymaster, service: TheService) -> Response:
    """Enter that what is left of a campaign's money went back to its buyer."""
    with reading(service.desk.ledger) as connection:
        found = market.campaign_of(connection, campaign_id)
    amount = amount_in(form.text("amount"), found.minor_units)
    campaigns.refund(campaign_id, models.Amount(amount=amount), caller, service, form.key)
    return see(HOME)


@router.get("/payout/{payout_id}.csv")
def lines(payout_id: PayoutId, caller: SignedPaymaster, service: TheService) -> Response:
    """Give a payout as a file: payee, amount and reference of every payment."""
    with reading(service.desk.ledger) as connection:
        found, made = market.campaign_of_payout(connection, payout_id)
    told = payouts.lines(payout_id, caller, service)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["reference", "payee", "amount", "currency"])
    for line in told.lines:
        amount = money_text(line.amount, found.minor_units, "").replace(",", "")
        writer.writerow([line.reference, harmless(line.payee or ""), amount, found.currency])
    name = f"payout-{made.number}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


@router.post("/payout/{payout_id}.xml")
def bank_file(payout_id: PayoutId, sent: Uploaded, caller: SignedPaymaster, service: TheService) -> Response:
    """Give a payout as a file that banks take; the accounts that are sent are kept nowhere."""
    try:
        payer = BankAccount(sent.form.text("name"), sent.form.text("iban"))
        day = date.fromisoformat(sent.form.text("day"))
        accounts = accounts_in(sent.files.get("accounts", b""))
    except (InvalidInput, FileProblem) as problem:
        raise MarketRefusal("invalid", str(problem)) from None
    except ValueError:
        raise MarketRefusal("invalid", "expected a day, such as 2026-03-02.") from None
    content = payouts.bank_file_of(payout_id, caller, service, payer, accounts, day)
    headers = {"Content-Disposition": f'attachment; filename="payout-{payout_id[:8]}.xml"'}
    return Response(content, media_type="application/xml", headers=headers)


@router.post("/payout/{payout_id}/confirmation")
def confirm(payout_id: PayoutId, form: Sent, caller: SignedPaymaster, service: TheService) -> Response:
    """Enter that payments were made or came back: all of a payout, or those whose references are listed."""
    kind = form.text("kind")
    if kind not in ("confirmed", "returned"):
        raise MarketRefusal("invalid", "expected that payments were confirmed or returned.")
    listed = form.text("references").split()
    if not listed:
        listed = [line.reference for line in payouts.lines(payout_id, caller, service).lines]
    body = models.Confirmation.model_validate({"kind": kind, "references": listed})
    payouts.confirm(payout_id, body, caller, service, form.key)
    return see(HOME)


def harmless(cell: str) -> str:
    """Return a cell that no table program takes for a formula.

    Examples
    --------
    >>> harmless("=1+1"), harmless("ann")
    ("'=1+1", 'ann')
    """
    return f"'{cell}" if cell.startswith(_FORMULAS) else cell
