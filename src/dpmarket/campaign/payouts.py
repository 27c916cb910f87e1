"""Payouts: what sellers are owed becomes lines for the bank, and what became of each line.

A participation is owed its payment once it is spent; it is in a payout once it has one, confirmed once
``paid_at`` is set, and owed again if it was returned. Nobody is paid without a payee. A line's reference is a
function of the market's key, the campaign, the person and the number of returns: a database that was put back
from a backup makes the same references again, and a bank that saw them can tell.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

import polars as pl
import pydantic
import sqlalchemy as sa

from dpmarket.campaign import money, schema
from dpmarket.campaign.acts import Caller, Campaign, Id, Text, Tx, act, lock_campaign, new_id
from dpmarket.campaign.campaigns import describe
from dpmarket.campaign.database import Market
from dpmarket.errors import MarketRefusal

_own, _person, _seller, _payout = (
    schema.participation.c,
    schema.person.c,
    schema.seller.c,
    schema.payout.c,
)
References = Annotated[list[Text], pydantic.Field(max_length=10**7)]


@dataclass(frozen=True)
class Payout:
    """One file of payments: its id, its number in the campaign, how many people, and how much."""

    id: Id
    number: int
    people: int
    amount: int


def reference(key: bytes, campaign: int, digest: bytes, returns: int) -> str:
    """Return the reference of a payment, equal after every restore."""
    content = campaign.to_bytes(8, "big") + digest + returns.to_bytes(4, "big")
    made = hashlib.blake2b(content, key=key, digest_size=15, person=b"payment").digest()
    return base64.b32encode(made).decode()


def in_money(amounts: pl.Series, minor_units: int) -> pl.Series:
    """Return amounts of minor units in money, as the nearest floats: polars' own division is a little off."""
    return pl.Series(amounts.to_numpy() / minor_units)


def owed(found: Campaign) -> Any:
    """Return the condition that a participation is owed money and is in no payout."""
    return sa.and_(_own.campaign == found.id, _own.state == "spent", _own.payout.is_(None), _own.payment > 0)


def has_payee(found: Campaign) -> Any:
    """Return the condition that it is known where a payment goes; of files the person's name tells."""
    if found.channel != "live":
        return sa.true()
    named = sa.select(_seller.participation).where(_seller.payee.is_not(None))
    return _own.id.in_(named)


@act("paymaster")
def pay_out(tx: Tx, caller: Caller, campaign: int) -> Payout:
    """Enter a payout of everything that is owed to sellers with a payee."""
    found = lock_campaign(tx, campaign)
    chosen = sa.and_(owed(found), has_payee(found))
    query = (
        sa.select(_own.id, _person.digest, _own.returns, _own.payment)
        .join(schema.person, _person.id == _own.person)
        .where(chosen)
        .order_by(_person.digest)
    )
    rows = tx.c.execute(query).all()
    if not rows:
        missing = missing_payees(tx.c, found)
        hint = f" {missing} sellers have not named a payee." if missing else ""
        raise MarketRefusal("state", f"Nothing is owed that could be paid out.{hint}")
    last = sa.select(sa.func.coalesce(sa.func.max(_payout.number), 0)).where(_payout.campaign == campaign)
    number = int(tx.c.execute(last).scalar_one()) + 1
    made = Payout(new_id(), number, len(rows), sum(int(row.payment) for row in rows))
    tx.c.execute(
        schema.payout.insert(),
        {
            "id": made.id,
            "campaign": campaign,
            "number": number,
            "people": made.people,
            "amount": made.amount,
            "made_at": tx.now,
        },
    )
    tx.c.execute(schema.participation.update().where(chosen).values(payout=made.id))
    money.post(tx, campaign, "payout", money.PAYABLE, money.OUTSIDE, made.amount, ref=f"payout/{made.id}")
    tx.event(campaign, "payout")
    snapshot = pl.DataFrame(
        {
            "digest": pl.Series([bytes(row.digest) for row in rows], dtype=pl.Binary),
            "returns": pl.Series([row.returns for row in rows], dtype=pl.Int64),
            "payment": pl.Series([row.payment for row in rows], dtype=pl.Int64),
        }
    )
    named = tx.snapshot(f"payout-{made.id}", snapshot)
    tx.commit_point("payout", campaign=describe(found), payout=made.id, number=number, snapshot=named)
    return made


