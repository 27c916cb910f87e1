"""HMAC-SHA256 under the ledger's own key, and the one way in which plain data is written as text."""

from __future__ import annotations

import hashlib
import hmac
import json

import sqlalchemy as sa

from dpmarket.ledger import tables
from dpmarket.ledger.engine import Connection


def canonical(data: object) -> str:
    """Write plain data as JSON in one way only: sorted, without blanks."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def keyed(key: bytes, *parts: str) -> str:
    """Return the HMAC of texts, each with its length before it, as hexadecimal digits."""
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def key_of(connection: Connection) -> bytes:
    """Return the ledger's key."""
    return bytes(connection.execute(sa.select(tables.ledger.c.key)).scalar_one())
