"""Do an act once however often it is asked for: the key is claimed first, by an insert that others wait for.

A request may hold a cost, of which a digest could confirm a guess. So the request's digest is keyed by the
idempotency key, and of that key only a digest is kept: who has the database has neither.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from dpmarket.errors import MarketRefusal
from dpmarket.ledger import Connection
from dpmarket.ledger.keyed import canonical
from dpmarket.market import tables
from dpmarket.market.desk import time_text
from dpmarket.market.statements import given, insert_for

_columns = tables.idempotency.c
_mine = sa.and_(_columns.owner == given("owner"), _columns.key == given("key"))
_KNOWN = sa.select(_columns.request, _columns.response).where(_mine)
_ANSWERING = tables.idempotency.update().where(_mine).values(response=given("response"))


def once(
    connection: Connection,
    owner: str,
    key: str,
    request: Mapping[str, Any],
    act: Callable[[], Mapping[str, Any]],
    now: datetime,
) -> dict[str, Any]:
    """Return what an act answers, or what it answered when it was asked for with this key before.

    Claim and act are one transaction: if the act is refused, the key is free again.

    Parameters
    ----------
    owner, key
        Whose key, and which: at least 16 characters, random.
    request
        What was asked, as plain data. Only a digest of it is kept, keyed by ``key``.
    act
        Called at most once for a key; its answer, plain data, is kept.
    now
        The time.

    Raises
    ------
    MarketRefusal
        The key belongs to another request, or is too short.
    """
    if len(key) < 16:
        raise MarketRefusal("invalid", "expected an idempotency key of at least 16 random characters.")
    digest = hmac.new(key.encode(), canonical(request).encode(), hashlib.sha256).hexdigest()
    key = hashlib.sha256(key.encode()).hexdigest()
    whose = {"given_owner": owner, "given_key": key}
    claimed = {**whose, "given_request": digest, "given_at": time_text(now)}
    if connection.execute(_claiming(connection.dialect.name), claimed).scalar() is None:
        row = connection.execute(_KNOWN, whose).one()
        if row.request != digest:
            raise MarketRefusal("reused", "this idempotency key belongs to another request.")
        return dict(json.loads(row.response))
    answer = dict(act())
    connection.execute(_ANSWERING, {**whose, "given_response": canonical(answer)})
    return answer


@functools.cache
def _claiming(dialect: str) -> Any:
    """Return the insert that claims a key, or gives nothing back where somebody has it."""
    values = {
        "owner": given("owner"),
        "key": given("key"),
        "request": given("request"),
        "made_at": given("at"),
    }
    claim = insert_for(dialect, tables.idempotency, values)
    return claim.on_conflict_do_nothing().returning(_columns.key)
