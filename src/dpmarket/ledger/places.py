"""Tie a ledger to its place and to the log outside of it, and notice one that is lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import sqlalchemy as sa

from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import outside, releases, tables
from dpmarket.ledger.engine import (
    Connection,
    Ledger,
    command_for,
    existing_ledger,
    is_address,
    open_ledger,
    reading,
    writing,
)


def id_of(connection: Connection) -> str:
    """Return the ledger's id."""
    return str(connection.execute(sa.select(tables.ledger.c.id)).scalar_one())


def begin_log(connection: Connection, ledger: Ledger) -> None:
    """Log that a ledger is used from now on, where and with which key; keep that line in the ledger.

    A copy of the ledger is then refused where another log is, also before anything was spent; and what is
    remade after a loss has the same key, so that rounds and references of payments are the same.
    """
    about = {"place": _place_of(ledger), "key": ledger.key.hex()}
    releases.note_log_head(connection, outside.append(ledger.id, "", "begun", about=about))


def note_place(ledger: Ledger) -> None:
    """Begin the log of a ledger in which something is promised and that has none; log that one was moved.

    Raises
    ------
    LedgerRefusal
        It stands where another one was: see :func:`place_problems`.
    """
    with reading(ledger) as connection:
        is_used = connection.execute(sa.select(tables.round_.c.number).limit(1)).scalar() is not None
        has_log = releases.log_head_of(connection) is not None
    lines = outside.read_log()
    places = _places(lines)
    for problem in place_problems(ledger, lines):
        raise LedgerRefusal(problem)
    # A server is reached by different addresses, by everybody by their own: they are no other place.
    is_moved = ledger.path is not None and places.get(ledger.id) != _place_of(ledger)
    is_new = not has_log or ledger.id not in places
    if is_used and not ledger.read_only and (is_new or is_moved):
        with writing(ledger) as connection:
            begin_log(connection, ledger)


def place_problems(ledger: Ledger, lines: Sequence[outside.Line]) -> list[str]:
    """Return a sentence if a ledger stands where another one was with which promises were spent.

    A budget would be spent by each.
    """
    others = [] if ledger.path is None else _spent_at(lines, ledger.path)
    if not others or ledger.id in others:
        return []
    return [
        f"another ledger was at {ledger.place}, with which promises were spent: put it back. If it was "
        "moved, use it once where it is now; another market has another name."
    ]


def is_empty(place: str | os.PathLike[str]) -> bool:
    """Whether there is no ledger at a place: no file, or one without a single byte."""
    path = Path(place)
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def is_other_log(connection: Connection, lines: Sequence[outside.Line]) -> bool:
    """Whether a ledger was used with another log, with a newer copy of this one, or under another id."""
    head = releases.log_head_of(connection)
    own = id_of(connection)
    return head is not None and head not in {line.digest for line in lines if line.ledger == own}


def refuse_lost(place: str | os.PathLike[str]) -> None:
    """Refuse to begin a ledger where one was with which promises were spent.

    Raises
    ------
    LedgerRefusal
        With what to do.
    """
    if _lost(place) is not None:
        raise LedgerRefusal(
            f"there was a ledger at {place}, with which promises were spent, and it is gone: put it back. If "
            f"it was moved, use it once where it is now. {command_for('repair', place)} makes it again, with "
            "all that was logged entered as spent; another market has another name."
        )


def forget_place(place: str | os.PathLike[str]) -> None:
    """Log that ledgers which were used at a place are done with: nobody will be spent on by them again.

    For places whose ledgers are about people who do not exist, or records that are public.
    """
    here = str(Path(place).resolve())
    for ledger, last in _places(outside.read_log()).items():
        if last == here:
            outside.append(ledger, "", "begun", about={"place": ""})


@contextlib.contextmanager
def found_again(place: str | os.PathLike[str]) -> Iterator[Ledger]:
    """Open a ledger for its repair, for a ``with`` block; one that was lost is begun again under its id.

    Raises
    ------
    FileProblem
        There is none, and none was lost there.
    """
    lost = None if is_address(place) or not is_empty(place) else _lost(place)
    if lost is not None:
        with open_ledger(place) as ledger, writing(ledger) as connection:
            key = outside.known_key(lost)
            connection.execute(tables.ledger.update().values(id=lost, key=key))
    with existing_ledger(place) as ledger:
        yield ledger


def _lost(place: str | os.PathLike[str]) -> str | None:
    """Return the id of the newest ledger that was last used at a place and spent something, or None."""
    if is_address(place):
        return None
    own = _spent_at(outside.read_log(), place)
    return own[-1] if own else None


def _spent_at(lines: Sequence[outside.Line], place: str | os.PathLike[str]) -> list[str]:
    """Return the ids of the ledgers that were last used at a place and spent something, oldest first."""
    here = str(Path(place).resolve())
    spent = {line.attempt: line.ledger for line in lines if line.kind == "debit"}
    for line in lines:
        if line.kind == "returned":
            spent.pop(line.attempt, None)
    return [ledger for ledger, last in _places(lines).items() if last == here and ledger in spent.values()]


def _places(lines: Sequence[outside.Line]) -> dict[str, str]:
    """Return where each ledger was used last, in the order of their first use."""
    return {line.ledger: line.about["place"] for line in lines if "place" in line.about}


def _place_of(ledger: Ledger) -> str:
    return ledger.place if ledger.path is None else str(ledger.path.resolve())
