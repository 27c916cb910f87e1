"""What sellers do, one act each: consent, accept, decline, undo, deliver, withdraw, name a payee.

Consenting holds the campaign's ceiling of a person's lifetime limits, so that no later act is refused for
lack of room. Withdrawing is logged outside of the database: a backup that is put back does not bring
people back who left.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Annotated, Any

import pydantic
import sqlalchemy as sa

from dpmarket.campaign import people, schema
from dpmarket.campaign.acts import (
    PARTICIPATION,
    Caller,
    Participation,
    Text,
    Tx,
    act,
    campaign_of,
    lock_campaign,
    move,
)
from dpmarket.campaign.campaigns import ENDED, describe, rules_of
from dpmarket.campaign.consent import consent_page
from dpmarket.campaign.line import refuse_outside
from dpmarket.campaign.participations import leave
from dpmarket.campaign.seal import seal
from dpmarket.errors import MarketRefusal

MOST_AT_ONCE = 1000
"""People in one line of the log, and in one call of ``invite``."""
_own, _seller, _person = schema.participation.c, schema.seller.c, schema.person.c
Ids = Annotated[list[Text], pydantic.Field(max_length=10**6)]


@dataclass(frozen=True)
class Invitation:
    """A new participation: the id as the operator wrote it, and the link's token, which is shown once.

    Without a token the link goes to the person by mail, and to nobody else.
    """

    id: str
    participation: int
    token: str | None


def token_hash(token: str) -> str:
    """Return what the database stores of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


@act("operator")
def invite(
    tx: Tx,
    caller: Caller,
    campaign: int,
    ids: Ids,
    group: str | None = None,
    mailed: bool = False,  # noqa: FBT001, FBT002
) -> list[Invitation]:
    """Invite people by their ids; those who take part already or asked for no invitations are left out.

    With ``mailed``, people whose id is an e-mail address get their link by mail.
    """
    found = campaign_of(tx.c, campaign)
    if found.channel != "live" or found.state not in ("draft", "open"):
        raise MarketRefusal("state", "People are invited to live campaigns that have not closed.")
    if len(ids) > MOST_AT_ONCE:
        raise MarketRefusal("invalid", f"Invite at most {MOST_AT_ONCE} people at once.")
    pool = "escrow" if group is None else f"escrow/{group}"
    account = schema.account.c
    known = sa.select(account.name).where(account.campaign == campaign, account.name == pool)
    if tx.c.execute(known).first() is None:
        raise MarketRefusal("invalid", "This campaign has no such group.")
    made = []
    named = dict(zip(people.person_digests(tx.market_key, ids), ids, strict=True))
    for digest in sorted(named):
        person = people.enter_person(tx, digest)
        if not tx.c.execute(sa.select(_person.invitable).where(_person.id == person)).scalar_one():
            continue
        new = tx.insert(schema.participation).values(
            campaign=campaign, person=person, state="invited", pool=pool, since=tx.now
        )
        identity = tx.c.execute(new.on_conflict_do_nothing().returning(_own.id)).scalar()
        if identity is not None:
            tx.event(campaign, "invited", int(identity))
            made.append(_invitation(tx, int(identity), named[digest], mailed and is_address(named[digest])))
    order = {name: place for place, name in enumerate(ids)}
    return sorted(made, key=lambda one: order[one.id])


def _invitation(tx: Tx, identity: int, name: str, mailed: bool) -> Invitation:  # noqa: FBT001
    values: dict[str, Any] = {"participation": identity}
    if mailed:
        values["contact"] = _sealed_to_operator(tx, name, "contact", identity)
        tx.job("invitation", identity, tx.now, lane="mail")
    tx.c.execute(schema.seller.insert(), values)
    return Invitation(name, identity, None if mailed else new_link(tx, identity))


def is_address(text: str) -> bool:
    """Whether a text is an e-mail address.

    Examples
    --------
    >>> is_address("zoe@example.org"), is_address("panel 7")
    (True, False)
    """
    return (
        len(text) <= 254
        and re.fullmatch(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:]+\.[^\s@<>,;:.]+", text) is not None
    )


def new_link(tx: Tx, participation: int) -> str:
    """Return the token of a new link of a seller; it is shown once."""
    token = secrets.token_urlsafe(32)
    values = {"kind": "invitation", "participation": participation, "made_at": tx.now}
    tx.c.execute(schema.token.insert(), {"hash": token_hash(token), **values})
    return token


@act("operator")
def reissue_links(tx: Tx, caller: Caller, campaign: int, ids: Ids) -> list[Invitation]:
    """Revoke sellers' links and sessions, and return new links; without their addresses nothing is mailed."""
    revoke_links(tx, caller, campaign, ids)
    return [Invitation(name, me.id, new_link(tx, me.id)) for name, me in _participations(tx, campaign, ids)]


