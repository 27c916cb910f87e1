"""Operators' pages: members with their roles and ways to sign in, failed jobs, mails' words, who did what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Response

from dpmarket.campaign import mail
from dpmarket.campaign.access import list_members
from dpmarket.campaign.acts import MEMBER_ROLES
from dpmarket.campaign.consent import last_version
from dpmarket.campaign.hooks import list_webhooks
from dpmarket.campaign.transaction import nothing
from dpmarket.campaign.views import list_campaigns, list_deeds, list_failed
from dpmarket.errors import MarketRefusal
from dpmarket.web.pages.forms import Form, Sent
from dpmarket.web.pages.member import HOME, Visit, Visited
from dpmarket.web.pages.rendering import see
from dpmarket.web.pages.texts import languages, texts_for

router = APIRouter(prefix=HOME, include_in_schema=False)


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
