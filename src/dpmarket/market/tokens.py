"""Turn random tokens into callers: what is kept of a token is its digest, and until when it is good."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.market import tables
from dpmarket.market.desk import time_text
from dpmarket.market.participations import token_hash
from dpmarket.market.views import Caller

_token, _member = tables.token.c, tables.member.c


def issue_token(
    connection: Connection, kind: str, owner: Caller, now: datetime, lasts: timedelta | None = None
) -> str:
    """Make a token of 256 random bits for a member or a seller; it is told once and not kept.

    Parameters
    ----------
    kind
        ``login`` (a link that signs in once), ``session`` or ``api``.
    owner
        Whose it is.
    now, lasts
        The time, and how long it opens anything; None: until it is revoked.

    Raises
    ------
    MarketRefusal
        No such kind.
    """
    if kind not in ("login", "session", "api"):
        raise MarketRefusal("invalid", "expected a token for login, session or api.")
    token = secrets.token_urlsafe(32)
    column = "participation" if owner.role == "seller" else "member"
    values = {
        "hash": token_hash(token),
        "kind": kind,
        column: owner.id,
        "made_at": time_text(now),
        "expires_at": None if lasts is None else time_text(now + lasts),
    }
    connection.execute(tables.token.insert().values(values))
    return token


def caller_with(connection: Connection, token: str, kinds: Sequence[str], now: datetime) -> Caller:
    """Return whose token this is.

    Parameters
    ----------
    kinds
        Of which one it must be: ``login``, ``session``, ``api`` or ``invitation``.

    Raises
    ------
    MarketRefusal
        No such token, or no longer; the two cannot be told apart.
    """
    query = (
        sa.select(_token.participation, _token.member, _member.role)
        .outerjoin(tables.member, _member.id == _token.member)
        .where(
            _token.hash == token_hash(token),
            _token.kind.in_(kinds),
            _token.revoked_at.is_(None),
            sa.or_(_token.expires_at.is_(None), _token.expires_at > time_text(now)),
        )
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise MarketRefusal("unknown", "there is no such token.")
    if row.member is None:
        return Caller("seller", str(row.participation))
    return Caller(str(row.role), str(row.member))


def revoke_token(connection: Connection, token: str, now: datetime) -> bool:
    """End a token; return whether it opened anything until now."""
    changed = connection.execute(
        tables.token.update()
        .where(_token.hash == token_hash(token), _token.revoked_at.is_(None))
        .values(revoked_at=time_text(now))
    )
    return changed.rowcount == 1
