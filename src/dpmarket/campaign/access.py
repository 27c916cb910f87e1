"""Members, their roles, and tokens: what is stored of a token is its digest and until when it is good."""

import hashlib
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, Id, Number, Text, act, shown_id
from dpmarket.campaign.people import is_address
from dpmarket.campaign.transaction import Tx, nothing, require

_token, _member, _role = schema.token.c, schema.member.c, schema.member_role.c
Role = Literal["buyer", "operator", "paymaster", "auditor"]


LOGIN = timedelta(days=7)  # how long a link signs a member in, once


@dataclass(frozen=True)
class Member:
    """A person or organisation that works with the service."""

    id: int
    name: str  # shown to sellers
    subject: str | None  # by which a proxy or identity provider knows it
    roles: list[str]  # in all campaigns; ``role/campaign`` in one
    tokens: int  # links, sessions and API tokens that are good now
    ended_at: str | None


@act("operator")
def add_member(
    tx: Tx, caller: Caller, name: Text, roles: list[Role] | None = None, subject: str | None = None
) -> int:
    """Enter a member with roles in all campaigns (a buyer's are its own ones); return the id."""
    new = schema.member.insert().values(name=name, made_at=tx.now)
    member = int(tx.c.execute(new.returning(_member.id)).scalar_one())
    if subject is not None:
        set_subject(tx, caller, member, subject)
    for role in roles or ():
        grant(tx, caller, member, role)
    return member


@act("operator")
def set_subject(tx: Tx, caller: Caller, member: Number, subject: Text) -> None:
    """Enter under which name a member signs in: an e-mail address, or a name of a proxy or provider."""
    _refuse_unknown(tx, member)
    known = sa.select(_member.id).where(_member.subject == sign_in_name(subject), _member.id != member)
    require(tx.c.scalar(known) is None, "invalid", "Another member signs in by this name.")
    tx.set(schema.member, _member.id == member, subject=sign_in_name(subject))


def sign_in_name(text: str) -> str:
    """Return a name to sign in by as it is stored: of e-mail addresses case does not matter."""
    name = unicodedata.normalize("NFKC", text.strip())
    return name.casefold() if is_address(name) else name


@act("operator")
def grant(tx: Tx, caller: Caller, member: Number, role: Role, of: Id | None = None) -> None:
    """Give a member a role, in one campaign or in all."""
    _refuse_unknown(tx, member)
    values = {"member": member, "role": role, "campaign": of}
    tx.c.execute(tx.insert(schema.member_role).values(values).on_conflict_do_nothing())


@act("buyer")
def share(tx: Tx, caller: Caller, campaign: Id, subject: Text) -> None:
    """Give another member, by the name under which they sign in, the buyer's role in one campaign."""
    member = member_by(tx.c, subject)
    require(member is not None, "invalid", "Nobody signs in by this name; the operator enters members.")
    grant(tx, caller, member or 0, "buyer", campaign)


@act("operator")
def revoke_role(tx: Tx, caller: Caller, member: Number, role: Role, of: Id | None = None) -> None:
    """Take a role from a member, in one campaign or in all."""
    mine = sa.and_(_role.member == member, _role.role == role, _role.campaign.is_not_distinct_from(of))
    tx.delete(schema.member_role, mine)


@act("operator", "worker")
def link_member(tx: Tx, caller: Caller, member: Number) -> str:
    """Return the token of a new link that signs a member in once, within a week."""
    _refuse_unknown(tx, member)
    return issue_token(tx, "login", Caller(member=member), LOGIN)


@act("operator")
def token_member(tx: Tx, caller: Caller, member: Number) -> str:
    """Return a new token for the API, good until it is revoked."""
    _refuse_unknown(tx, member)
    return issue_token(tx, "api", Caller(member=member))


@act("operator")
def end_member(tx: Tx, caller: Caller, member: Number) -> None:
    """End a membership and all its tokens."""
    _refuse_unknown(tx, member)
    tx.set(schema.member, _member.id == member, ended_at=tx.now)
    tx.set(schema.token, sa.and_(_token.member == member, _token.revoked_at.is_(None)), revoked_at=tx.now)


def _refuse_unknown(tx: Tx, member: int) -> None:
    found = tx.c.scalar(sa.select(_member.id).where(_member.id == member, _member.ended_at.is_(None)))
    require(found is not None, "invalid", "There is no such member, or the membership has ended.")


