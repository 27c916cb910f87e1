"""HMAC-SHA256 under the ledger's own key, and the one way in which plain data is written as text and read."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import sqlalchemy as sa

from dpmarket.errors import FileProblem
from dpmarket.ledger import tables
from dpmarket.ledger.engine import Connection


def canonical(data: object) -> str:
    """Write plain data as JSON in one way only: sorted, without blanks."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def read_object(text: str, what: str) -> dict[str, Any]:
    """Return the object that JSON text in a ledger says.

    Raises
    ------
    FileProblem
        It is no JSON, or no object: it was edited.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FileProblem(f"cannot use the ledger: {what} can no longer be read; was it edited? Put it back.")
    return found


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
