"""The paymaster's pages: what is owed, payouts as files, and what became of them."""

from __future__ import annotations

from datetime import date

import polars as pl
from fastapi import APIRouter, Request, Response

from dpmarket.campaign import views
from dpmarket.campaign.acts import ACTS
from dpmarket.campaign.bank_file import BankAccount, accounts_in
from dpmarket.campaign.rules.amounts import money_text
from dpmarket.errors import FileProblem, InvalidInput, MarketRefusal
from dpmarket.files.formulas import csv_text
from dpmarket.web.api import PayoutId, bank_file_of, lines_of
from dpmarket.web.auth import SignedMember, TheService
from dpmarket.web.pages.forms import Sent
from dpmarket.web.pages.member import HOME, Roles, frame
from dpmarket.web.pages.rendering import page, see
from dpmarket.web.pages.uploads import Uploaded

router = APIRouter(prefix=HOME, include_in_schema=False)
MONEY = f"{HOME}/money"


@router.get("/money")
def index(request: Request, caller: SignedMember, service: TheService, roles: Roles) -> Response:
    """List what is owed, on its way and paid out, campaign by campaign."""
    if "paymaster" not in roles:
        raise MarketRefusal("unknown", "There is nothing here for this caller.")
    with service.market.look() as c:
        found = views.list_money(c, caller)
    return page(request, "paying", **frame(roles), paying=found)


@router.get("/payouts/{payout}.csv")
def lines(payout: PayoutId, caller: SignedMember, service: TheService) -> Response:
    """Give a payout as a file: payee, amount and reference of every payment that is not confirmed."""
    found, made = lines_of(service, caller, payout)
    table = pl.DataFrame(
        {
            "reference": [line.reference for line in made.lines],
            "payee": [line.payee for line in made.lines],
            "amount": [money_text(one.amount, found.minor_units, "").replace(",", "") for one in made.lines],
            "currency": [found.currency] * len(made.lines),
        },
        schema=dict.fromkeys(("reference", "payee", "amount", "currency"), pl.String),
    )
    headers = {"Content-Disposition": f'attachment; filename="payout-{made.payout.number}.csv"'}
    return Response(csv_text(table), media_type="text/csv; charset=utf-8", headers=headers)


@router.post("/payouts/{payout}.xml")
def bank_file(payout: PayoutId, sent: Uploaded, caller: SignedMember, service: TheService) -> Response:
    """Give a payout as a file that banks take; the accounts that are sent are stored nowhere."""
    with service.market.look() as c:
        views.campaign_of_payout(c, caller, payout)  # refuses others before it says what is wrong
    try:
        payer = BankAccount(sent.form.text("name"), sent.form.text("iban"))
        day = date.fromisoformat(sent.form.text("day"))
        accounts = accounts_in(sent.files.get("accounts", b""))
    except (InvalidInput, FileProblem) as problem:
        raise MarketRefusal("invalid", str(problem)) from None
    except ValueError:
        raise MarketRefusal("invalid", "Expected a day, such as 2026-03-02.") from None
    content = bank_file_of(service, caller, payout, payer, accounts, day)
    headers = {"Content-Disposition": 'attachment; filename="payout.xml"'}
    return Response(content, media_type="application/xml", headers=headers)


@router.post("/payouts/{payout}/{act}")
def settle(payout: PayoutId, act: str, form: Sent, caller: SignedMember, service: TheService) -> Response:
    """Enter that payments arrived or came back: all of a payout, or those whose references are listed."""
    if act not in ("confirm", "returned"):
        raise MarketRefusal("unknown", "There is nothing here for this caller.")
    found, made = lines_of(service, caller, payout)
    listed = form.text("references").split() or [line.reference for line in made.lines]
    service.run(ACTS[act], caller, form.key, campaign=found.id, references=listed)
    return see(MONEY)
