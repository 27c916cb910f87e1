"""Retention: what is deleted so many days after a campaign has ended, and what stays.

Deleted are a seller's payee, address, language, links, sessions and history, once nothing is owed or on its
way to the seller; and acts of members. What stays is what guarantees and books need: who took part, by keyed
digest, with epsilon and payment; the digest and time of the consent; entries of money; released documents.
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.database import Market
from dpmarket.campaign.times import time_text
from dpmarket.campaign.transaction import Tx

_own, _seller, _event, _deed = schema.participation.c, schema.seller.c, schema.event.c, schema.deed.c


def forget(market: Market, sellers: timedelta | None, deeds: timedelta | None) -> int:
    """Delete what is older than its time, None: never; return how many sellers were forgotten."""
    now = market.clock()
    forgotten = 0
    if sellers is not None:
        forgotten = int(market.transact(lambda tx: _forget_sellers(tx, time_text(now - sellers))))
    if deeds is not None:
        market.transact(lambda tx: tx.delete(schema.deed, _deed.at < time_text(now - deeds)))
    return forgotten


def _forget_sellers(tx: Tx, before: str) -> int:
    """Forget sellers of campaigns that ended before a time, unless a payment is owed or not confirmed."""
    is_end = _event.kind.in_(schema.CAMPAIGN_ENDED)
    ended = sa.select(_event.campaign).where(_event.participation.is_(None), is_end, _event.at < before)
    settled = sa.or_(_own.state != "spent", _own.paid_at < before, _own.payment == 0)
    known = sa.or_(
        *(_seller[name].is_not(None) for name in ("payee", "contact", "language")),
        sa.select(_event.number).where(_event.participation == _own.id).exists(),
    )
    theirs = sa.select(_own.id).join(schema.seller, _seller.participation == _own.id)
    chosen = list(tx.c.scalars(theirs.where(_own.campaign.in_(ended), settled, known).limit(10_000)))
    tx.set(schema.seller, _seller.participation.in_(chosen), payee=None, contact=None, language=None)
    tx.delete(schema.token, schema.token.c.participation.in_(chosen))
    tx.delete(schema.event, _event.participation.in_(chosen))
    return len(chosen)
