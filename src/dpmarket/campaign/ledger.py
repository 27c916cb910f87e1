"""Keep what every seller was promised, is paid and has spent: a database beside the market file.

A *round* is one file of quotes. It is entered before the file is written, so that no promise can be lost,
and can be trained on once: the training debits the round's promises before a record is read, and the model
that was released stays in the ledger. A database constraint, not the program's care, makes a second debit
of the same round impossible.

Promises of many sellers are kept as a Parquet file inside the database, one per round, cut into pages: a row
of SQL for each of ten million sellers would take longer than everything else.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.files import (
    Database,
    open_database,
    positions_in,
    table_from_bytes,
    table_to_bytes,
    transaction,
)

APPLICATION = 0x64706D31
VERSION = 2
SELLER, EPSILON, PAYMENT = "seller", "epsilon", "payment_minor_units"
WEIGHT = "loss_weight"
_PAGE = 1 << 24  # bytes; a database holds no value of more than a billion
_SCHEMA = """
CREATE TABLE round (
    number INTEGER PRIMARY KEY,
    quoted_at TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    sellers INTEGER NOT NULL CHECK (sellers > 0),
    promised REAL NOT NULL CHECK (promised >= 0),
    payments INTEGER NOT NULL CHECK (payments >= 0),
    minor_units INTEGER NOT NULL CHECK (minor_units > 0),
    parameters TEXT NOT NULL
);
CREATE TABLE page (
    round INTEGER NOT NULL REFERENCES round,
    kind TEXT NOT NULL CHECK (kind IN ('quoted', 'spent')),
    number INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (round, kind, number)
);
CREATE TABLE withdrawal (
    round INTEGER NOT NULL REFERENCES round,
    seller TEXT NOT NULL,
    withdrawn_at TEXT NOT NULL,
    PRIMARY KEY (round, seller)
) WITHOUT ROWID;
CREATE TABLE training (
    number INTEGER PRIMARY KEY,
    round INTEGER NOT NULL REFERENCES round,
    state TEXT NOT NULL CHECK (state IN ('debited', 'released', 'returned')),
    debited_at TEXT NOT NULL,
    ended_at TEXT,
    model TEXT CHECK ((model IS NOT NULL) = (state = 'released'))
);
CREATE UNIQUE INDEX one_debit_per_round ON training (round) WHERE state != 'returned'
"""


@dataclass(frozen=True)
class Round:
    """One file of quotes, as the ledger knows it.

    Attributes
    ----------
    number : counts from 1.
    quoted_at : when, in UTC.
    mechanism : which mechanism decided.
    sellers, promised, payments : how many, the sum of their epsilons, and of their payments in minor units.
    minor_units : how many of these make one unit of money.
    state : ``open`` (not trained on), ``debited`` (spent; training under way or ended without a model) or
        ``released``.
    debited_at : when the promises were spent; None for an open round.
    """

    number: int
    quoted_at: str
    mechanism: str
    sellers: int
    promised: float
    payments: int
    minor_units: int
    state: str
    debited_at: str | None


def ledger_path(market: str | os.PathLike[str]) -> Path:
    """Return where a market file's ledger lies: beside it, with the ending ``.ledger``.

    A symbolic link to a market file is that market, and has its ledger.
    """
    path = Path(market)
    return (path.resolve() if path.is_symlink() else path).with_suffix(".ledger")


@contextlib.contextmanager
def open_ledger(path: str | os.PathLike[str]) -> Iterator[Database]:
    """Open a ledger, made if there is none, for a ``with`` block.

    Raises
    ------
    FileProblem : the file is no ledger, one of another version, damaged, or cannot be opened.
    """
    with open_database(path, APPLICATION, VERSION, _SCHEMA) as ledger:
        yield ledger


@contextlib.contextmanager
def existing_ledger(path: str | os.PathLike[str]) -> Iterator[Database]:
    """Open a ledger that must be there already, for a ``with`` block.

    Raises
    ------
    FileProblem : there is none, or as for :func:`open_ledger`.
    """
    if not Path(path).is_file():
        raise FileProblem(
            f"cannot find the ledger {path}: 'dpmarket quote' makes it beside the market file, and without "
            "it no promise can be used."
        )
    with open_ledger(path) as ledger:
        yield ledger


def enter_round(
    ledger: Database,
    quotes: pl.DataFrame,
    mechanism: str,
    minor_units: int,
    parameters: Mapping[str, Any],
    again: bool = False,
    parquet: bytes | None = None,
) -> tuple[Round, bool]:
    """Enter promises as a new round, or find the one that they are; return it, and whether it is new.

    Looking and entering are one step: of two that enter the same at once, the second finds the first's round.

    Parameters
    ----------
    quotes : the sellers in the first column, and columns epsilon and payment_minor_units.
    again : whether promises that are spent are made a second time, on top; open ones never are.
    parquet : the quotes as a Parquet file, kept as it is if there is one.
    """
    quotes = _as_known(quotes)
    content = table_to_bytes(quotes) if parquet is None else parquet
    promised, payments = _totals(quotes)
    with transaction(ledger):
        known = matching_rounds(ledger, quotes)
        if known and (not again or known[0].state == "open"):
            return known[0], False
        number = ledger.execute(
            "INSERT INTO round (quoted_at, mechanism, sellers, promised, payments, minor_units, parameters)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number",
            (_now(), mechanism, quotes.height, promised, payments, minor_units, json.dumps(parameters)),
        ).fetchone()[0]
        _keep(ledger, number, "quoted", content)
        return round_of(ledger, number), True


def rounds_of(ledger: Database) -> list[Round]:
    """Return all rounds, oldest first."""
    rows = ledger.execute(
        "SELECT round.number, quoted_at, mechanism, sellers, promised, payments, minor_units,"
        " coalesce(state, 'open'), debited_at FROM round"
        " LEFT JOIN training ON training.round = round.number AND state != 'returned' ORDER BY round.number"
    )
    return [Round(*row) for row in rows]


def round_of(ledger: Database, number: int) -> Round:
    """Return one round."""
    return next(entered for entered in rounds_of(ledger) if entered.number == number)


def matching_rounds(ledger: Database, quotes: pl.DataFrame) -> list[Round]:
    """Return the rounds whose quotes are exactly these, newest first: every id, epsilon and payment."""
    _, payments = _totals(quotes)
    return [
        entered
        for entered in reversed(rounds_of(ledger))
        if entered.sellers == quotes.height
        and entered.payments == payments
        and quotes_of(ledger, entered.number).equals(quotes)
    ]


def quotes_of(ledger: Database, number: int) -> pl.DataFrame:
    """Return the quotes of a round: columns seller, epsilon, payment_minor_units."""
    return _as_known(_kept(ledger, number, "quoted"))


def spent_of(ledger: Database, entered: Round) -> FloatArray:
    """Return what each seller of a round has spent in it, in the order of its quotes.

    Nothing while it is open; the whole promise from the debit on; what the released model really spent, which
    is never more, once there is one. Withdrawn sellers spend nothing.
    """
    if entered.state == "released":
        spent = _kept(ledger, entered.number, "spent")
        return np.asarray(spent.get_column("spent").to_numpy())
    quotes = quotes_of(ledger, entered.number)
    if entered.state == "open":
        return np.zeros(quotes.height)
    epsilons = np.asarray(quotes.get_column(EPSILON).to_numpy())
    return np.where(withdrawn_of(ledger, entered.number, quotes), 0.0, epsilons)


def weights_of(ledger: Database, number: int) -> FloatArray:
    """Return each seller's weight in the model that was released for a round, in the order of its quotes."""
    return np.asarray(_kept(ledger, number, "spent").get_column(WEIGHT).to_numpy())


