"""Money: holds are columns, transfers are posted once; all in whole minor units.

A campaign has the accounts ``outside``, ``payable`` and ``escrow``, and ``escrow/GROUP`` for each group with
money of its own. *Fund* moves money from outside into escrow; *hold* sets some of it aside for one seller by
one conditional update, so that no two sellers are promised the same money; *void* frees it; *pay* moves what
is held to payable when epsilon is spent; *payout* moves it outside. The database itself refuses accounts
below what they hold.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import LARGEST_AMOUNT, Tx
from dpmarket.errors import MarketRefusal

OUTSIDE, PAYABLE, ESCROW = "outside", "payable", "escrow"
_account, _own = schema.account.c, schema.participation.c


def make_accounts(tx: Tx, campaign: int, quotas: dict[str, int] | None = None) -> None:
    """Make a campaign's accounts; each group with a quota has an escrow of its own."""
    names: list[tuple[str, int | None]] = [(OUTSIDE, None), (PAYABLE, None), (ESCROW, None)]
    names += [(f"{ESCROW}/{group}", quota) for group, quota in (quotas or {}).items()]
    rows = [{"campaign": campaign, "name": name, "quota": quota} for name, quota in names]
    tx.c.execute(schema.account.insert(), rows)


def hold(tx: Tx, campaign: int, pool: str, amount: int, places: int = 1) -> bool:
    """Set money and places of a quota aside if escrow has both free; return whether it had."""
    changed = tx.c.execute(
        schema.account.update()
        .where(
            _account.campaign == campaign,
            _account.name == pool,
            _account.balance - _account.held >= amount,
            sa.or_(_account.quota.is_(None), _account.taken + places <= _account.quota),
        )
        .values(held=_account.held + amount, taken=_account.taken + places)
    )
    return changed.rowcount == 1


def void(tx: Tx, campaign: int, pool: str, amount: int, places: int = 1) -> None:
    """Free money and places that were set aside."""
    if amount or places:
        tx.c.execute(voiding(campaign, pool, amount, places))


def voiding(campaign: int, pool: str, amount: int, places: int = 1) -> sa.Update:
    """Return the statement of :func:`void`."""
    return (
        schema.account.update()
        .where(_account.campaign == campaign, _account.name == pool)
        .values(held=_account.held - amount, taken=_account.taken - places)
    )


def post(
    tx: Tx, campaign: int, kind: str, debit: str, credit: str, amount: int, *, ref: str | None = None
) -> None:
    """Move money from one account to another, at once and for ever.

    Raises
    ------
    MarketRefusal
        The account that gives has too little that is not held.
    """
    if amount == 0:
        return
    values = {"campaign": campaign, "kind": kind, "debit": debit, "credit": credit, "amount": amount}
    tx.c.execute(schema.transfer.insert(), {**values, "ref": ref, "at": tx.now})
    for name, change in sorted(((debit, -amount), (credit, amount))):
        tx.c.execute(
            schema.account.update()
            .where(_account.campaign == campaign, _account.name == name)
            .values(balance=_account.balance + change)
        )


def pay_held(tx: Tx, campaign: int, pool: str, amount: int) -> None:
    """Move money that is held in a pool to the sellers' payable account."""
    if amount == 0:
        return
    tx.c.execute(
        schema.account.update()
        .where(_account.campaign == campaign, _account.name == pool)
        .values(held=_account.held - amount)
    )
    post(tx, campaign, "pay", pool, PAYABLE, amount, ref=f"pay/{campaign}/{pool}")


def enter_funds(tx: Tx, campaign: int, pool: str, amount: int, *, ref: str | None = None) -> None:
    """Move money from outside into escrow.

    Raises
    ------
    MarketRefusal
        There is no such pool, or the campaign would have more than accounts can count.
    """
    funded = sa.select(-_account.balance).where(_account.campaign == campaign, _account.name == OUTSIDE)
    if int(tx.c.execute(funded).scalar_one()) + amount > LARGEST_AMOUNT:
        raise MarketRefusal("invalid", "A campaign can have at most 2^53 minor units.")
    if not pool.startswith(ESCROW) or balance(tx.c, campaign, pool) is None:
        raise MarketRefusal("invalid", f"This campaign has no account {pool!r}.")
    post(tx, campaign, "fund", OUTSIDE, pool, amount, ref=ref)


def balance(c: sa.Connection, campaign: int, name: str) -> tuple[int, int] | None:
    """Return an account's balance and what of it is held; None if there is no such account."""
    query = sa.select(_account.balance, _account.held).where(
        _account.campaign == campaign, _account.name == name
    )
    found = c.execute(query).one_or_none()
    return None if found is None else (int(found.balance), int(found.held))


def free_by_pool(c: sa.Connection, campaign: int) -> dict[str, int]:
    """Return what each pool has that is promised to nobody."""
    query = sa.select(_account.name, _account.balance - _account.held).where(
        _account.campaign == campaign, _account.name.like(f"{ESCROW}%")
    )
    return {str(name): int(free) for name, free in c.execute(query.order_by(_account.name))}


def sums_by_pool(c: sa.Connection, condition: Any, column: Any) -> list[tuple[str, int, int]]:
    """Return, for each pool, the sum of a column over participations, and how many of them hold money."""
    query = (
        sa.select(
            _own.pool,
            sa.func.coalesce(sa.func.sum(column), 0),
            sa.func.count().filter(_own.money_held > 0),
        )
        .where(condition)
        .group_by(_own.pool)
        .order_by(_own.pool)
    )
    return [(str(pool), int(amount), int(number)) for pool, amount, number in c.execute(query)]


def void_all(tx: Tx, campaign: int, condition: Any) -> None:
    """Free what is held for all participations of a campaign that meet a condition, in the accounts only."""
    for pool, amount, places in sums_by_pool(tx.c, condition, _own.money_held):
        void(tx, campaign, pool, amount, places)
