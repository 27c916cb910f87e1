"""Spend rounds on a release: debit first, mark in the moment before noise is drawn, then keep the model.

A release is *debited* (nothing was drawn), *marked* (noise may have been drawn), and then *released*, or
*lost* (spent and paid, without a model). Only a release without a mark can be *returned*, as if it had never
been begun. Every step is a conditional update: who was declared dead cannot go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.arrays import FloatArray
from dpmarket.errors import LedgerRefusal
from dpmarket.files import table_to_bytes
from dpmarket.ledger import money, tables
from dpmarket.ledger.engine import Connection, now
from dpmarket.ledger.pages import keep
from dpmarket.ledger.rounds import WEIGHT, advance, round_of

SPENT = ("marked", "released", "lost")
"""States in which noise may have been drawn."""


@dataclass(frozen=True)
class Release:
    """An attempt to spend rounds.

    Attributes
    ----------
    id
        The attempt's id.
    kind
        What is released: a ``model``.
    state
        ``debited``, ``marked``, ``released``, ``lost`` or ``returned``.
    debited_at
        When it began, in UTC.
    rounds
        The numbers of the rounds that it spends.
    """

    id: str
    kind: str
    state: str
    debited_at: str
    rounds: tuple[int, ...]


def debit(connection: Connection, attempt: str, rounds: Sequence[int], kind: str = "model") -> None:
    """Spend the promises of rounds, once and before a record is read.

    Parameters
    ----------
    attempt
        A new id, whose process is shown to be alive already (:func:`~dpmarket.ledger.outside.running`).
    rounds
        Their numbers.
    kind
        What will be released.

    Raises
    ------
    LedgerRefusal
        One of them is spent already.
    """
    for number in rounds:
        if round_of(connection, number).state != "open":
            raise LedgerRefusal(f"the promises of round {number} are spent already.")
    values = {
        "id": attempt,
        "kind": kind,
        "state": "debited",
        "delta": _delta_of(connection, rounds),
        "debited_at": now(),
    }
    connection.execute(tables.release.insert().values(values))
    rows = [{"release": attempt, "round": number, "counts": 1} for number in rounds]
    connection.execute(tables.debit.insert(), rows)
    advance(connection)


def mark(connection: Connection, attempt: str, log_head: str | None = None) -> None:
    """Enter that noise is about to be drawn: from now on the promises are spent, whatever happens.

    Raises
    ------
    LedgerRefusal
        The attempt was declared dead meanwhile, and may not draw noise any more.
    """
    if not _step(connection, attempt, ("debited",), state="marked", marked_at=now()):
        raise LedgerRefusal(
            "this training was given up by another process, which took it for dead: no noise was drawn, and "
            "nothing was released."
        )
    if log_head is not None:
        note_log_head(connection, log_head)


def give_back(connection: Connection, attempt: str) -> bool:
    """Undo a debit without a mark; return whether there was one to undo."""
    if not _step(connection, attempt, ("debited",), state="returned", ended_at=now()):
        return False
    _uncount(connection, attempt)
    return True


def unmark(connection: Connection, attempt: str) -> None:
    """Undo a mark after which, for certain, no noise was drawn: only for the process that made it."""
    if _step(connection, attempt, ("marked",), state="returned", ended_at=now()):
        _uncount(connection, attempt)


def release(
    connection: Connection,
    attempt: str,
    model: str,
    spent: Mapping[int, tuple[FloatArray, FloatArray]],
) -> None:
    """Keep a released model, and what it spent on each seller of each round with which weight, in one step.

    The sellers' payments are theirs from now on.

    Raises
    ------
    LedgerRefusal
        The attempt has no mark, or has ended.
    """
    for number, (epsilons, weights) in spent.items():
        content = table_to_bytes(pl.DataFrame({"spent": np.asarray(epsilons), WEIGHT: np.asarray(weights)}))
        keep(connection, tables.page, {"round": number, "kind": "spent"}, content)
    if not _step(connection, attempt, ("marked",), state="released", ended_at=now(), model=model):
        raise LedgerRefusal("this training has ended already: its model is not kept.")
    _post(connection, attempt)


def lose(connection: Connection, attempt: str) -> None:
    """Enter that a marked attempt ended without a model: spent and paid in full."""
    if _step(connection, attempt, ("marked",), state="lost", ended_at=now()):
        _post(connection, attempt)


def releases_in(connection: Connection, *states: str) -> list[Release]:
    """Return the attempts in these states (all, if none are named), oldest first."""
    columns = tables.release.c
    query = sa.select(columns.id, columns.kind, columns.state, columns.debited_at)
    query = query.order_by(columns.debited_at, columns.id)
    if states:
        query = query.where(columns.state.in_(states))
    found = []
    for row in connection.execute(query).all():
        rounds = sa.select(tables.debit.c.round).where(tables.debit.c.release == row.id)
        numbers = connection.execute(rounds.order_by(tables.debit.c.round)).scalars()
        found.append(Release(row.id, row.kind, row.state, row.debited_at, tuple(numbers)))
    return found


def spent_identities(connection: Connection) -> dict[str, set[str]]:
    """Return, by attempt, the identities of the rounds that it spent, or that another one had spent."""
    found: dict[str, set[str]] = {}
    for row in _debits(connection):
        if row.state in SPENT and _is_counted(row):
            found.setdefault(row.id, set()).add(row.identity)
    return found


def release_problems(connection: Connection) -> list[str]:
    """Return a sentence for every attempt whose debits do not count as its state says."""
    wrong = {
        row.id: row.debited_at
        for row in _debits(connection)
        if (row.counts == 1 if row.state == "returned" else not _is_counted(row))
    }
    return [f"the training of {at}: its debits do not add up." for at in wrong.values()]


def release_with(connection: Connection, attempt: str) -> Release | None:
    """Return one attempt by its id, None if there is none."""
    return next((found for found in releases_in(connection) if found.id == attempt), None)


def released_model(connection: Connection, number: int) -> str | None:
    """Return the model that was released for a round, as JSON text, or None."""
    query = (
        sa.select(tables.release.c.model)
        .join(tables.debit, tables.debit.c.release == tables.release.c.id)
        .where(tables.debit.c.round == number, tables.debit.c.counts == 1)
    )
    found = connection.execute(query).scalar()
    return None if found is None else str(found)


def note_log_head(connection: Connection, head: str) -> None:
    """Keep the last line of the log outside that this ledger has seen."""
    connection.execute(tables.ledger.update().values(log_head=head))


def log_head_of(connection: Connection) -> str | None:
    """Return the last line of the log outside that this ledger has seen, None if there was none."""
    found = connection.execute(sa.select(tables.ledger.c.log_head)).scalar_one()
    return None if found is None else str(found)


def enter_lost(connection: Connection, attempt: str, rounds: Sequence[int], at: str) -> None:
    """Enter an attempt of which only the log outside knows as spent and paid, without a model."""
    known = release_with(connection, attempt)
    values: dict[str, object] = {"state": "lost", "marked_at": at, "ended_at": now(), "model": None}
    if known is None:
        values |= {"delta": _delta_of(connection, rounds), "debited_at": at}
        connection.execute(tables.release.insert().values(id=attempt, kind="model", **values))
    else:
        connection.execute(tables.release.update().where(tables.release.c.id == attempt).values(values))
    for number in rounds:
        found = round_of(connection, number)
        if found.state == "debited" and found.release not in (None, attempt):
            give_back(connection, str(found.release))  # it drew no noise
            found = round_of(connection, number)
        # A round that another attempt spent is spent, and cannot be more than that.
        counts = int(found.state == "open")
        where = sa.and_(tables.debit.c.release == attempt, tables.debit.c.round == number)
        own = connection.execute(sa.select(tables.debit.c.counts).where(where)).scalar()
        if own is None:
            row = {"release": attempt, "round": number, "counts": counts}
            connection.execute(tables.debit.insert().values(row))
        elif own == 0:
            connection.execute(tables.debit.update().where(where).values(counts=counts))
    _post(connection, attempt)


def _delta_of(connection: Connection, rounds: Sequence[int]) -> float:
    """Return the largest delta of rounds: a release of all of them keeps it."""
    return max((round_of(connection, number).delta for number in rounds), default=0.0)


def _debits(connection: Connection) -> Sequence[Any]:
    """Return a row for every round of every attempt, with the state of the one that spent the round."""
    counting, spender = tables.debit.alias(), tables.release.alias()
    joined = (
        tables.release.outerjoin(tables.debit, tables.debit.c.release == tables.release.c.id)
        .outerjoin(tables.round_, tables.round_.c.number == tables.debit.c.round)
        .outerjoin(counting, sa.and_(counting.c.round == tables.debit.c.round, counting.c.counts == 1))
        .outerjoin(spender, spender.c.id == counting.c.release)
    )
    columns = tables.release.c
    query = sa.select(
        *(columns.id, columns.state, columns.debited_at, tables.debit.c.counts, tables.round_.c.identity),
        spender.c.state.label("spent_in"),
    )
    return connection.execute(query.select_from(joined).order_by(columns.debited_at, columns.id)).all()


def _is_counted(row: Any) -> bool:
    """Whether a debit counts; one that a repair entered need not where another attempt spent the round."""
    return bool(row.counts == 1 or (row.state == "lost" and row.spent_in in SPENT))


def _step(connection: Connection, attempt: str, before: tuple[str, ...], **values: str) -> bool:
    changed = connection.execute(
        tables.release.update()
        .where(tables.release.c.id == attempt, tables.release.c.state.in_(before))
        .values(values)
    )
    return changed.rowcount == 1


def _uncount(connection: Connection, attempt: str) -> None:
    connection.execute(tables.debit.update().where(tables.debit.c.release == attempt).values(counts=0))
    advance(connection)


def _post(connection: Connection, attempt: str) -> None:
    rounds = sa.select(tables.debit.c.round).where(tables.debit.c.release == attempt)
    for number in list(connection.execute(rounds).scalars()):
        money.post_round(connection, number)
    advance(connection)
