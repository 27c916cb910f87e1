"""What sellers do, one act each: consent, accept, decline, undo, deliver, withdraw, name a payee.

Consenting holds the campaign's ceiling of a person's lifetime limits, so that no later act is refused for
lack of room. Withdrawing is logged outside of the database, so that no backup brings people back.
"""

import re
import secrets
from dataclasses import dataclass
from typing import Annotated

import pydantic
import sqlalchemy as sa

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.access import issue_token
from dpmarket.campaign.acts import Caller, Text, act
from dpmarket.campaign.bank_file import is_iban
from dpmarket.campaign.campaigns import ENDED, describe, rules_of
from dpmarket.campaign.consent import consent_page
from dpmarket.campaign.line import end_full, refuse_unless_open
from dpmarket.campaign.money import leave
from dpmarket.campaign.partitions import enter_rows
from dpmarket.campaign.seal import seal
from dpmarket.campaign.transaction import PARTICIPATION, Campaign, Participation, Tx, lock_campaign, require

MOST_AT_ONCE = 1000  # people in one line of the log, and in one call of ``invite``
_own, _seller, _person = schema.participation.c, schema.seller.c, schema.person.c
Ids = Annotated[list[Text], pydantic.Field(max_length=10**6)]


@dataclass(frozen=True)
class Invitation:
    """A new participation; its token, shown once, is None where the link goes by mail."""

    id: str
    participation: int
    token: str | None


@act("operator")
def invite(
    tx: Tx,
    caller: Caller,
    campaign: int,
    ids: Ids,
    group: str | None = None,
    mailed: bool = False,  # noqa: FBT001, FBT002
) -> list[Invitation]:
    """Invite people by their ids, with ``mailed`` by mail; those who take part or want none are left out."""
    found = tx.campaign(campaign)
    is_invited = found.channel == "live" and found.state in ("draft", "open")
    require(is_invited, "state", "People are invited to live campaigns that have not closed.")
    named, pool = _digests(tx, ids), money.pool_of(group)
    require(pool in money.room_by_pool(tx.c, campaign), "invalid", "This campaign has no such group.")
    rules = rules_of(found)
    asked = any(question.get("groups") for question in rules.get("screening", ()))
    sorts = group is not None or asked or not rules.get("groups")
    require(sorts, "invalid", "This campaign has groups: say which one these people belong to.")
    made = {}
    for digest, name in sorted(named.items()):
        person = people.enter_person(tx, digest)
        if tx.c.scalar(sa.select(_person.invitable).where(_person.id == person)):
            by_mail = mailed and people.is_address(name)
            identity = enter_seller(tx, campaign, person, pool, contact=name if by_mail else None)
            if identity is not None:
                made[name] = Invitation(name, identity, None if by_mail else new_link(tx, identity))
                if by_mail:
                    tx.job("invitation", identity, tx.now, lane="mail")
    return [made[name] for name in dict.fromkeys(ids) if name in made]


def enter_seller(
    tx: Tx, campaign: int, person: int, pool: str = money.ESCROW, panel: int = 0, **named: str | None
) -> int | None:
    """Enter a person as invited, with what is ``named`` sealed to the operator; None: takes part already."""
    values = {"campaign": campaign, "person": person, "state": "invited", "pool": pool, "since": tx.now}
    new = tx.insert(schema.participation).values(values).on_conflict_do_nothing().returning(_own.id)
    identity: int | None = tx.c.scalar(new)
    if identity is not None:
        sealed = {kind: text and sealed_to_operator(tx, text, kind, identity) for kind, text in named.items()}
        tx.add(schema.seller, participation=identity, panel=panel, **sealed)
        tx.event(campaign, "invited", identity)
    return identity


def _digests(tx: Tx, ids: list[str]) -> dict[bytes, str]:
    """Return ids by their digests."""
    require(len(ids) <= MOST_AT_ONCE, "invalid", f"Name at most {MOST_AT_ONCE} people at once.")
    return dict(zip(people.person_digests(tx.market_key, ids), ids, strict=True))


def new_link(tx: Tx, participation: int) -> str:
    """Return the token of a new link of a seller; it is shown once."""
    return issue_token(tx, "invitation", Caller(participation=participation))


@act("operator")
def reissue_links(tx: Tx, caller: Caller, campaign: int, ids: Ids) -> list[Invitation]:
    """Revoke sellers' links and sessions, and return new links; without their addresses nothing is mailed."""
    revoke_links(tx, caller, campaign, ids)
    named = _digests(tx, ids)
    found = _participations(tx, campaign, named)
    return [Invitation(named[me.digest], me.id, new_link(tx, me.id)) for me in found]


