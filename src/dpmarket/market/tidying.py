"""Forget what nobody can need any more: answers of old requests, tokens that open nothing, unused buckets.

What is promised, paid or happened is never forgotten. Rows go some thousands at a time, each time in a
transaction of its own: nobody who acts waits for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from dpmarket.ledger import outside
from dpmarket.market import tables
from dpmarket.market.buckets import drop_buckets_ahead, drop_old_buckets
from dpmarket.market.desk import Desk, acting, time_text

ANSWERS_KEPT = timedelta(days=30)
"""For so long a request that is sent again with its idempotency key is known, and answered as before."""
TOKENS_KEPT = timedelta(days=30)
"""For so long ended or revoked sign-ins are kept. Invitations stay: people come back to withdraw."""
BUCKETS_KEPT = timedelta(days=1)
"""After so long without use every bucket is full, and one that is full says nothing."""
_AT_ONCE = 5_000


@dataclass(frozen=True)
class Tidied:
    """How many rows were forgotten.

    Attributes
    ----------
    answers, tokens, buckets
        Of which kind.
    """

    answers: int
    tokens: int
    buckets: int


def tidy(desk: Desk, now: datetime) -> Tidied:
    """Forget what nobody can need any more; for a worker, once in a while.

    Examples
    --------
    >>> import tempfile
    >>> from datetime import UTC
    >>> from pathlib import Path
    >>> from dpmarket import market
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with market.open_desk(Path(folder) / "market.ledger", Path(folder) / "keys") as desk:
    ...         market.tidy(desk, datetime.now(UTC))
    Tidied(answers=0, tokens=0, buckets=0)
    """
    answer, token = tables.idempotency.c, tables.token.c
    old_answers = answer.made_at < time_text(now - ANSWERS_KEPT)
    ended = time_text(now - TOKENS_KEPT)
    is_over = sa.or_(token.expires_at < ended, token.revoked_at < ended)
    old_tokens = sa.and_(token.kind.in_(("login", "session", "api")), is_over)
    outside.forget_dead()
    with acting(desk) as connection:
        buckets = drop_old_buckets(connection, now - BUCKETS_KEPT)
        buckets += drop_buckets_ahead(connection, now + BUCKETS_KEPT)
    return Tidied(
        _dropped(desk, tables.idempotency, old_answers), _dropped(desk, tables.token, old_tokens), buckets
    )


def _dropped(desk: Desk, table: sa.Table, where: sa.ColumnElement[bool]) -> int:
    """Delete rows for which a condition holds, some thousands at a time; return how many."""
    keys = list(table.primary_key.columns)
    chosen = sa.select(*keys).where(where).limit(_AT_ONCE)
    key = keys[0] if len(keys) == 1 else sa.tuple_(*keys)
    total = 0
    while True:
        with acting(desk) as connection:
            count = connection.execute(table.delete().where(key.in_(chosen))).rowcount
        total += count
        if count < _AT_ONCE:
            return total
