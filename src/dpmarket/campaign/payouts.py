"""Payouts: what sellers are owed becomes lines for the bank, and what became of each line.

Nobody is paid without a payee. A line's reference is a function of the market's key, the campaign, the person
and the number of returns: a database that was put back from a backup makes the same references again, and a
bank that saw them can tell.
"""

import base64
import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

import polars as pl
import pydantic
import sqlalchemy as sa

from dpmarket.campaign import money, schema
from dpmarket.campaign.acts import Caller, Id, Text, act
from dpmarket.campaign.campaigns import describe
from dpmarket.campaign.database import Market
from dpmarket.campaign.money import count
from dpmarket.campaign.partitions import CHANNEL, enter_rows, first_payout, people_in
from dpmarket.campaign.transaction import Campaign, Tx, campaign_of, lock_campaign, new_id, require

_own, _person, _seller = schema.participation.c, schema.person.c, schema.seller.c
_payout = schema.payout.c
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
    query = sa.select(_person.digest, _own.returns, _own.payment).where(chosen).order_by(_person.digest)
    rows: list[Any] = list(tx.c.execute(query.join(schema.person, _person.id == _own.person)))
    if first_payout(tx.c, campaign) is None:
        rows = sorted([*rows, *((digest, 0, payment) for digest, _, payment in _filed(tx.c, campaign))])
    missing = missing_payees(tx.c, found)
    hint = f" {missing} sellers have not named a payee." if missing else ""
    require(rows, "state", f"Nothing is owed that could be paid out.{hint}")
    kinds = {"digest": pl.Binary, "returns": pl.Int64, "payment": pl.Int64}
    table = pl.DataFrame([tuple(row) for row in rows], schema=kinds, orient="row")
    number = max((one.number for one in payouts_of(tx.c, campaign)), default=0) + 1
    made = Payout(new_id(), number, table.height, int(table.get_column("payment").sum()))
    enter_payout(tx, campaign, made)
    tx.set(schema.participation, chosen, payout=made.id)
    tx.event(campaign, "payout")
    named = tx.log.write_snapshot(f"payout-{made.id}", table)
    tx.commit_point("payout", campaign=describe(found), payout=made.id, number=number, snapshot=named)
    return made


def enter_payout(tx: Tx, campaign: int, made: Payout) -> None:
    """Enter a payout, whose money leaves the payable account."""
    tx.add(schema.payout, **dataclasses.asdict(made), campaign=campaign, made_at=tx.now)
    money.post(tx, campaign, "payout", money.PAYABLE, money.OUTSIDE, made.amount, ref=f"payout/{made.id}")


def _filed(c: sa.Connection, campaign: int) -> list[tuple[bytes, str, int]]:
    """Return digest, name and payment of people in files who are owed money or were paid."""
    found = campaign_of(c, campaign)
    if found.channel != CHANNEL:
        return []
    return people_in(c, found).filter(pl.col("state") == "spent").select("digest", "name", "payment").rows()


def missing_payees(c: sa.Connection, found: Campaign) -> int:
    """Return how many sellers are owed money and have named no payee."""
    return count(c, sa.and_(owed(found), sa.not_(has_payee(found))))


def payout_lines(market: Market, payout: int) -> pl.DataFrame:
    """Return the lines of a payout that are not confirmed, once it is in the log; ``payee`` is sealed."""
    market.ship()
    query = (
        sa.select(_own.campaign, _person.digest, _own.returns, _own.id, _person.name, _own.payment)
        .add_columns(_seller.payee)
        .join(schema.person, _person.id == _own.person)
        .outerjoin(schema.seller, _seller.participation == _own.id)
        .where(_own.payout == payout, _own.paid_at.is_(None))
        .order_by(_person.digest)
    )
    with market.look() as c:
        rows = [
            (reference(market.key, campaign, digest, returns), *others)
            for campaign, digest, returns, *others in c.execute(query)
        ]
        own = c.scalar(sa.select(_payout.campaign).where(_payout.id == payout))
        if own is not None and first_payout(c, own) == payout:
            rows += [
                (reference(market.key, own, digest, 0), 0, name, payment, None)
                for digest, name, payment in _filed(c, own)
            ]
    kinds = {"reference": pl.String, "participation": pl.Int64, "name": pl.String, "payment": pl.Int64}
    return pl.DataFrame(rows, schema={**kinds, "payee": pl.Binary}, orient="row")


@act("paymaster")
def confirm(tx: Tx, caller: Caller, campaign: int, references: References) -> int:
    """Enter that payments arrived; return how many are new."""
    lines = _lines(tx, campaign, references)
    current = all(row.payout is not None and is_last for row, is_last in lines)
    require(current, "state", "Some of these payments were returned already.")
    fresh = [row.id for row, _ in lines if row.paid_at is None]
    for identity in fresh:
        tx.set(schema.participation, _own.id == identity, paid_at=tx.now)
    if fresh:
        tx.event(campaign, "confirmed")
    return len(fresh)


@act("paymaster")
def returned(tx: Tx, caller: Caller, campaign: int, references: References) -> int:
    """Enter that payments came back: they are owed again; return how many are new."""
    lines = _lines(tx, campaign, references)
    fresh = [row for row, is_last in lines if row.payout is not None and is_last]
    owed_again = {"payout": None, "paid_at": None, "returns": _own.returns + 1}
    for row in fresh:
        tx.set(schema.participation, _own.id == row.id, **owed_again)
    amount = sum(row.payment for row in fresh)
    money.post(tx, campaign, "returned", money.OUTSIDE, money.PAYABLE, amount)
    if fresh:
        tx.event(campaign, "payments returned")
    return len(fresh)


def _lines(tx: Tx, campaign: int, references: list[str]) -> list[tuple[Any, bool]]:
    """Return the participations that references name; True: it is the newest reference of its person."""
    found, wanted = lock_campaign(tx, campaign), set(references)
    if first_payout(tx.c, campaign) is not None:
        filed = [digest for digest, _, _ in _filed(tx.c, campaign)]
        enter_rows(tx, found, [one for one in filed if reference(tx.market_key, campaign, one, 0) in wanted])
    paid = sa.and_(_own.campaign == campaign, _own.state == "spent", _own.payment > 0)
    columns = (_own.id, _own.payment, _own.payout, _own.paid_at, _own.returns, _person.digest)
    query = sa.select(*columns).where(paid).join(schema.person, _person.id == _own.person)
    lines = [
        (row, times == row.returns)
        for row in tx.c.execute(query)
        for times in range(row.returns + 1)
        if reference(tx.market_key, campaign, row.digest, times) in wanted
    ]
    unknown = len(wanted) - len(lines)
    require(not unknown, "invalid", f"{unknown} references are of no payment of this campaign.")
    return lines


def payouts_of(c: sa.Connection, campaign: int) -> list[Payout]:
    """Return a campaign's payouts, oldest first."""
    query = sa.select(_payout.id, _payout.number, _payout.people, _payout.amount)
    mine = query.where(_payout.campaign == campaign).order_by(_payout.number)
    return [Payout(*row) for row in c.execute(mine)]
