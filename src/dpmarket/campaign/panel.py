"""People from a panel: signed links, screening before consent, and how their part ended for the panel.

A link is signed with a secret of its campaign alone: altered, or taken to another campaign, it fits nothing.
Of the answers to screening questions only the group is stored, or that somebody was screened out.
"""

import hashlib
import hmac
import re
from typing import Annotated

import pydantic
import sqlalchemy as sa

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.acts import Caller, act, refuse_others, shown_id
from dpmarket.campaign.line import end_full, refuse_unless_open
from dpmarket.campaign.money import leave
from dpmarket.campaign.opening import rules_of
from dpmarket.campaign.rules.screening import Panel, group_of
from dpmarket.campaign.sellers import enter_seller, lacks_screening, participation_by
from dpmarket.campaign.transaction import Campaign, Participation, Tx, campaign_of, nothing, require

_seller = schema.seller.c
PID = r"^[A-Za-z0-9._~-]{1,100}$"  # the panel's id of a person: what an address holds as it is
Answers = Annotated[list[Annotated[int, pydantic.Field(ge=0, le=50)]], pydantic.Field(max_length=50)]


def secret_of(key: bytes, campaign: int) -> str:
    """Return the secret with which a campaign's links are signed, a function of the market's key."""
    made = hashlib.blake2b(campaign.to_bytes(8, "big"), key=key, digest_size=32, person=b"panel links")
    return made.hexdigest()


def signature(secret: str, campaign: int, pid: str) -> str:
    """Return the signature of a person's link: HMAC-SHA256 of the campaign's id, a colon and the panel's id.

    >>> signature("5e", 1, "p7")[:16]
    '395d8a49c99cd4c9'
    """
    return hmac.new(secret.encode(), f"{shown_id(campaign)}:{pid}".encode(), hashlib.sha256).hexdigest()


def show_secret(c: sa.Connection, caller: Caller, campaign: int) -> str | None:
    """Return the secret of a campaign's links to an operator; None without a panel.

    With it one can act for everybody who comes by such a link: a buyer must not have it.
    """
    refuse_others(c, caller, "operator", campaign=campaign)
    has_panel = _panel_of(campaign_of(c, campaign)) is not None
    key = c.execute(sa.select(schema.market.c.key)).scalar_one()
    return secret_of(key, campaign) if has_panel else None


def enter(tx: Tx, campaign: int, pid: str, sig: str | None, known: int | None) -> Caller:
    """Return the seller whom a panel's link names, entered as invited if new.

    ``known`` is the participation that the same browser is signed in as. An unsigned link is nobody's proof:
    it enters a person once, and then only the browser that used it goes on.
    """
    found = tx.campaign(campaign)
    panel = _panel_of(found)
    if panel is None or found.channel != "live" or re.fullmatch(PID, pid) is None:
        raise nothing()
    right = signature(secret_of(tx.market_key, campaign), campaign, pid)
    signed = sig is not None and hmac.compare_digest(right.encode(), sig.encode())
    if not signed and (sig is not None or not panel.unsigned):
        raise nothing()
    digest = digest_of_pid(tx.market_key, panel, pid)
    mine = participation_by(tx, campaign, digest)
    if mine is None:
        return Caller(participation=_enter(tx, found, panel, digest, pid))
    require(signed or mine.id == known, "state", "This link was used before, in another browser.")
    return Caller(participation=mine.id)


def _enter(tx: Tx, found: Campaign, panel: Panel, digest: bytes, pid: str) -> int:
    require(found.state != "draft", "early", "The campaign has not begun.")
    is_over = found.state != "open" or (found.closes_at is not None and tx.now >= found.closes_at)
    require(not is_over, "expired", "The time to take part is over.")
    person = people.enter_person(tx, digest)
    payee = pid if panel.payee == "pid" else None
    identity = enter_seller(tx, found.id, person, panel=1, payee=payee)
    require(identity is not None, "state", "This link is being used in another window; try again.")
    return identity or 0


def digest_of_pid(key: bytes, panel: Panel, pid: str) -> bytes:
    """Return the digest by which a person of a panel is known."""
    return people.person_digest(key, f"{panel.name}:{pid}")


def _panel_of(found: Campaign) -> Panel | None:
    return None if found.channel != "live" or '"panel":' not in found.rules else rules_of(found).panel


@act("seller")
def screen(tx: Tx, me: Participation, answers: Answers) -> str:
    """Answer all screening questions, by the numbers of the answers, from 0; return the state.

    The answers are stored nowhere. ``screened_out``: this person cannot take part, or the group is full.
    """
    refuse_unless_open(tx, me)
    require(me.state == "invited", "state", "Only sellers who have not consented can do this.")
    found = tx.campaign(me.campaign)
    lacks = lacks_screening(found, me)
    require(lacks, "state", "There are no questions, or they were answered already.")
    rules = rules_of(found)
    fits = [len(one.answers) for one in rules.screening]
    is_right = len(answers) == len(fits) and all(a < n for a, n in zip(answers, fits, strict=True))
    require(is_right, "invalid", f"Expected an answer to each of {len(fits)} questions.")
    group = group_of(rules.screening, answers)
    if group is None:
        return _screen_out(tx, me, "answers")
    tx.set(schema.seller, _seller.participation == me.id, screened_at=tx.now)
    if group:
        tx.move(me, "invited", pool=money.pool_of(group))
        me = tx.participation(me.id)
        if end_full(tx, me):
            return "screened_out"
        free, places = money.room_by_pool(tx.c, me.campaign)[me.pool]
        if me.panel and (free < (me.largest or 0) or places == 0):  # a reservation takes both
            return _screen_out(tx, me, "full")
    tx.event(me.campaign, "screened", me.id)
    return "invited"


def _screen_out(tx: Tx, me: Participation, reason: str) -> str:
    leave(tx, me, "screened_out", reason=reason)
    return "screened_out"
