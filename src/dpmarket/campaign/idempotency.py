"""Idempotency keys: an act is done once however often it is called with the same key.

The key is claimed first, by an insert that others wait for; claim and act are one transaction. A request may
hold a cost, and a plain digest of it could confirm a guess. So the request's digest is keyed by the
idempotency key, the answer is encrypted by it, and of the key itself only a digest is stored: the database
alone gives neither.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.transaction import Tx
from dpmarket.errors import MarketRefusal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LEAST_LENGTH = 16
_NONCE = 12
_columns = schema.idempotency.c


def once(tx: Tx, owner: str, key: str, request: str, answer: Callable[[], bytes]) -> bytes:
    """Return what an act answers, or what it answered when it was first called with this key."""
    if len(key) < LEAST_LENGTH:
        raise MarketRefusal("invalid", f"Expected an idempotency key of at least {LEAST_LENGTH} characters.")
    digest = hmac.new(key.encode(), request.encode(), hashlib.sha256).hexdigest()
    hashed = hashlib.sha256(key.encode()).hexdigest()
    claim = tx.insert(schema.idempotency).values(owner=owner, key=hashed, request=digest, at=tx.now)
    claimed = tx.c.execute(claim.on_conflict_do_nothing().returning(_columns.key)).scalar()
    mine = sa.and_(_columns.owner == owner, _columns.key == hashed)
    if claimed is None:
        row = tx.c.execute(sa.select(_columns.request, _columns.answer).where(mine)).one()
        if not hmac.compare_digest(row.request, digest):
            raise MarketRefusal("reused", "This idempotency key belongs to another request.")
        sealed = bytes(row.answer)
        return _cipher(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], owner.encode())
    made = answer()
    nonce = secrets.token_bytes(_NONCE)
    body = nonce + _cipher(key).encrypt(nonce, made, owner.encode())
    tx.c.execute(schema.idempotency.update().where(mine).values(answer=body))
    return made


def tidy_answers(tx: Tx, before: str) -> int:
    """Delete answers from before a time."""
    return tx.c.execute(schema.idempotency.delete().where(_columns.at < before)).rowcount


def _cipher(key: str) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hashlib.blake2b(key.encode(), digest_size=32, person=b"dpmarket answer").digest())