def parameters_of(ledger: Database, number: int) -> dict[str, Any]:
    """Return the public parameters of the mechanism that decided a round, as plain data."""
    row = ledger.execute("SELECT parameters FROM round WHERE number = ?", (number,)).fetchone()
    return dict(json.loads(row[0]))


def withdrawn_of(ledger: Database, number: int, quotes: pl.DataFrame) -> BoolArray:
    """Return which sellers of a round have withdrawn, in the order of its quotes."""
    rows = ledger.execute("SELECT seller FROM withdrawal WHERE round = ?", (number,)).fetchall()
    withdrawn = np.zeros(quotes.height, dtype=bool)
    if rows:
        sellers = pl.DataFrame({SELLER: [row[0] for row in rows]})
        withdrawn[positions_in(sellers, SELLER, quotes, SELLER)] = True
    return withdrawn


def withdraw(ledger: Database, number: int, sellers: Sequence[str]) -> int:
    """Take sellers out of a round before it is trained on; return how many had not withdrawn before.

    Nobody else's promise or payment changes.

    Raises
    ------
    LedgerRefusal : a seller has no quote in this round, or the round's promises are spent already.
    """
    if not sellers:
        return 0
    asked = pl.DataFrame({SELLER: list(dict.fromkeys(sellers))})
    unknown = int((positions_in(asked, SELLER, quotes_of(ledger, number), SELLER) < 0).sum())
    if unknown:
        raise LedgerRefusal(
            f"cannot withdraw: {unknown} of {asked.height} sellers have no quote in this file."
        )
    with transaction(ledger):
        entered = round_of(ledger, number)
        if entered.state != "open":
            raise LedgerRefusal(
                f"cannot withdraw: training on these quotes began at {entered.debited_at}, and what it took "
                "cannot be taken back."
            )
        rows = [(number, seller, _now()) for seller in asked.get_column(SELLER).to_list()]
        before = ledger.total_changes
        ledger.executemany("INSERT OR IGNORE INTO withdrawal VALUES (?, ?, ?)", rows)
        return ledger.total_changes - before


