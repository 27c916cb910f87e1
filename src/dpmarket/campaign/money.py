"""Money, and what becomes of participations, one or many at once: held for, ended, or spent and paid.

All money is in whole minor units. Holds are columns, transfers are posted once. A campaign has the accounts
``outside``, ``payable`` and ``escrow``, and ``escrow/GROUP`` for each group with money of its own. *Fund*
moves money from outside into escrow; *hold* sets some of it aside for one seller by one conditional update,
so that no two sellers are promised the same money; *void* frees it; *pay* moves what is held to payable when
epsilon is spent; *payout* moves it outside. The database itself refuses accounts below what they hold.

Participations change together with the accounts of money and of lifetime limits, so that the books balance.
Acts on many run while the campaign's row is locked: no seller of it acts meanwhile.
"""

from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import people, schema
from dpmarket.campaign.acts import LARGEST_AMOUNT
from dpmarket.campaign.transaction import Campaign, Participation, Tx, require

OUTSIDE, PAYABLE, ESCROW = "outside", "payable", "escrow"
NOTHING_HELD = {"money_held": 0, "epsilon_held": 0, "until": None, "position": None}
_account, _own, _sealed = schema.account.c, schema.participation.c, schema.sealed.c
_person = schema.person.c


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


def selling_state(channel: str) -> str:
    """Return the state whose participations a training spends: a live seller has sent a record by then."""
    return "delivered" if channel == "live" else "accepted"


def of(campaign: int, *states: str) -> Any:
    """Return the condition that a participation belongs to a campaign and is in one of some states."""
    return sa.and_(_own.campaign == campaign, sa.or_(*(_own.state == state for state in states)))


def active(campaign: int) -> Any:
    """Return the condition that a participation of a campaign has not ended."""
    return of(campaign, *schema.ACTIVE)


def selling(found: Campaign) -> Any:
    """Return the condition that a training of a campaign would spend a participation."""
    return of(found.id, selling_state(found.channel))


def count(c: sa.Connection, condition: Any) -> int:
    """Return how many participations meet a condition."""
    return int(c.scalar(sa.select(sa.func.count()).select_from(schema.participation).where(condition)) or 0)


def leave(tx: Tx, me: Participation, state: str, **values: Any) -> None:
    """End one participation before anything is spent."""
    tx.move(me, state, **{**NOTHING_HELD, **values})
    if me.state in ("reported", "delivered"):
        tx.delete(schema.sealed, _sealed.participation == me.id)
    people.free_limits(tx, me.person, me.epsilon_held, me.delta)
    if me.money_held:
        void(tx, me.campaign, me.pool, me.money_held)
    tx.event(me.campaign, state, me.id)


def end_all(tx: Tx, campaign: Campaign, condition: Any, state: str, reason: str | None = None) -> None:
    """End all participations of a locked campaign that meet a condition, before anything is spent."""
    if campaign.channel == "live":
        tx.events(condition, state)
        forget_sealed(tx, condition)
    held = sa.select(_own.person, _own.epsilon_held).where(condition, _own.epsilon_held > 0).subquery()
    left, delta = _person.epsilon_held - held.c.epsilon_held, _person.delta_used - campaign.delta
    tx.set(schema.person, _person.id == held.c.person, epsilon_held=left, delta_used=delta)
    for pool, amount, places in sums_by_pool(tx.c, condition, _own.money_held):
        void(tx, campaign.id, pool, amount, places)
    tx.set(schema.participation, condition, state=state, reason=reason, **NOTHING_HELD)


def forget_sealed(tx: Tx, condition: Any, *kinds: str) -> None:
    """Delete what is sealed for participations that meet a condition: everything, or some kinds."""
    theirs = _sealed.participation.in_(sa.select(_own.id).where(condition))
    tx.delete(schema.sealed, sa.and_(theirs, _sealed.kind.in_(kinds)) if kinds else theirs)


def enter_staged(tx: Tx, campaign: Campaign, staged: sa.Table, values: dict[str, Any]) -> None:
    """Enter a participation for everybody of a staged table, by digest, with values of its columns."""
    first = {
        "campaign": sa.literal(campaign.id, schema.WHOLE),
        "person": _person.id,
        "since": sa.literal(tx.now),
    }
    query = sa.select(*first.values(), *values.values()).join(
        schema.person, _person.digest == staged.c.digest
    )
    names = [*first, *values]
    tx.c.execute(schema.participation.insert().from_select(names, query.order_by(_person.id)))


def hold_all(tx: Tx, campaign: Campaign, condition: Any) -> bool:
    """Hold limits and escrow for new participations, as their rows say; return whether escrow had it."""
    rows = sa.select(_own.person, _own.epsilon_held).where(condition).subquery()
    held, delta = _person.epsilon_held + rows.c.epsilon_held, _person.delta_used + campaign.delta
    tx.set(schema.person, _person.id == rows.c.person, epsilon_held=held, delta_used=delta)
    pools = sums_by_pool(tx.c, condition, _own.money_held)
    return all(hold(tx, campaign.id, *pool) for pool in pools if pool[1])


def units_of(tx: Tx, column: Any) -> Any:
    """Return a column of epsilons in whole units, rounded up, as the database computes it."""
    scaled = column * float(people.EPSILON_UNITS)
    if tx.c.dialect.name != "sqlite":
        return sa.cast(sa.func.ceil(scaled), sa.BigInteger)
    whole = sa.cast(scaled, sa.Integer)
    return whole + sa.case((scaled > whole, 1), else_=0)


def pay_all(tx: Tx, campaign: Campaign, condition: Any, charge: Any, ref: str = "pay") -> None:
    """Spend the epsilon of all participations that meet a condition in a locked campaign; owe their payments.

    Each spends ``charge`` whole units of epsilon, at most what it holds; 0: no noise was drawn, and delta is
    free again as well.
    """
    pools = sums_by_pool(tx.c, condition, _own.money_held)
    if campaign.channel == "live":
        tx.events(condition, "spent")
    frees = isinstance(charge, int) and charge == 0
    spent = (sa.literal(0) if frees else charge).label("spent")
    rows = sa.select(_own.person, _own.epsilon_held, spent).where(condition).subquery()
    held, spent = _person.epsilon_held - rows.c.epsilon_held, _person.epsilon_spent + rows.c.spent
    delta = _person.delta_used - (campaign.delta if frees else 0)
    changed = {"epsilon_held": held, "epsilon_spent": spent, "delta_used": delta}
    tx.set(schema.person, _person.id == rows.c.person, **changed)
    ended = {"state": "spent", "epsilon_spent": charge, "money_held": 0, "epsilon_held": 0, "until": None}
    tx.set(schema.participation, condition, **ended)
    for pool, amount, _ in pools:
        if amount:
            pay_held(tx, campaign.id, pool, amount, f"{ref}/{campaign.id}/{pool}")
