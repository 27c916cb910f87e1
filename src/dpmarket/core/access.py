"""Members, their roles, and tokens: what is stored of a token is its digest and until when it is good."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

import sqlalchemy as sa

from dpmarket.core import schema
from dpmarket.core.acts import Caller, Text, Tx, act, nothing
from dpmarket.core.sellers import token_hash
from dpmarket.errors import MarketRefusal

_token, _member, _role = schema.token.c, schema.member.c, schema.member_role.c
Role = Literal["buyer", "operator", "paymaster", "auditor"]


@act("operator")
def add_member(tx: Tx, caller: Caller, name: Text, subject: str | None = None) -> int:
    """Enter a member, without a role yet; return the id.

    Parameters
    ----------
    name
        Shown to sellers before they take part.
    subject
        The name by which a proxy or an identity provider knows the member.
    """
    new = schema.member.insert().values(name=name, subject=subject, made_at=tx.now)
    return int(tx.c.execute(new.returning(_member.id)).scalar_one())


@act("operator")
def grant(tx: Tx, caller: Caller, member: int, role: Role, of: int | None = None) -> None:
    """Give a member a role, in one campaign or in all."""
    values = {"member": member, "role": role, "campaign": of}
    tx.c.execute(tx.insert(schema.member_role).values(values).on_conflict_do_nothing())


@act("operator")
def end_member(tx: Tx, caller: Caller, member: int) -> None:
    """End a membership and all its tokens."""
    tx.c.execute(schema.member.update().where(_member.id == member).values(ended_at=tx.now))
    tx.c.execute(
        schema.token.update()
        .where(_token.member == member, _token.revoked_at.is_(None))
        .values(revoked_at=tx.now)
    )


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


def sign_in(tx: Tx, token: str, lasts: timedelta) -> str:
    """Exchange a login link, once, or an invitation for a session's token."""
    caller = caller_of(tx.c, token, ("login", "invitation"), tx.now)
    used = sa.and_(_token.hash == token_hash(token), _token.kind == "login")
    if caller.member is not None:
        changed = tx.c.execute(
            schema.token.update().where(used, _token.revoked_at.is_(None)).values(revoked_at=tx.now)
        )
        if changed.rowcount != 1:
            raise MarketRefusal("unknown", "There is nothing here for this caller.")
    return issue_token(tx, "session", caller, lasts)


def revoke_token(tx: Tx, token: str) -> bool:
    """End a token; return whether it was good until now."""
    mine = sa.and_(_token.hash == token_hash(token), _token.revoked_at.is_(None))
    return tx.c.execute(schema.token.update().where(mine).values(revoked_at=tx.now)).rowcount == 1


def revoke_all_tokens(tx: Tx) -> int:
    """Delete all sessions, logins, API tokens and links: a backup may bring back revoked ones."""
    return tx.c.execute(schema.token.delete()).rowcount
