"""What operators and paymasters look over: acts of members, jobs that failed, entries of money."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Caller, is_allowed
from dpmarket.campaign.transaction import nothing

_deed, _member, _job, _transfer = schema.deed.c, schema.member.c, schema.job.c, schema.transfer.c


@dataclass(frozen=True)
class Deed:
    """An act of a member: who, what, on which campaign, when; it has no values."""

    number: int
    member: str
    act: str
    campaign: str | None
    at: str


@dataclass(frozen=True)
class Failed:
    """Jobs that failed, or that were perhaps done: how many of a kind, and the class of their last error."""

    kind: str
    state: str
    error: str | None
    number: int


@dataclass(frozen=True)
class Entry:
    """Money that came in or went out: ``fund``, ``refund``, ``payout`` or ``returned``."""

    kind: str
    amount: int
    at: str


_MOST = 10_000
_DEEDS = (
    sa.select(_deed.id, _member.name, _deed.act, schema.campaign.c.name, _deed.at)
    .join(schema.member, _member.id == _deed.member)
    .outerjoin(schema.campaign, schema.campaign.c.id == _deed.campaign)
)


def list_deeds(c: sa.Connection, caller: Caller, most: int = 200) -> list[Deed]:
    """Return the last acts of all members, newest first, to an operator or auditor."""
    _refuse_unless(c, caller, "operator", "auditor")
    return [Deed(*row) for row in c.execute(_DEEDS.order_by(_deed.id.desc()).limit(most))]


def deeds_after(c: sa.Connection, caller: Caller, campaign: int | None, after: int = 0) -> list[Deed]:
    """Return acts of members on a campaign, or all, oldest first, after one of a number: at most 10,000."""
    if not is_allowed(c, caller, ("operator", "auditor"), campaign):
        raise nothing()
    query = _DEEDS.where(_deed.id > after).order_by(_deed.id).limit(_MOST)
    chosen = query if campaign is None else query.where(_deed.campaign == campaign)
    return [Deed(*row) for row in c.execute(chosen)]


def list_failed(c: sa.Connection, caller: Caller) -> list[Failed]:
    """Return which jobs failed, to an operator."""
    _refuse_unless(c, caller, "operator")
    query = (
        sa.select(_job.kind, _job.state, _job.error, sa.func.count())
        .where(_job.state.in_(("failed", "unknown")))
        .group_by(_job.kind, _job.state, _job.error)
    )
    return [Failed(*row) for row in c.execute(query.order_by(_job.kind, _job.state))]


def list_entries(c: sa.Connection, caller: Caller, campaign: int) -> list[Entry]:
    """Return the entries of money between a campaign and the outside, oldest first, to a paymaster."""
    if not is_allowed(c, caller, ("paymaster", "auditor"), campaign):
        raise nothing()
    outside = sa.or_(_transfer.debit == "outside", _transfer.credit == "outside")
    query = sa.select(_transfer.kind, _transfer.amount, _transfer.at)
    mine = query.where(_transfer.campaign == campaign, outside).order_by(_transfer.id)
    return [Entry(*row) for row in c.execute(mine)]


def _refuse_unless(c: sa.Connection, caller: Caller, *roles: str) -> None:
    if not is_allowed(c, caller, roles, None):
        raise nothing()
