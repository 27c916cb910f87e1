"""Find members, and end what lets them in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.desk import time_text

_member, _token = tables.member.c, tables.token.c


@dataclass(frozen=True)
class Member:
    """Somebody who works with a service.

    Attributes
    ----------
    id, name, role
        Who.
    tokens
        How many tokens, links and sessions let them in now.
    """

    id: str
    name: str
    role: str
    tokens: int


def list_members(connection: Connection, now: datetime) -> list[Member]:
    """Return all members, by role and name."""
    good = sa.and_(
        _token.member == _member.id,
        _token.revoked_at.is_(None),
        sa.or_(_token.expires_at.is_(None), _token.expires_at > time_text(now)),
    )
    number = sa.select(sa.func.count()).where(good).correlate(tables.member).scalar_subquery()
    query = sa.select(_member.id, _member.name, _member.role, number)
    rows = connection.execute(query.order_by(_member.role, _member.name, _member.id))
    return [Member(str(row[0]), str(row[1]), str(row[2]), int(row[3])) for row in rows]


def member_with(connection: Connection, member: str, now: datetime) -> Member:
    """Return a member by id, or by a name that only one has.

    Raises
    ------
    MarketRefusal
        There is none, or the name is that of several.
    """
    known = list_members(connection, now)
    found = [one for one in known if one.id == member] or [one for one in known if one.name == member]
    if not found:
        raise MarketRefusal("unknown", "there is no such member: 'dpmarket service members' lists all.")
    if len(found) > 1:
        raise MarketRefusal("invalid", f"expected the id: {len(found)} members are called like this.")
    return found[0]


def revoke_tokens(connection: Connection, member: str, now: datetime) -> int:
    """End all tokens, links and sessions of a member at once; return how many there were."""
    at = time_text(now)
    changed = connection.execute(
        tables.token.update()
        .where(
            _token.member == member,
            _token.revoked_at.is_(None),
            sa.or_(_token.expires_at.is_(None), _token.expires_at > at),
        )
        .values(revoked_at=at)
    )
    return int(changed.rowcount)
