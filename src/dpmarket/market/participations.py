"""Invite people, let them take part, and let them go again at any time before their promise is spent."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection, outside, withdraw
from dpmarket.ledger.engine import new_id
from dpmarket.ledger.places import id_of
from dpmarket.market import tables
from dpmarket.market.campaigns import campaign_of
from dpmarket.market.consent import consent_page
from dpmarket.market.deltas import hold_limits, refuse_many
from dpmarket.market.desk import Terms, lock_ledger, time_text
from dpmarket.market.events import enter_event
from dpmarket.market.people import person_for
from dpmarket.market.seating import call_waiting, leave, wait
from dpmarket.market.standing import look_at, move, refuse_campaign, refuse_outside, refused, standing_of
from dpmarket.market.statements import insert

ACTIVE = ("invited", "consented", "waiting", "seated", "reported", "quoted", "accepted", "delivered")
"""States of who can still withdraw."""


@dataclass(frozen=True)
class Invitation:
    """An invitation; the token is told once and not kept.

    Attributes
    ----------
    participation
        Its id.
    token
        256 random bits as text: whoever has it acts for this seller.
    """

    participation: str
    token: str

    def __repr__(self) -> str:
        return f"Invitation({self.participation!r})"


def invite(
    connection: Connection, campaign: str, panel_ids: Sequence[str], cap: float, now: datetime
) -> list[Invitation]:
    """Invite people, each once; return a token for each who was not invited before and may be invited.

    Parameters
    ----------
    panel_ids
        What the panel calls them; kept as a keyed digest only.
    cap
        The most epsilon that each gives over all campaigns; who is known already keeps their limit.
    now
        The time.

    Raises
    ------
    MarketRefusal
        The campaign is not open, or no longer.
    """
    found = campaign_of(connection, campaign)
    at = time_text(now)
    if found.state not in ("draft", "open") or at >= found.closes_at:
        raise MarketRefusal("state", "people can be invited until the campaign closes.")
    refuse_many(connection, found, len(panel_ids))
    made = []
    for panel_id in panel_ids:
        person = person_for(connection, panel_id, cap, now)
        wanted = sa.select(tables.person.c.invitations).where(tables.person.c.id == person)
        if not connection.execute(wanted).scalar_one():
            continue
        identity, token = new_id(), secrets.token_urlsafe(32)
        values = {"id": identity, "campaign": campaign, "person": person, "state": "invited", "made_at": at}
        entering = insert(connection, tables.participation, values).on_conflict_do_nothing()
        if connection.execute(entering.returning(tables.participation.c.id)).scalar() is None:
            continue
        owner = {"kind": "invitation", "participation": identity, "made_at": at}
        connection.execute(tables.token.insert().values(hash=token_hash(token), **owner))
        enter_event(connection, campaign, identity, "invited", at)
        made.append(Invitation(identity, token))
    return made


def participation_with(connection: Connection, token: str) -> str:
    """Return the participation that an invitation's token belongs to.

    Raises
    ------
    MarketRefusal
        No such token.
    """
    columns = tables.token.c
    query = sa.select(columns.participation).where(
        columns.hash == token_hash(token), columns.kind == "invitation", columns.revoked_at.is_(None)
    )
    found = connection.execute(query).scalar()
    if found is None:
        raise MarketRefusal("unknown", "there is no such invitation.")
    return str(found)


def give_consent(
    connection: Connection, participation: str, digest: str, now: datetime, language: str = "en"
) -> str:
    """Take part: agree to what the consent page says; return the state, ``consented`` or ``waiting``.

    The campaign's ceiling is held against the person's limit. If it has no room for it, the person waits,
    and is asked for nothing.

    Parameters
    ----------
    digest
        Of the page that was shown (:func:`~dpmarket.market.consent.consent_page`).
    now, language
        The time, and the language of the page.

    Raises
    ------
    MarketRefusal
        The page is another one by now, the person has consented or left before, or it is too early or late.
    """
    found, at = standing_of(connection, participation), time_text(now)
    refuse_campaign(found, "open")
    refuse_outside(at, found.opens_at, found.closes_at)
    if found.state != "invited":
        raise refused(("invited",))
    page = consent_page(connection, found.campaign, language)
    if page.digest != digest:
        raise MarketRefusal("invalid", "this is not the page that was shown: read it again.")
    agreed = {"consent_version": page.version, "consent_digest": digest, "consented_at": at}
    room = hold_limits(connection, found)
    if room:
        move(connection, participation, ("invited",), state="consented", held_epsilon=found.ceiling, **agreed)
    else:
        move(connection, participation, ("invited",), state="waiting", **agreed)
        wait(connection, found, "cap")
    enter_event(connection, found.campaign, participation, "consented", at)
    return "consented" if room else "waiting"


def withdraw_participation(
    connection: Connection, participation: str, now: datetime, terms: Terms | None = None
) -> str:
    """Leave a campaign; return ``withdrawn``, or ``no invitations`` where there is nothing left to undo.

    Before the training the quote lapses, its money is free, the record is deleted, and nobody else's promise
    changes. After it, or for who left before, it means no further invitations. That they left is logged
    outside of the ledger, so that a backup which is put back does not bring them back.

    Raises
    ------
    MarketRefusal
        The training is under way: the record is being used, and is paid.
    FileProblem
        The log cannot be written: nobody left.
    """
    person = look_at(connection, participation).person
    known = tables.person.c
    wanted = sa.select(known.invitations).where(known.id == person)
    lock_ledger(connection)
    was_wanted = connection.execute(wanted).scalar_one()
    done = let_go(connection, participation, now, terms or Terms())
    if done == "withdrawn":
        outside.append(id_of(connection), "", "left", about={"participation": participation})
    elif was_wanted:  # a line of the log stays for ever: one is enough
        outside.append(id_of(connection), "", "uninvited", about={"person": person})
    return done


def let_go(connection: Connection, participation: str, now: datetime, terms: Terms) -> str:
    """Do what :func:`withdraw_participation` does, without a line in the log."""
    lock_ledger(connection)  # if the round was entered, its withdrawals are the ledger's
    found, at = standing_of(connection, participation), time_text(now)
    if found.state not in ACTIVE:
        known = tables.person.c
        person = tables.person.update().where(known.id == found.person, known.invitations == 1)
        if connection.execute(person.values(invitations=0)).rowcount:  # said once, however often it is asked
            enter_event(connection, found.campaign, participation, "no further invitations", at)
        return "no invitations"
    if found.campaign_state == "training":
        raise MarketRefusal(
            "state", "the training is under way: your record is being used, and you are paid."
        )
    leave(connection, found, "withdrawn", at)
    if found.round is not None and found.state == "delivered":
        withdraw(connection, found.round, [found.person])
    call_waiting(connection, found.campaign, now, terms)
    return "withdrawn"


def token_hash(token: str) -> str:
    """Return what is kept of a token: its digest. Tokens are random, so that it needs no salt."""
    return hashlib.sha256(token.encode()).hexdigest()