@act("operator")
def revoke_links(tx: Tx, caller: Caller, campaign: int, ids: Ids) -> int:
    """Revoke sellers' links and sessions; return how many sellers take part."""
    found = _participations(tx, campaign, ids)
    token = schema.token.c
    for _, me in found:
        mine = sa.and_(token.participation == me.id, token.revoked_at.is_(None))
        tx.c.execute(schema.token.update().where(mine).values(revoked_at=tx.now))
    return len(found)


def _participations(tx: Tx, campaign: int, ids: list[str]) -> list[tuple[str, Participation]]:
    """Return the participations of people in a campaign, by their ids; others are left out."""
    if len(ids) > MOST_AT_ONCE:
        raise MarketRefusal("invalid", f"Name at most {MOST_AT_ONCE} people at once.")
    named = dict(zip(people.person_digests(tx.market_key, ids), ids, strict=True))
    query = (
        PARTICIPATION.add_columns(_person.digest)
        .join(schema.person, _person.id == _own.person)
        .where(_own.campaign == campaign, _person.digest.in_(list(named)))
        .order_by(_own.id)
    )
    return [(named[bytes(row[-1])], Participation(*row[:-1])) for row in tx.c.execute(query)]


@act("seller")
def consent(tx: Tx, me: Participation, page: Text, language: str = "en") -> str:
    """Agree to the consent page of this digest; return ``consented``, or ``waiting`` for a lifetime limit."""
    refuse_outside(tx, me, "open")
    if me.state != "invited":
        raise MarketRefusal("state", "This seller consented already, or has left.")
    shown = consent_page(tx.c, campaign_of(tx.c, me.campaign), language)
    if not secrets.compare_digest(page.encode(), shown.page.encode()):
        raise MarketRefusal("invalid", "The page has changed since it was shown; read it again.")
    tx.c.execute(
        schema.seller.update()
        .where(_seller.participation == me.id)
        .values(language=language, consent_digest=page, consented_at=tx.now)
    )
    return _enter_with_limits(tx, me)


def _enter_with_limits(tx: Tx, me: Participation) -> str:
    values: dict[str, Any]
    if people.hold_limits(tx, me.person, me.ceiling, me.delta):
        state, values = "consented", {"epsilon_held": me.ceiling}
    else:
        state, values = "waiting", {"reason": "cap"}
    move(tx, me, state, since=tx.now, **values)
    tx.event(me.campaign, "consented", me.id)
    return state


@act("seller")
def accept(tx: Tx, me: Participation) -> None:
    """Accept a quote in time."""
    _refuse_late(tx, me)
    if me.state == "accepted":
        return
    if me.state != "quoted":
        raise MarketRefusal("state", "Only sellers with a quote can accept.")
    if me.until is not None and me.until <= tx.now:
        raise MarketRefusal("expired", "The time to accept this quote is over.")
    move(tx, me, "accepted", tx.new_event(me.campaign, "accepted", me.id), until=None)


def _refuse_late(tx: Tx, me: Participation) -> None:
    """Refuse what comes after the campaign has closed; online, quotes outlive the time to choose."""
    if me.campaign_state not in ("open", "offered"):
        raise MarketRefusal("state", "The campaign has closed.")
    if me.deliver_until is not None and tx.now >= me.deliver_until:
        raise MarketRefusal("expired", "The campaign has closed.")


@act("seller")
def decline(tx: Tx, me: Participation) -> None:
    """Decline to take part, or a quote; it can be undone until the campaign closes."""
    if me.state not in ("invited", "consented", "waiting", "reserved", "quoted"):
        raise MarketRefusal("state", "Only sellers who have not accepted can decline.")
    if me.campaign_state not in ("draft", "open", "offered", "unpaid"):
        raise MarketRefusal("state", "The campaign has closed.")
    leave(tx, me, "declined")


@act("seller")
def undo(tx: Tx, me: Participation) -> str:
    """Take "no, thank you" back while the campaign is open: room and limits as at first; return the state."""
    refuse_outside(tx, me, "open")
    if me.state != "declined":
        raise MarketRefusal("state", "Only sellers who declined can undo that.")
    query = sa.select(_seller.consented_at).where(_seller.participation == me.id)
    if tx.c.execute(query).scalar() is not None:
        return _enter_with_limits(tx, me)
    move(tx, me, "invited", since=tx.now)
    tx.event(me.campaign, "undone", me.id)
    return "invited"


@act("seller")
def deliver(tx: Tx, me: Participation, record: bytes) -> None:
    """Send a record, encoded by the public rules, sealed to the campaign's key; a second one replaces it."""
    _refuse_late(tx, me)
    if me.state not in ("accepted", "delivered"):
        raise MarketRefusal("state", "Only sellers who accepted can send a record.")
    width = rules_of(campaign_of(tx.c, me.campaign)).get("record_bytes")
    if width is not None and len(record) != width:
        raise MarketRefusal("invalid", "The record is not encoded by the campaign's rules.")
    put_sealed(tx, me, "record", record)
    if me.state == "accepted":
        move(tx, me, "delivered")
        tx.event(me.campaign, "delivered", me.id)


