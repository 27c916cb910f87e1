"""What becomes of participations, one or many at once: held for, ended, or spent and paid.

Each function changes participations together with the accounts of money and of lifetime limits, so that the
books balance after it. Acts on many run while the campaign's row is locked: no seller of it acts meanwhile.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.partitions import pay_rest
from dpmarket.campaign.transaction import Campaign, Participation, Tx

_own, _sealed, _person = schema.participation.c, schema.sealed.c, schema.person.c
NOTHING_HELD = {"money_held": 0, "epsilon_held": 0, "until": None, "position": None}


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
        money.void(tx, me.campaign, me.pool, me.money_held)
    tx.event(me.campaign, state, me.id)


def end_all(tx: Tx, campaign: Campaign, condition: Any, state: str, reason: str | None = None) -> None:
    """End all participations of a locked campaign that meet a condition, before anything is spent."""
    if campaign.channel == "live":
        tx.events(condition, state)
        forget_sealed(tx, condition)
    held = sa.select(_own.person, _own.epsilon_held).where(condition, _own.epsilon_held > 0).subquery()
    left, delta = _person.epsilon_held - held.c.epsilon_held, _person.delta_used - campaign.delta
    tx.set(schema.person, _person.id == held.c.person, epsilon_held=left, delta_used=delta)
    for pool, amount, places in money.sums_by_pool(tx.c, condition, _own.money_held):
        money.void(tx, campaign.id, pool, amount, places)
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
    pools = money.sums_by_pool(tx.c, condition, _own.money_held)
    return all(money.hold(tx, campaign.id, *pool) for pool in pools if pool[1])


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
    pools = money.sums_by_pool(tx.c, condition, _own.money_held)
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
            money.pay_held(tx, campaign.id, pool, amount, f"{ref}/{campaign.id}/{pool}")
    pay_rest(tx, campaign, f"{ref}/{campaign.id}/files")
