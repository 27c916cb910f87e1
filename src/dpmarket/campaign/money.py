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
from dpmarket.campaign.acts import LARGEST_AMOUNT
from dpmarket.campaign.transaction import Tx, require

OUTSIDE, PAYABLE, ESCROW = "outside", "payable", "escrow"
_account, _own = schema.account.c, schema.participation.c


def pool_of(group: str | None) -> str:
    """Return the account that sellers of a group are paid from; None: of everybody."""
    return ESCROW if group is None else f"{ESCROW}/{group}"


def make_accounts(tx: Tx, campaign: int, quotas: dict[str, int] | None = None) -> None:
    """Make a campaign's accounts; each group has an escrow of its own. In those it has, quotas change."""
    names: list[tuple[str, int | None]] = [(OUTSIDE, None), (PAYABLE, None), (ESCROW, None)]
    names += [(pool_of(group), quota) for group, quota in (quotas or {}).items()]
    rows = [{"campaign": campaign, "name": name, "quota": quota} for name, quota in names]
    put = tx.insert(schema.account).values(rows)
    quota = {"quota": put.excluded.quota}
    tx.c.execute(put.on_conflict_do_update(index_elements=["campaign", "name"], set_=quota))


def hold(tx: Tx, campaign: int, pool: str, amount: int, places: int = 1) -> bool:
    """Set money and places of a quota aside if escrow has both free; return whether it had."""
    there = sa.and_(
        _is(campaign, pool),
        _account.balance - _account.held >= amount,
        sa.or_(_account.quota.is_(None), _account.taken + places <= _account.quota),
    )
    return tx.set(schema.account, there, held=_account.held + amount, taken=_account.taken + places) == 1


def void(tx: Tx, campaign: int, pool: str, amount: int, places: int = 1) -> None:
    """Free money and places that were set aside."""
    if amount or places:
        tx.c.execute(voiding(campaign, pool, amount, places))


def voiding(campaign: int, pool: str, amount: int, places: int = 1) -> sa.Update:
    """Return the statement of :func:`void`."""
    freed = {"held": _account.held - amount, "taken": _account.taken - places}
    return schema.account.update().where(_is(campaign, pool)).values(freed)


def _is(campaign: int, name: str) -> Any:
    return sa.and_(_account.campaign == campaign, _account.name == name)


def post(
    tx: Tx, campaign: int, kind: str, debit: str, credit: str, amount: int, *, ref: str | None = None
) -> None:
    """Move money from one account to another, at once and for ever."""
    if amount == 0:
        return
    values = {"campaign": campaign, "kind": kind, "debit": debit, "credit": credit, "amount": amount}
    tx.add(schema.transfer, **values, ref=ref, at=tx.now)
    for name, change in sorted(((debit, -amount), (credit, amount))):
        tx.set(schema.account, _is(campaign, name), balance=_account.balance + change)


def pay_held(tx: Tx, campaign: int, pool: str, amount: int, ref: str) -> None:
    """Move money that is held in a pool to the sellers' payable account."""
    tx.set(schema.account, _is(campaign, pool), held=_account.held - amount)
    post(tx, campaign, "pay", pool, PAYABLE, amount, ref=ref)


def enter_funds(tx: Tx, campaign: int, pool: str, amount: int, *, ref: str | None = None) -> None:
    """Move money from outside into escrow."""
    funded = tx.c.execute(sa.select(-_account.balance).where(_is(campaign, OUTSIDE))).scalar_one()
    require(funded + amount <= LARGEST_AMOUNT, "invalid", "A campaign can have at most 2^53 minor units.")
    require(pool in room_by_pool(tx.c, campaign), "invalid", f"This campaign has no account {pool!r}.")
    post(tx, campaign, "fund", OUTSIDE, pool, amount, ref=ref)


def free_by_pool(c: sa.Connection, campaign: int) -> dict[str, int]:
    """Return what each pool has that is promised to nobody."""
    return {name: free for name, (free, _) in room_by_pool(c, campaign).items()}


def room_by_pool(c: sa.Connection, campaign: int) -> dict[str, tuple[int, int | None]]:
    """Return what each pool has that is promised to nobody, and the places left of its quota."""
    columns = (_account.name, _account.balance - _account.held, _account.quota - _account.taken)
    query = sa.select(*columns).where(_account.campaign == campaign, _account.name.like(f"{ESCROW}%"))
    return {name: (free, places) for name, free, places in c.execute(query.order_by(_account.name))}


def needed(pools: list[tuple[str, int, int]], free: dict[str, int]) -> int:
    """Return what the common escrow must have, so that every pool can hold its amount."""
    return sum(amount if pool == ESCROW else max(amount - free[pool], 0) for pool, amount, _ in pools)


def sums_by_pool(c: sa.Connection, condition: Any, column: Any) -> list[tuple[str, int, int]]:
    """Return, for each pool, the sum of a column over participations, and how many of them hold money."""
    query = sa.select(_own.pool, sa.func.sum(column), sa.func.count().filter(_own.money_held > 0))
    rows = c.execute(query.where(condition).group_by(_own.pool).order_by(_own.pool))
    return [(pool, int(amount or 0), number) for pool, amount, number in rows]