def put_sealed(tx: Tx, me: Participation, kind: str, content: bytes) -> None:
    """Seal something of a seller's to the campaign's key, in place of what was there."""
    if me.public_key is None:
        raise MarketRefusal("early", "The campaign has no key yet.")
    body = seal(bytes(me.public_key), content, kind, str(me.campaign), str(me.id))
    put = tx.insert(schema.sealed).values(participation=me.id, kind=kind, body=body, at=tx.now)
    again = {"body": body, "at": tx.now}
    tx.c.execute(put.on_conflict_do_update(index_elements=["participation", "kind"], set_=again))


@act("seller")
def withdraw(tx: Tx, me: Participation, no_invitations: bool = False) -> None:  # noqa: FBT001, FBT002
    """Leave a campaign before its training; the record is deleted."""
    if me.campaign_state == "training":
        raise MarketRefusal("state", "The training runs; it cannot be stopped, and you are paid.")
    if me.campaign_state in ENDED or me.state not in schema.ACTIVE:
        raise MarketRefusal("state", "This participation has ended.")
    leave(tx, me, "withdrawn")
    if no_invitations:
        tx.c.execute(schema.person.update().where(_person.id == me.person).values(invitable=0))
    digest = tx.c.execute(sa.select(_person.digest).where(_person.id == me.person)).scalar_one()
    found = campaign_of(tx.c, me.campaign)
    tx.commit_point(
        "withdrawn",
        campaign=describe(found),
        people=[bytes(digest).hex()],
        no_invitations=no_invitations,
    )


@act("seller")
def end_invitations(tx: Tx, me: Participation) -> None:
    """Ask for no further invitations; what was sold stays sold."""
    tx.c.execute(schema.person.update().where(_person.id == me.person).values(invitable=0))


@act("operator")
def withdraw_people(tx: Tx, caller: Caller, campaign: int, ids: Ids) -> int:
    """Take people out of a campaign before its training, by their ids; return how many left now."""
    found = lock_campaign(tx, campaign)
    if found.state in ("training", *ENDED):
        raise MarketRefusal("state", "The training has begun or the campaign has ended.")
    left = []
    for digest in sorted(set(people.person_digests(tx.market_key, ids))):
        query = PARTICIPATION.join(schema.person, _person.id == _own.person).where(
            _person.digest == digest, _own.campaign == campaign
        )
        row = tx.c.execute(query).one_or_none()
        if row is not None and row.state in schema.ACTIVE:
            leave(tx, Participation(*row), "withdrawn")
            left.append(digest.hex())
    for first in range(0, len(left), MOST_AT_ONCE):
        some = left[first : first + MOST_AT_ONCE]
        tx.commit_point("withdrawn", campaign=describe(found), people=some, no_invitations=False)
    return len(left)


@act("seller")
def set_payee(tx: Tx, me: Participation, payee: Text) -> None:
    """Name the account that a payment goes to, until it is in a payout; check digits of an IBAN must fit."""
    if me.payout is not None:
        raise MarketRefusal("state", "The payment is on its way; the payee can no longer be changed.")
    if looks_like_iban(payee) and not is_iban(payee):
        raise MarketRefusal("invalid", "This IBAN has a typing error: its check digits do not fit.")
    body = _sealed_to_operator(tx, payee, "payee", me.id)
    tx.c.execute(schema.seller.update().where(_seller.participation == me.id).values(payee=body))


@act("seller")
def set_contact(tx: Tx, me: Participation, contact: Text) -> None:
    """Name the e-mail address that mails go to, sealed to the operator's key."""
    if not is_address(contact):
        raise MarketRefusal("invalid", "Expected an e-mail address.")
    body = _sealed_to_operator(tx, contact, "contact", me.id)
    tx.c.execute(schema.seller.update().where(_seller.participation == me.id).values(contact=body))


def _sealed_to_operator(tx: Tx, text: str, kind: str, participation: int) -> bytes:
    if tx.row.operator_key is None:
        raise MarketRefusal("early", "The operator's key is not set up yet.")
    return seal(bytes(tx.row.operator_key), text.encode(), kind, str(participation))


def looks_like_iban(payee: str) -> bool:
    """Whether a text begins as an IBAN does."""
    return re.match(r"^[A-Za-z]{2}\d{2}[A-Za-z0-9 ]{8,}$", payee.strip()) is not None


def is_iban(payee: str) -> bool:
    """Whether a text is an IBAN, by its check digits (ISO 7064, modulus 97).

    Examples
    --------
    >>> is_iban("DE89 3704 0044 0532 0130 00"), is_iban("DE89 3704 0044 0532 0130 01")
    (True, False)
    """
    plain = payee.replace(" ", "").upper()
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", plain):
        return False
    return int("".join(str(int(letter, 36)) for letter in plain[4:] + plain[:4])) % 97 == 1
