"""Set money aside in a campaign's escrow for one seller: by one conditional update, before anything is asked.

A participation has one transfer in all its life: pending while money is set aside, voided when it is free
again. When a round is entered, the holds of its sellers become the one hold of the round, which is posted
when their promises are spent.
"""

from __future__ import annotations

import sqlalchemy as sa

from dpmarket.ledger import Connection
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.engine import new_id
from dpmarket.market import tables
from dpmarket.market.standing import Standing
from dpmarket.market.statements import Text, Whole, insert

_account, _transfer = ledger_tables.account.c, ledger_tables.transfer.c


def reserve(connection: Connection, escrow: str, amount: int) -> bool:
    """Set an amount aside if escrow has it and promised it to nobody; return whether it had."""
    changed = connection.execute(
        ledger_tables.account.update()
        .where(_account.id == escrow, _account.credits - _account.debits - _account.pending >= amount)
        .values(pending=_account.pending + amount)
    )
    return changed.rowcount == 1


def free_of(connection: Connection, escrow: str) -> int:
    """Return what lies in escrow and is promised to nobody, in minor units."""
    free = sa.select(_account.credits - _account.debits - _account.pending).where(_account.id == escrow)
    return int(connection.execute(free).scalar_one())


def set_free(connection: Connection, escrow: str, amount: int) -> None:
    """Let go of an amount that was set aside."""
    if amount:
        connection.execute(
            ledger_tables.account.update()
            .where(_account.id == escrow)
            .values(pending=_account.pending - amount)
        )


def hold_seat(connection: Connection, found: Standing, at: str) -> bool:
    """Hold the largest payment for somebody who will choose; return whether escrow had room for it.

    Who lost a seat before gets the same transfer again.
    """
    amount = int(found.largest_payment or 0)
    if not reserve(connection, found.escrow, amount):
        return False
    values = pay_values((found.escrow, found.payable), found.id, found.person, amount, at)
    again = {"state": "pending", "amount": amount, "made_at": at, "ended_at": None}
    connection.execute(
        insert(connection, ledger_tables.transfer, values)
        .inline()
        .on_conflict_do_update(
            index_elements=["participation", "kind"], set_=again, where=_transfer.state == "voided"
        )
    )
    return True


def pay_values(
    accounts: tuple[str, str], participation: str, person: str, amount: int, at: str
) -> dict[str, object]:
    """Return the row of a pending payment from one account, escrow, to another, payable."""
    return {
        "id": new_id(),
        "kind": "pay",
        "debit_account": accounts[0],
        "credit_account": accounts[1],
        "amount": amount,
        "person": person,
        "participation": participation,
        "state": "pending",
        "made_at": at,
    }


def shrinking(escrow: Text, participation: Text, before: Whole, amount: Whole) -> tuple[sa.Update, sa.Update]:
    """Return the statements that keep the chosen payment of what was held, which was ``before``."""
    transfer = ledger_tables.transfer.update().where(_pending(_transfer.participation == participation))
    account = ledger_tables.account.update().where(_account.id == escrow)
    return (
        transfer.values(amount=amount),
        account.values(pending=_account.pending - before + amount),
    )


def void(connection: Connection, escrow: str, participation: str, at: str) -> None:
    """Free what is held for a participation, if anything is."""
    done = connection.execute(
        ledger_tables.transfer.update()
        .where(_pending(_transfer.participation == participation))
        .values(state="voided", ended_at=at)
        .returning(_transfer.amount)
    )
    set_free(connection, escrow, sum(int(amount) for amount in done.scalars()))


def void_all(connection: Connection, escrow: str, where: sa.ColumnElement[bool], at: str) -> int:
    """Free what is held for all participations of a campaign for which a condition holds; return how much."""
    chosen = sa.select(tables.participation.c.id).where(where)
    pending = _pending(_transfer.participation.in_(chosen))
    ended = (
        ledger_tables.transfer.update()
        .where(pending)
        .values(state="voided", ended_at=at)
        .returning(_transfer.amount)
    )
    amount = sum(int(amount) for amount in connection.execute(ended).scalars())
    set_free(connection, escrow, amount)
    return amount


def held_for(connection: Connection, participation: str) -> int:
    """Return what is held for a participation, in minor units."""
    query = sa.select(_transfer.amount).where(_pending(_transfer.participation == participation))
    return int(connection.execute(query).scalar() or 0)


def _pending(where: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.and_(where, _transfer.kind == "pay", _transfer.state == "pending")
