"""Let somebody do something so often and no oftener, whichever process they ask: buckets in the database.

A bucket holds as many tokens as may be used at once and is filled again at a steady rate. What is limited is
known by a digest under the ledger's key: no address of a caller is in the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from dpmarket.ledger import Connection
from dpmarket.ledger.keyed import key_of, keyed
from dpmarket.market import tables
from dpmarket.market.statements import insert

_bucket = tables.bucket.c


@dataclass(frozen=True)
class Rate:
    """How often something may be done.

    Attributes
    ----------
    burst
        So often at once.
    seconds
        After so many seconds the whole burst is there again.
    """

    burst: int
    seconds: float


def take_token(connection: Connection, kind: str, who: str, rate: Rate, now: datetime) -> float:
    """Take one token from somebody's bucket; return 0, or in how many seconds there will be one.

    Parameters
    ----------
    kind, who
        What is done, and by whom: any texts. Only a keyed digest of them is kept.
    rate, now
        How often, and the time.
    """
    key = keyed(key_of(connection), "bucket", kind, who)[:32]
    at, speed = now.timestamp(), rate.burst / rate.seconds
    first = {"key": key, "tokens": float(rate.burst), "at": at}
    connection.execute(insert(connection, tables.bucket, first).on_conflict_do_nothing())
    # Time that passed twice counts once: by a clock that was put back, or that is behind another machine's,
    # nothing is filled, and what was filled until is not forgotten.
    behind = _bucket.at >= at
    passed = sa.case((behind, 0.0), else_=at - _bucket.at)
    filled = _bucket.tokens + passed * speed
    there = sa.case((filled < float(rate.burst), filled), else_=float(rate.burst))
    taking = tables.bucket.update().where(_bucket.key == key, there >= 1.0)
    until = sa.case((behind, _bucket.at), else_=at)
    taken = connection.execute(taking.values(tokens=there - 1.0, at=until).returning(_bucket.key))
    if taken.scalar() is not None:
        return 0.0
    left, ahead = connection.execute(sa.select(there, until - at).where(_bucket.key == key)).one()
    return max((1.0 - float(left)) / speed + float(ahead), 0.001)


def drop_old_buckets(connection: Connection, before: datetime) -> int:
    """Forget buckets that nobody took from since; return how many there were."""
    return connection.execute(tables.bucket.delete().where(_bucket.at < before.timestamp())).rowcount


def drop_buckets_ahead(connection: Connection, after: datetime) -> int:
    """Forget buckets of a time that is yet to come, which a wrong clock wrote; return how many there were."""
    return connection.execute(tables.bucket.delete().where(_bucket.at > after.timestamp())).rowcount