@act("operator")
def revoke_links(tx: Tx, caller: Caller, campaign: int, ids: Ids) -> int:
    """Revoke sellers' links and sessions; return how many sellers take part."""
    token, found = schema.token.c, [me.id for me in _participations(tx, campaign, _digests(tx, ids))]
    tx.set(
        schema.token, sa.and_(token.participation.in_(found), token.revoked_at.is_(None)), revoked_at=tx.now
    )
    return len(found)


_BY_PERSON = PARTICIPATION.add_columns(_person.digest).join(schema.person, _person.id == _own.person)


def _participations(tx: Tx, campaign: int, digests: dict[bytes, str]) -> list[Participation]:
    theirs = sa.and_(_own.campaign == campaign, _person.digest.in_(list(digests)))
    return list(tx.c.execute(_BY_PERSON.where(theirs).order_by(_own.id)))


def participation_by(tx: Tx, campaign: int, digest: bytes) -> Participation | None:
    """Return the participation of a person in a campaign, by digest; None if there is none."""
    theirs = sa.and_(_own.campaign == campaign, _person.digest == digest)
    return tx.c.execute(_BY_PERSON.where(theirs)).one_or_none()


@act("seller")
def consent(tx: Tx, me: Participation, page: Text, language: str = "en") -> str:
    """Agree to the consent page of this digest; return the state.

    ``waiting`` is for a lifetime limit; ``screened_out``: the group is full.
    """
    refuse_unless_open(tx, me)
    require(me.state == "invited", "state", "This seller consented already, or has left.")
    found = tx.campaign(me.campaign)
    require(not lacks_screening(found, me), "state", "Answer the screening questions first.")
    shown = consent_page(tx.c, found, language)
    is_same = secrets.compare_digest(page.encode(), shown.page.encode())
    require(is_same, "invalid", "The page has changed since it was shown; read it again.")
    _change(tx, me, language=language, consent_digest=page, consented_at=tx.now)
    return _enter_with_limits(tx, me)


def lacks_screening(found: Campaign, me: Participation) -> bool:
    """Whether a seller must answer screening questions: an operator who names a group has checked it."""
    return me.screened_at is None and me.pool == money.ESCROW and bool(rules_of(found).get("screening"))


def is_paid_by_panel(found: Campaign) -> bool:
    """Whether payments to people from the campaign's panel go to the panel's ids."""
    return bool(rules_of(found).get("panel", {}).get("payee") == "pid")


def _change(tx: Tx, me: Participation, **values: object) -> None:
    tx.set(schema.seller, _seller.participation == me.id, **values)


def _enter_with_limits(tx: Tx, me: Participation) -> str:
    if end_full(tx, me):
        return "screened_out"
    has_room = people.hold_limits(tx, me.person, me.ceiling, me.delta)
    if has_room:
        tx.move(me, "consented", since=tx.now, epsilon_held=me.ceiling)
    else:
        tx.move(me, "waiting", since=tx.now, reason="cap")
    tx.event(me.campaign, "consented", me.id)
    return "consented" if has_room else "waiting"


@act("seller")
def accept(tx: Tx, me: Participation) -> None:
    """Accept a quote in time."""
    _refuse_late(tx, me)
    if me.state == "accepted":
        return
    require(me.state == "quoted", "state", "Only sellers with a quote can accept.")
    is_late = me.until is not None and me.until <= tx.now
    require(not is_late, "expired", "The time to accept this quote is over.")
    tx.move(me, "accepted", tx.new_event(me.campaign, "accepted", me.id), until=None)


def _refuse_late(tx: Tx, me: Participation) -> None:
    """Refuse what comes after the campaign has closed; online, quotes outlive the time to choose."""
    require(me.campaign_state in ("open", "offered"), "state", "The campaign has closed.")
    is_late = me.deliver_until is not None and tx.now >= me.deliver_until
    require(not is_late, "expired", "The campaign has closed.")


@act("seller")
def decline(tx: Tx, me: Participation) -> None:
    """Decline to take part, or a quote; it can be undone until the campaign closes."""
    can = me.state in ("invited", "consented", "waiting", "reserved", "quoted")
    require(can, "state", "Only sellers who have not accepted can decline.")
    is_open = me.campaign_state in ("draft", "open", "offered", "unpaid")
    require(is_open, "state", "The campaign has closed.")
    leave(tx, me, "declined")


@act("seller")
def undo(tx: Tx, me: Participation) -> str:
    """Take "no, thank you" back while the campaign is open: room and limits as at first; return the state."""
    refuse_unless_open(tx, me)
    require(me.state == "declined", "state", "Only sellers who declined can undo that.")
    if me.consented_at is not None:
        return _enter_with_limits(tx, me)
    tx.move(me, "invited", since=tx.now)
    tx.event(me.campaign, "undone", me.id)
    return "invited"