def debit(ledger: Database, number: int) -> int:
    """Spend the promises of a round, once and before a record is read; return the training's number.

    Raises
    ------
    LedgerRefusal : they are spent already.
    """
    with transaction(ledger):
        entered = round_of(ledger, number)
        if entered.state != "open":
            raise LedgerRefusal(spent_already(entered))
        return int(
            ledger.execute(
                "INSERT INTO training (round, state, debited_at) VALUES (?, 'debited', ?) RETURNING number",
                (number, _now()),
            ).fetchone()[0]
        )


def give_back(ledger: Database, training: int) -> None:
    """Undo a debit whose training ended before noise was drawn, so that nothing was released."""
    with transaction(ledger):
        ledger.execute(
            "UPDATE training SET state = 'returned', ended_at = ? WHERE number = ? AND state = 'debited'",
            (_now(), training),
        )


def release(ledger: Database, training: int, model: str, spent: FloatArray, loss_weights: FloatArray) -> None:
    """Keep a released model, and what it spent on each seller of the round with which weight, in one step."""
    content = table_to_bytes(pl.DataFrame({"spent": spent, WEIGHT: loss_weights}))
    with transaction(ledger):
        number = ledger.execute("SELECT round FROM training WHERE number = ?", (training,)).fetchone()[0]
        ledger.execute(
            "UPDATE training SET state = 'released', ended_at = ?, model = ? WHERE number = ?",
            (_now(), model, training),
        )
        _keep(ledger, number, "spent", content)


def released_model(ledger: Database, number: int) -> str | None:
    """Return the model that was released for a round, as JSON text, or None."""
    row = ledger.execute(
        "SELECT model FROM training WHERE round = ? AND state = 'released'", (number,)
    ).fetchone()
    return None if row is None else str(row[0])


def spent_already(entered: Round) -> str:
    """Say why a round whose promises are spent cannot be trained on."""
    return (
        f"the promises of these quotes were spent at {entered.debited_at} by a training that is under way or "
        "ended without a model. To train, make new promises: dpmarket quote --again."
    )


def _keep(ledger: Database, number: int, kind: str, content: bytes) -> None:
    pages = (content[first : first + _PAGE] for first in range(0, len(content), _PAGE))
    rows = ((number, kind, position, page) for position, page in enumerate(pages))
    ledger.executemany("INSERT INTO page VALUES (?, ?, ?, ?)", rows)


def _kept(ledger: Database, number: int, kind: str) -> pl.DataFrame:
    rows = ledger.execute(
        "SELECT content FROM page WHERE round = ? AND kind = ? ORDER BY number", (number, kind)
    )
    return table_from_bytes(b"".join(row[0] for row in rows))


def _as_known(quotes: pl.DataFrame) -> pl.DataFrame:
    """Return the columns by which quotes are known, under the ledger's own names."""
    columns = {SELLER: quotes.to_series(0), EPSILON: quotes.get_column(EPSILON)}
    return pl.DataFrame({**columns, PAYMENT: quotes.get_column(PAYMENT)})


def _totals(quotes: pl.DataFrame) -> tuple[float, int]:
    return float(quotes.get_column(EPSILON).sum()), int(quotes.get_column(PAYMENT).sum())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
