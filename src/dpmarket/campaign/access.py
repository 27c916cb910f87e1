"""Members, their roles, and tokens: what is stored of a token is its digest and until when it is good."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, Id, Text, Tx, act, nothing, shown_id
from dpmarket.campaign.sellers import token_hash
from dpmarket.errors import MarketRefusal

_token, _member, _role = schema.token.c, schema.member.c, schema.member_role.c
Role = Literal["buyer", "operator", "paymaster", "auditor"]


LOGIN = timedelta(days=7)
"""How long a link signs a member in, once."""


@dataclass(frozen=True)
class Member:
    """A person or organisation that works with the service.

    Attributes
    ----------
    id, name, subject
        Row id, the name that sellers are shown, and the name by which a proxy or identity provider knows it.
    roles
        Roles in all campaigns, and ``role/campaign`` for one.
    tokens
        How many tokens, links and sessions are good now.
    ended_at
        When the membership ended.
    """

    id: int
    name: str
    subject: str | None
    roles: list[str]
    tokens: int
    ended_at: str | None


@act("operator")
def add_member(
    tx: Tx, caller: Caller, name: Text, roles: list[Role] | None = None, subject: str | None = None
) -> int:
    """Enter a member with roles in all campaigns; return the id.

    Parameters
    ----------
    name
        Shown to sellers before they take part.
    roles
        Roles in all campaigns; a buyer's are its own ones.
    subject
        The name by which a proxy or an identity provider knows the member.
    """
    new = schema.member.insert().values(name=name, subject=subject, made_at=tx.now)
    member = int(tx.c.execute(new.returning(_member.id)).scalar_one())
    for role in roles or ():
        grant(tx, caller, member, role)
    return member


@act("operator")
def grant(tx: Tx, caller: Caller, member: int, role: Role, of: Id | None = None) -> None:
    """Give a member a role, in one campaign or in all."""
    _refuse_unknown(tx, member)
    values = {"member": member, "role": role, "campaign": of}
    tx.c.execute(tx.insert(schema.member_role).values(values).on_conflict_do_nothing())


@act("operator")
def revoke_role(tx: Tx, caller: Caller, member: int, role: Role, of: Id | None = None) -> None:
    """Take a role from a member, in one campaign or in all."""
    mine = sa.and_(_role.member == member, _role.role == role, _role.campaign.is_not_distinct_from(of))
    tx.c.execute(schema.member_role.delete().where(mine))


@act("operator")
def link_member(tx: Tx, caller: Caller, member: int) -> str:
    """Return the token of a new link that signs a member in once, within a week."""
    _refuse_unknown(tx, member)
    return issue_token(tx, "login", Caller(member=member), LOGIN)


@act("operator")
def token_member(tx: Tx, caller: Caller, member: int) -> str:
    """Return a new token for the API, good until it is revoked."""
    _refuse_unknown(tx, member)
    return issue_token(tx, "api", Caller(member=member))


@act("operator")
def end_member(tx: Tx, caller: Caller, member: int) -> None:
    """End a membership and all its tokens."""
    _refuse_unknown(tx, member)
    tx.c.execute(schema.member.update().where(_member.id == member).values(ended_at=tx.now))
    tx.c.execute(
        schema.token.update()
        .where(_token.member == member, _token.revoked_at.is_(None))
        .values(revoked_at=tx.now)
    )


def _refuse_unknown(tx: Tx, member: int) -> None:
    going_on = sa.and_(_member.id == member, _member.ended_at.is_(None))
    if tx.c.execute(sa.select(_member.id).where(going_on)).first() is None:
        raise MarketRefusal("invalid", "There is no such member, or the membership has ended.")


def list_members(c: sa.Connection, now: str) -> list[Member]:
    """Return all members, oldest first."""
    roles: dict[int, list[str]] = {}
    for row in c.execute(sa.select(_role.member, _role.role, _role.campaign).order_by(_role.role)):
        text = row.role if row.campaign is None else f"{row.role}/{shown_id(row.campaign)}"
        roles.setdefault(row.member, []).append(text)
    good = sa.and_(_token.revoked_at.is_(None), sa.or_(_token.expires_at.is_(None), _token.expires_at > now))
    counted = sa.select(_token.member, sa.func.count()).where(good).group_by(_token.member)
    tokens = {row[0]: int(row[1]) for row in c.execute(counted)}
    return [
        Member(row.id, row.name, row.subject, roles.get(row.id, []), tokens.get(row.id, 0), row.ended_at)
        for row in c.execute(sa.select(schema.member).order_by(_member.id))
    ]


def roles_of(c: sa.Connection, caller: Caller) -> frozenset[str]:
    """Return the roles that a caller has in any campaign."""
    if caller.participation is not None:
        return frozenset(("seller",))
    query = (
        sa.select(_role.role)
        .join(schema.member, _member.id == _role.member)
        .where(_role.member == caller.member, _member.ended_at.is_(None))
    )
    return frozenset(str(one) for one in c.execute(query).scalars())


@act("worker")
def set_operator_key(tx: Tx, caller: Caller, public: bytes) -> bytes:
    """Enter the public half of the operator's key, once; return the one that is entered."""
    market = schema.market
    tx.c.execute(market.update().where(market.c.operator_key.is_(None)).values(operator_key=public))
    return bytes(tx.c.execute(sa.select(market.c.operator_key)).scalar_one())


def issue_token(tx: Tx, kind: str, owner: Caller, lasts: timedelta | None = None) -> str:
    """Return a new token of 256 random bits for a member or a seller; it is shown once.

    Parameters
    ----------
    kind
        ``login`` (a link that signs in once), ``session`` or ``api``.
    owner
        Whose it is.
    lasts
        For how long; None: until it is revoked.
    """
    token = secrets.token_urlsafe(32)
    values = {
        "hash": token_hash(token),
        "kind": kind,
        "member": owner.member,
        "participation": owner.participation,
        "made_at": tx.now,
        "expires_at": None if lasts is None else tx.later(lasts),
    }
    tx.c.execute(schema.token.insert(), values)
    return token


def caller_of(c: sa.Connection, token: str, kinds: Sequence[str], now: str) -> Caller:
    """Return whose token this is.

    Raises
    ------
    MarketRefusal
        There is no such token, or no longer; the two look alike.
    """
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
    """Exchange a login link, once, or an invitation for a session's token.

    Raises
    ------
    MarketRefusal
        The link opens nothing, or no longer.
    """
    caller = caller_of(tx.c, token, (kind,), tx.now)
    if kind == "login" and not revoke_token(tx, token):
        raise nothing()
    return issue_token(tx, "session", caller, lasts)


def revoke_token(tx: Tx, token: str) -> bool:
    """End a token; return whether it was good until now."""
    mine = sa.and_(_token.hash == token_hash(token), _token.revoked_at.is_(None))
    return tx.c.execute(schema.token.update().where(mine).values(revoked_at=tx.now)).rowcount == 1


def tidy_tokens(tx: Tx, before: str) -> int:
    """Delete links, sessions and API tokens that ended before a time; sellers' invitations stay."""
    over = sa.or_(_token.expires_at < before, _token.revoked_at < before)
    gone = tx.c.execute(schema.token.delete().where(_token.kind != "invitation", over))
    return gone.rowcount


def revoke_all_tokens(tx: Tx) -> int:
    """Delete all sessions, logins, API tokens and links: a backup may bring back revoked ones."""
    return tx.c.execute(schema.token.delete()).rowcount