def missing_payees(c: sa.Connection, found: Campaign) -> int:
    """Return how many sellers are owed money and have named no payee."""
    condition = sa.and_(owed(found), sa.not_(has_payee(found)))
    return int(c.execute(sa.select(sa.func.count()).where(condition)).scalar_one())


def payout_lines(market: Market, payout: int) -> pl.DataFrame:
    """Return the lines of a payout that are not confirmed: reference, participation, name, payment, payee.

    They are handed out only once the payout is in the log. ``payee`` is sealed to the operator's key; of
    files, ``name`` is the person's id.
    """
    market.ship()
    with market.look() as c:
        key = bytes(c.execute(sa.select(schema.market.c.key)).scalar_one())
        query = (
            sa.select(
                _own.campaign,
                _person.digest,
                _own.returns,
                _own.id,
                _person.name,
                _own.payment,
                _seller.payee,
            )
            .join(schema.person, _person.id == _own.person)
            .outerjoin(schema.seller, _seller.participation == _own.id)
            .where(_own.payout == payout, _own.paid_at.is_(None))
            .order_by(_person.digest)
        )
        rows = [
            (
                reference(key, row.campaign, bytes(row.digest), row.returns),
                row.id,
                row.name,
                row.payment,
                None if row.payee is None else bytes(row.payee),
            )
            for row in c.execute(query)
        ]
    kinds = {"reference": pl.String, "participation": pl.Int64, "name": pl.String, "payment": pl.Int64}
    return pl.DataFrame(rows, schema={**kinds, "payee": pl.Binary}, orient="row")


@act("paymaster")
def confirm(tx: Tx, caller: Caller, campaign: int, references: References) -> int:
    """Enter that payments arrived; return how many are new."""
    found, rows = _lines(tx, campaign, references)
    if any(row.payout is None or row.reference != row.now for row in rows):
        raise MarketRefusal("state", "Some of these payments were returned already.")
    fresh = [row.id for row in rows if row.paid_at is None]
    for identity in fresh:
        tx.c.execute(schema.participation.update().where(_own.id == identity).values(paid_at=tx.now))
    if fresh:
        tx.event(found.id, "confirmed")
    return len(fresh)


@act("paymaster")
def returned(tx: Tx, caller: Caller, campaign: int, references: References) -> int:
    """Enter that payments came back: they are owed again; return how many are new."""
    found, rows = _lines(tx, campaign, references)
    fresh = [row for row in rows if row.payout is not None and row.reference == row.now]
    for row in fresh:
        tx.c.execute(
            schema.participation.update()
            .where(_own.id == row.id)
            .values(payout=None, paid_at=None, returns=_own.returns + 1)
        )
    amount = sum(row.payment for row in fresh)
    money.post(tx, campaign, "returned", money.OUTSIDE, money.PAYABLE, amount)
    if fresh:
        tx.event(found.id, "payments returned")
    return len(fresh)


@dataclass(frozen=True)
class _Line:
    id: int
    payment: int
    payout: int | None
    paid_at: str | None
    reference: str
    now: str


def _lines(tx: Tx, campaign: int, references: list[str]) -> tuple[Campaign, list[_Line]]:
    """Return the participations that references name, also references of payments that came back."""
    found = lock_campaign(tx, campaign)
    wanted = set(references)
    query = (
        sa.select(_own.id, _own.payment, _own.payout, _own.paid_at, _own.returns, _person.digest)
        .join(schema.person, _person.id == _own.person)
        .where(_own.campaign == campaign, _own.state == "spent", _own.payment > 0)
    )
    lines = []
    for row in tx.c.execute(query):
        names = [reference(tx.market_key, campaign, bytes(row.digest), k) for k in range(row.returns + 1)]
        lines += [
            _Line(row.id, row.payment, row.payout, row.paid_at, name, names[-1])
            for name in names
            if name in wanted
        ]
    if len(lines) != len(wanted):
        raise MarketRefusal(
            "invalid", f"{len(wanted) - len(lines)} references are of no payment of this campaign."
        )
    return found, lines


def payouts_of(c: sa.Connection, campaign: int) -> list[Payout]:
    """Return a campaign's payouts, oldest first."""
    query = sa.select(_payout.id, _payout.number, _payout.people, _payout.amount)
    return [
        Payout(*row) for row in c.execute(query.where(_payout.campaign == campaign).order_by(_payout.number))
    ]
