"""The paymaster's pages: what is owed, payouts as files, and what became of them."""

from __future__ import annotations

from datetime import date

import polars as pl
from fastapi import APIRouter, Response

from dpmarket.campaign import views
from dpmarket.campaign.bank_file import FORMATS, BankAccount, bank_format, read_accounts
from dpmarket.campaign.rules.meaning import money_text
from dpmarket.campaign.transaction import nothing
from dpmarket.campaign.views import list_entries
from dpmarket.errors import FileProblem, InvalidInput, MarketRefusal
from dpmarket.files.formulas import csv_text
from dpmarket.web.api import PayoutId, lines_of, payout_file
from dpmarket.web.pages.forms import Sent
from dpmarket.web.pages.member import HOME, Visited
from dpmarket.web.pages.rendering import attached, see

router = APIRouter(prefix=HOME, include_in_schema=False)


@router.get("/money")
def index(visit: Visited) -> Response:
    """List what is owed, on its way and paid out, campaign by campaign."""
    visit.need("paymaster")
    found = visit.look(views.list_money)
    entries = {one.id: visit.look(list_entries, one.id) for one, _ in found}
    return visit.page("paying", {"paying": found, "entries": entries})


@router.get("/payouts/{payout}.csv")
def lines(payout: PayoutId, visit: Visited) -> Response:
    """Give a payout as a file: payee, amount and reference of every payment that is not confirmed."""
    found, made = lines_of(visit.service, visit.caller, payout)
    columns = dict.fromkeys(("reference", "payee", "amount", "currency"), pl.String)
    rows = []
    for one in made.lines:
        amount = money_text(one.amount, found.minor_units, "").replace(",", "")
        rows.append((one.reference, one.payee, amount, found.currency))
    table = pl.DataFrame(rows, schema=columns, orient="row")
    return attached(f"payout-{made.payout.number}.csv", csv_text(table))


@router.get("/payouts/{payout}/{kind}.csv")
def bonus_file(payout: PayoutId, kind: str, visit: Visited) -> Response:
    """Give a payout as a file for a gift-card provider, or for a panel's bonuses."""
    if kind not in FORMATS:
        raise nothing()
    return attached(f"{kind}.csv", payout_file(visit.service, visit.caller, payout, kind))


@router.post("/payouts/{payout}.xml")
def bank_file(payout: PayoutId, form: Sent, visit: Visited) -> Response:
    """Give a payout as a file that banks take; the accounts that are sent are stored nowhere."""
    visit.look(views.campaign_of_payout, payout)  # refuses others before it says what is wrong
    try:
        payer = BankAccount(form.text("name"), form.text("iban"))
        day = date.fromisoformat(form.text("day"))
        accounts = read_accounts(form.files.get("accounts", b""))
    except (InvalidInput, FileProblem) as problem:
        raise MarketRefusal("invalid", str(problem)) from None
    except ValueError:
        raise MarketRefusal("invalid", "Expected a day, such as 2026-03-02.") from None
    write = bank_format(payer, accounts, day)
    return attached("payout.xml", payout_file(visit.service, visit.caller, payout, write))


@router.post("/payouts/{payout}/{act}")
def settle(payout: PayoutId, act: str, form: Sent, visit: Visited) -> Response:
    """Enter that payments arrived or came back: all of a payout, or those whose references are listed."""
    if act not in ("confirm", "returned"):
        raise nothing()
    found, made = lines_of(visit.service, visit.caller, payout)
    listed = form.text("references").split() or [line.reference for line in made.lines]
    visit.run(act, form.key, {"references": listed}, found.id)
    return see(f"{HOME}/money")
