"""How participations end: one seller leaves, many are freed at once, many are paid.

Ending a participation frees what is held for it, money and epsilon, and deletes what was sealed for it.
Acts on many run while the campaign's row is locked, so that no seller of it acts meanwhile.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import money, people, schema
from dpmarket.campaign.acts import Campaign, Participation, Tx, move

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


def count(c: sa.Connection, condition: Any) -> int:
    """Return how many participations meet a condition."""
    return int(
        c.execute(sa.select(sa.func.count()).select_from(schema.participation).where(condition)).scalar_one()
    )


def leave(tx: Tx, me: Participation, state: str, **values: Any) -> None:
    """End one participation before anything is spent."""
    move(tx, me, state, **{**NOTHING_HELD, **values})
    if me.state in ("reported", "delivered"):
        tx.c.execute(schema.sealed.delete().where(_sealed.participation == me.id))
    people.free_limits(tx, me.person, me.epsilon_held, me.delta)
    if me.money_held:
        money.void(tx, me.campaign, me.pool, me.money_held)
    tx.event(me.campaign, state, me.id)


def end_all(tx: Tx, campaign: Campaign, condition: Any, state: str, reason: str | None = None) -> None:
    """End all participations of a locked campaign that meet a condition, before anything is spent."""
    if campaign.channel == "live":
        new = sa.select(_own.campaign, _own.id, sa.literal(state), sa.literal(tx.now)).where(condition)
        tx.c.execute(schema.event.insert().from_select(["campaign", "participation", "kind", "at"], new))
    tx.c.execute(schema.sealed.delete().where(_sealed.participation.in_(sa.select(_own.id).where(condition))))
    people.free_all_limits(tx, campaign.delta, condition)
    money.void_all(tx, campaign.id, condition)
    tx.c.execute(
        schema.participation.update().where(condition).values(state=state, reason=reason, **NOTHING_HELD)
    )


def units_of(tx: Tx, column: Any) -> Any:
    """Return a column of epsilons in whole units, rounded up, as the database computes it."""
    scaled = column * float(people.EPSILON_UNITS)
    if tx.c.dialect.name != "sqlite":
        return sa.cast(sa.func.ceil(scaled), sa.BigInteger)
    whole = sa.cast(scaled, sa.Integer)
    return whole + sa.case((scaled > whole, 1), else_=0)


def pay_all(tx: Tx, campaign: Campaign, condition: Any, charge: Any) -> int:
    """Turn all participations of a locked campaign that meet a condition into spent ones; return the sum.

    Parameters
    ----------
    condition
        Which; money is held for each of them.
    charge
        What each spends in whole units of epsilon, at most what it holds; 0: no noise was drawn, and delta
        is free again as well.

    Returns
    -------
    int
        What sellers are owed, in minor units.
    """
    parts = money.sums_by_pool(tx.c, condition, _own.money_held)
    if campaign.channel == "live":
        new = sa.select(_own.campaign, _own.id, sa.literal("spent"), sa.literal(tx.now)).where(condition)
        tx.c.execute(schema.event.insert().from_select(["campaign", "participation", "kind", "at"], new))
    frees = isinstance(charge, int) and charge == 0
    spent = sa.literal(0) if frees else charge
    rows = (
        sa.select(_own.person, _own.epsilon_held.label("held"), spent.label("spent"))
        .where(condition)
        .subquery()
    )
    values: dict[Any, Any] = {
        "epsilon_held": _person.epsilon_held - rows.c.held,
        "epsilon_spent": _person.epsilon_spent + rows.c.spent,
    }
    if frees:
        values["delta_used"] = _person.delta_used - campaign.delta
    tx.c.execute(schema.person.update().where(_person.id == rows.c.person).values(values))
    tx.c.execute(
        schema.participation.update()
        .where(condition)
        .values(state="spent", epsilon_spent=charge, money_held=0, epsilon_held=0, until=None)
    )
    for pool, amount, _ in parts:
        money.pay_held(tx, campaign.id, pool, amount)
    return sum(amount for _, amount, _ in parts)