def list_members(c: sa.Connection, now: str) -> list[Member]:
    """Return all members, oldest first."""
    roles: dict[int, list[str]] = {}
    for row in c.execute(sa.select(_role.member, _role.role, _role.campaign).order_by(_role.role)):
        text = row.role if row.campaign is None else f"{row.role}/{shown_id(row.campaign)}"
        roles.setdefault(row.member, []).append(text)
    good = sa.and_(_token.revoked_at.is_(None), sa.or_(_token.expires_at.is_(None), _token.expires_at > now))
    counted = sa.select(_token.member, sa.func.count()).where(good).group_by(_token.member)
    tokens: dict[int, int] = dict(c.execute(counted).all())
    return [
        Member(row.id, row.name, row.subject, roles.get(row.id, []), tokens.get(row.id, 0), row.ended_at)
        for row in c.execute(sa.select(schema.member).order_by(_member.id))
    ]


def roles_of(c: sa.Connection, caller: Caller) -> frozenset[str]:
    """Return the roles that a caller has in any campaign."""
    if caller.participation is not None:
        return frozenset(("seller",))
    theirs = sa.and_(_role.member == caller.member, _member.ended_at.is_(None))
    query = sa.select(_role.role).join(schema.member, _member.id == _role.member).where(theirs)
    return frozenset(c.scalars(query))


@act("worker")
def set_operator_key(tx: Tx, caller: Caller, public: bytes) -> bytes:
    """Enter the public half of the operator's key, once; return the one that is entered."""
    of_market = schema.market.c
    tx.set(schema.market, of_market.operator_key.is_(None), operator_key=public)
    return bytes(tx.c.execute(sa.select(of_market.operator_key)).scalar_one())


def issue_token(tx: Tx, kind: str, owner: Caller, lasts: timedelta | None = None) -> str:
    """Return a new token of 256 random bits for a member or a seller, good so long or until it is revoked."""
    token = secrets.token_urlsafe(32)
    whose = {"member": owner.member, "participation": owner.participation}
    until = None if lasts is None else tx.later(lasts)
    tx.add(schema.token, hash=token_hash(token), kind=kind, **whose, made_at=tx.now, expires_at=until)
    return token


def token_hash(token: str) -> str:
    """Return what the database stores of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def caller_of(c: sa.Connection, token: str, kinds: Sequence[str], now: str) -> Caller:
    """Return whose token this is; one that is unknown and one that has ended are refused alike."""
    query = (
        sa.select(_token.participation, _token.member, _member.ended_at)
        .outerjoin(schema.member, _member.id == _token.member)
        .where(
            _token.hash == token_hash(token),
            _token.kind.in_(kinds),
            _token.revoked_at.is_(None),
            sa.or_(_token.expires_at.is_(None), _token.expires_at > now),
        )
    )
    row = c.execute(query).one_or_none()
    if row is None or row.ended_at is not None:
        raise nothing()
    return Caller(member=row.member, participation=row.participation)


def sign_in(tx: Tx, token: str, kind: str, lasts: timedelta) -> str:
    """Exchange a login link, once, or an invitation for a session's token."""
    caller = caller_of(tx.c, token, (kind,), tx.now)
    if kind == "login" and not revoke_token(tx, token):
        raise nothing()
    return issue_token(tx, "session", caller, lasts)


def member_by(c: sa.Connection, *names: str) -> int | None:
    """Return the member who signs in by one of some names; None if there is none."""
    stored = [sign_in_name(name) for name in names]
    query = sa.select(_member.id).where(_member.subject.in_(stored), _member.ended_at.is_(None))
    found = c.scalars(query).all()
    return found[0] if len(found) == 1 else None


def sign_in_by_name(tx: Tx, names: Sequence[str], lasts: timedelta) -> str:
    """Return a session's token of the member whom a proxy or an identity provider names."""
    member = member_by(tx.c, *names)
    if member is None:
        raise nothing()
    return issue_token(tx, "session", Caller(member=member), lasts)


def ask_for_link(tx: Tx, address: str) -> None:
    """Have a link mailed to the member who signs in by an address; nobody learns if there is one."""
    member = member_by(tx.c, address) if is_address(address.strip()) else None
    if member is not None:
        tx.job("login", member, tx.now, lane="mail")


def revoke_token(tx: Tx, token: str) -> bool:
    """End a token; return whether it was good until now."""
    mine = sa.and_(_token.hash == token_hash(token), _token.revoked_at.is_(None))
    return tx.set(schema.token, mine, revoked_at=tx.now) == 1
