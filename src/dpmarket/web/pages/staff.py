"""The paymaster's pages, and the operators': payouts; members, failed jobs, mails' words, who did what."""

from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import polars as pl
from fastapi import APIRouter, Response

from dpmarket.campaign import bank_file as bank
from dpmarket.campaign import mail, views
from dpmarket.campaign.access import list_members
from dpmarket.campaign.acts import MEMBER_ROLES
from dpmarket.campaign.bank_file import FORMATS, BankAccount, read_accounts
from dpmarket.campaign.consent import last_version
from dpmarket.campaign.hooks import list_webhooks
from dpmarket.campaign.rules.meaning import in_decimals
from dpmarket.campaign.transaction import nothing
from dpmarket.campaign.views import list_campaigns, list_deeds, list_entries, list_failed
from dpmarket.errors import FileProblem, InvalidInput, MarketRefusal
from dpmarket.files.formulas import csv_text
from dpmarket.web.api import PayoutId, lines_of, payout_file
from dpmarket.web.pages.forms import Form, Sent
from dpmarket.web.pages.member import HOME, Visit, Visited
from dpmarket.web.pages.rendering import attached, see
from dpmarket.web.pages.texts import languages, texts_for

router = APIRouter(prefix=HOME, include_in_schema=False)


@router.get("/money")
def index(visit: Visited) -> Response:
    """List what is owed, on its way and paid out, campaign by campaign."""
    visit.need("paymaster")
    found = visit.look(views.list_money)
    entries = {one.id: visit.look(list_entries, one.id) for one, _ in found}
    return visit.page("paying", {"paying": found, "entries": entries, "formats": FORMATS})


@router.get("/payouts/{payout}.csv")
def lines(payout: PayoutId, visit: Visited) -> Response:
    """Give a payout as a file: payee, amount and reference of every payment that is not confirmed."""
    found, made = lines_of(visit.service, visit.caller, payout)
    columns = dict.fromkeys(("reference", "payee", "amount", "currency"), pl.String)
    rows = [
        (one.reference, one.payee, f"{in_decimals(one.amount, found.minor_units)}", found.currency)
        for one in made.lines
    ]
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
    write = partial(bank.bank_file, accounts=accounts, payer=payer, day=day)
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


def _of_member(form: Form) -> dict[str, Any]:
    return {"member": form.text("member")}


def _role(form: Form) -> dict[str, Any]:
    return {**_of_member(form), "role": form.text("role"), "of": form.text("of") or None}


def _member(form: Form) -> dict[str, Any]:
    subject, role = form.text("subject") or None, form.text("role")
    return {"name": form.text("name"), "roles": [role] if role else [], "subject": subject}


def _words(form: Form) -> dict[str, Any]:
    text = form.text("text").replace("\r\n", "\n")
    return {"kind": form.text("kind"), "texts": {form.text("language"): text}}


def _written(form: Form, kind: str) -> dict[str, str]:
    said = {one: form.text(f"{kind}.{one}").replace("\r\n", "\n") for one in languages()}
    return {one: text for one, text in said.items() if text}


FORMS: dict[str, Callable[[Form], dict[str, Any]]] = {
    "add_member": _member,
    "set_subject": lambda form: {**_of_member(form), "subject": form.text("subject")},
    **dict.fromkeys(("grant", "revoke_role"), _role),
    **dict.fromkeys(("link_member", "token_member", "end_member"), _of_member),
    "retry": lambda form: {"perhaps_sent": form.text("perhaps_sent") == "yes"},
    "add_mail_text": _words,
    "add_webhook": lambda form: {"url": form.text("url"), "of": form.text("of") or None},
    "end_webhook": lambda form: {"webhook": form.text("webhook")},
    "add_consent": lambda form: {"texts": _written(form, "consent"), "notices": _written(form, "notice")},
}
"""Operators' acts that pages run, and how each form is read."""


@router.get("/people")
def people(visit: Visited) -> Response:
    """Show members, failed jobs, and who did what."""
    return _people(visit)


@router.post("/people/{act}")
def run(act: str, form: Sent, visit: Visited) -> Response:
    """Run an operator's act; a new link or token is shown in this answer only."""
    visit.need("operator")
    if act not in FORMS:
        raise nothing()
    if act == "end_member" and form.text("confirmed") != "yes":
        return _people(visit, ending=form.text("member"))
    try:
        made = visit.run(act, form.key, FORMS[act](form))
    except MarketRefusal as refusal:
        if refusal.kind != "invalid":
            raise
        return _people(visit, problem=str(refusal))
    if act == "link_member":
        return _people(visit, shown=visit.service.link(made, of="login"))
    if act == "add_webhook":
        return _people(visit, shown=made.secret)
    return _people(visit, shown=made) if act == "token_member" else see(f"{HOME}/people")


def _people(visit: Visit, *, shown: str = "", problem: str = "", ending: str = "") -> Response:
    with visit.service.market.look() as c:
        found = {
            "failed": list_failed(c, visit.caller),
            "deeds": list_deeds(c, visit.caller),
            "members": list_members(c, visit.service.now),
            "campaigns": list_campaigns(c, visit.caller),
            "hooks": list_webhooks(c, visit.caller) if "operator" in visit.roles else [],
            "consent_version": last_version(c) or 0,
        }
    said = {"shown": shown, "problem": problem, "ending": ending, "known_roles": MEMBER_ROLES}
    written = [(one, str(texts_for(one)("language"))) for one in languages()]
    mails = {"mail_kinds": mail.KINDS, "spoken": languages(), "written": written}
    return visit.page("people", {**found, **said, **mails}, status=422 if problem else 200)