@act("seller")
def deliver(tx: Tx, me: Participation, record: bytes) -> None:
    """Send a record, encoded by the public rules, sealed to the campaign's key; a second one replaces it."""
    _refuse_late(tx, me)
    can = me.state in ("accepted", "delivered")
    require(can, "state", "Only sellers who accepted can send a record.")
    width = rules_of(tx.campaign(me.campaign)).get("record_bytes", len(record))
    require(len(record) == width, "invalid", "The record is not encoded by the campaign's rules.")
    put_sealed(tx, me, "record", record)
    if me.state == "accepted":
        tx.move(me, "delivered")
        tx.event(me.campaign, "delivered", me.id)


def put_sealed(tx: Tx, me: Participation, kind: str, content: bytes) -> None:
    """Seal something of a seller's to the campaign's key, in place of what was there."""
    require(me.public_key is not None, "early", "The campaign has no key yet.")
    again = {"body": seal(me.public_key, content, kind, str(me.campaign), str(me.id)), "at": tx.now}
    put = tx.insert(schema.sealed).values(participation=me.id, kind=kind, **again)
    tx.c.execute(put.on_conflict_do_update(index_elements=["participation", "kind"], set_=again))


@act("seller")
def withdraw(tx: Tx, me: Participation, no_invitations: bool = False) -> None:  # noqa: FBT001, FBT002
    """Leave a campaign before its training; the record is deleted."""
    runs = me.campaign_state == "training"
    require(not runs, "state", "The training runs; it cannot be stopped, and you are paid.")
    can = me.campaign_state not in ENDED and me.state in schema.ACTIVE
    require(can, "state", "This participation has ended.")
    leave(tx, me, "withdrawn")
    if no_invitations:
        end_invitations(tx, me)
    digest = tx.c.scalar(sa.select(_person.digest).where(_person.id == me.person))
    _log_withdrawn(tx, me.campaign, [bytes(digest or b"").hex()], no_invitations=no_invitations)


def _log_withdrawn(tx: Tx, campaign: int, digests: list[str], *, no_invitations: bool) -> None:
    described = describe(tx.campaign(campaign))
    tx.commit_point("withdrawn", campaign=described, people=digests, no_invitations=no_invitations)


@act("seller")
def end_invitations(tx: Tx, me: Participation) -> None:
    """Ask for no further invitations; what was sold stays sold."""
    tx.set(schema.person, _person.id == me.person, invitable=0)


def stop_mails(tx: Tx, caller: Caller) -> None:
    """Forget a seller's address: no further mail about this campaign, and no further invitation."""
    me = tx.participation(caller.participation or 0)
    _change(tx, me, contact=None)
    end_invitations(tx, me)


@act("operator")
def withdraw_people(tx: Tx, caller: Caller, campaign: int, ids: Ids) -> int:
    """Take people out of a campaign before its training, by their ids; return how many left now."""
    found, digests, left = lock_campaign(tx, campaign), people.person_digests(tx.market_key, ids), []
    is_over = found.state in ("training", *ENDED)
    require(not is_over, "state", "The training has begun or the campaign has ended.")
    enter_rows(tx, found, digests)
    for digest in sorted(set(digests)):
        me = participation_by(tx, campaign, digest)
        if me is not None and me.state in schema.ACTIVE:
            leave(tx, me, "withdrawn")
            left.append(digest.hex())
    for first in range(0, len(left), MOST_AT_ONCE):
        _log_withdrawn(tx, campaign, left[first : first + MOST_AT_ONCE], no_invitations=False)
    return len(left)


@act("seller")
def set_payee(tx: Tx, me: Participation, payee: Text) -> None:
    """Name the account that a payment goes to, until it is in a payout; check digits of an IBAN must fit."""
    is_owed = me.payout is None
    require(is_owed, "state", "The payment is on its way; the payee can no longer be changed.")
    is_own = not (me.panel and is_paid_by_panel(tx.campaign(me.campaign)))
    require(is_own, "state", "The payment goes through the panel that this seller came from.")
    begins = re.match(r"^[A-Za-z]{2}\d{2}[A-Za-z0-9 ]{8,}$", payee.strip())
    fits = begins is None or is_iban(payee)
    require(fits, "invalid", "This IBAN has a typing error: its check digits do not fit.")
    _change(tx, me, payee=sealed_to_operator(tx, payee, "payee", me.id))


def sealed_to_operator(tx: Tx, text: str, kind: str, participation: int) -> bytes:
    """Return a text of a seller's, sealed to the operator's key."""
    require(tx.row.operator_key is not None, "early", "The operator's key is not set up yet.")
    return seal(tx.row.operator_key, text.encode(), kind, str(participation))
