"""Mails to sellers as jobs: which are due, and to which address; sending them is the worker's.

Addresses are sealed to the operator's key. A mail holds a link that is made when it is sent, so that no token
is stored, and no other private value. What was perhaps sent is never sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Tx
from dpmarket.campaign.database import Market
from dpmarket.campaign.jobs import Job
from dpmarket.campaign.seal import OPERATOR, Opener
from dpmarket.campaign.sellers import new_link
from dpmarket.campaign.times import time_text
from dpmarket.errors import DpmarketError, FileProblem

KINDS = ("invitation", "called", "reminder", "receipt", "over")
"""Mails to a seller; the job ``ended``, of a campaign, enters the last two for everybody."""
_ASKED = ("invited", "consented", "waiting", "reserved", "quoted", "accepted")
_own, _of, _seller, _job = schema.participation.c, schema.campaign.c, schema.seller.c, schema.job.c


@dataclass(frozen=True)
class Mail:
    """One mail: its kind, the address, the seller's language if one is known, and the link's token."""

    id: int
    kind: str
    address: str
    language: str | None
    token: str

    def __repr__(self) -> str:
        return f"Mail({self.kind!r})"


class NoAddress(DpmarketError):
    """An address cannot be opened with the operator's key."""


def handlers(send: Callable[[Mail], None] | None) -> Mapping[str, Callable[[Market, Job], bytes | None]]:
    """Return what a worker does with jobs of the lane ``mail``.

    Parameters
    ----------
    send
        Sends one mail; None: nothing can be sent, and mails are dropped.
    """

    def to_seller(market: Market, job: Job) -> None:
        mail = None if send is None else _mail(market, job)
        if send is not None and mail is not None:
            send(mail)

    def ended(market: Market, job: Job) -> None:
        if send is not None:
            market.transact(lambda tx: _tell_everybody(tx, job.subject))

    return {**dict.fromkeys(KINDS, to_seller), "ended": ended}


def enter_reminders(market: Market, before: timedelta) -> None:
    """Enter a reminder, once, for sellers with an address who have something to do before a time is over."""
    soon = time_text(market.clock() + before)
    now = time_text(market.clock())
    choosing = sa.and_(_of.state == "open", _of.closes_at <= soon, _of.closes_at > now)
    sending = sa.and_(_of.state.in_(("open", "offered")), _of.deliver_until <= soon, _of.deliver_until > now)
    waits = sa.or_(
        sa.and_(choosing, _own.state.in_(_ASKED[:-1])),
        sa.and_(sending, _own.state.in_(("quoted", "accepted"))),
    )
    query = sa.select(_own.id).join(schema.campaign, _of.id == _own.campaign).where(waits)
    with market.look() as c:
        there = c.execute(_addressed(query, "reminder").limit(1)).first()
    if there is not None:
        market.transact(lambda tx: _enter(tx, "reminder", query))


def _tell_everybody(tx: Tx, campaign: int) -> None:
    """Enter mails about a campaign's end: to sellers who are paid, and to those whom it ended for."""
    mine = sa.select(_own.id).where(_own.campaign == campaign)
    _enter(tx, "receipt", mine.where(_own.state == "spent"))
    _enter(tx, "over", mine.where(_own.state == "lapsed", _own.reason.is_not(None)))


def _enter(tx: Tx, kind: str, participations: Any) -> None:
    for identity in tx.c.execute(_addressed(participations, kind)).scalars().all():
        tx.job(kind, int(identity), tx.now, lane="mail")


def _addressed(participations: Any, kind: str) -> Any:
    """Return those of a query with an address and without a mail of this kind."""
    known = sa.select(_job.id).where(_job.kind == kind, _job.subject == _own.id)
    return participations.join(schema.seller, _seller.participation == _own.id).where(
        _seller.contact.is_not(None), ~known.exists()
    )


def _mail(market: Market, job: Job) -> Mail | None:
    """Return a mail with a new link; None if it has become pointless."""
    with market.look() as c:
        query = (
            sa.select(_own.state, _of.state.label("campaign_state"), _seller.contact, _seller.language)
            .join(schema.campaign, _of.id == _own.campaign)
            .join(schema.seller, _seller.participation == _own.id)
            .where(_own.id == job.subject)
        )
        row = c.execute(query).one_or_none()
        public = c.execute(sa.select(schema.market.c.operator_key)).scalar()
    if row is None or row.contact is None or _is_pointless(job.kind, row.state):
        return None
    if market.keys is None or public is None:
        raise FileProblem("the operator's private key is not here.")
    address = Opener(market.keys, OPERATOR, bytes(public)).open(
        bytes(row.contact), "contact", str(job.subject)
    )
    if address is None:
        raise NoAddress("the address was sealed to another key.")
    token = market.transact(lambda tx: new_link(tx, job.subject))
    return Mail(job.id, job.kind, address.decode(), row.language, token)


def _is_pointless(kind: str, state: str) -> bool:
    states = {"invitation": ("invited",), "called": ("reserved",), "reminder": _ASKED, "receipt": ("spent",)}
    return kind in states and state not in states[kind]
