"""Open a SQLite database so that a transaction has happened, on the disk, or has not."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from dpmarket.errors import FileProblem

Database = sqlite3.Connection
"""An open database; statements run inside :func:`transaction`."""

_WAIT_SECONDS = 30.0


@contextlib.contextmanager
def open_database(
    path: str | os.PathLike[str], application: int, version: int, schema: str
) -> Iterator[Database]:
    """Open the database of an application, made from its schema if it is new, and close it in the end.

    Parameters
    ----------
    application : a number that marks the file as this application's.
    version : the schema's version; a file with another one is refused.
    schema : the statements that make the tables, run in one transaction.

    Raises
    ------
    FileProblem : the file cannot be opened, is not this application's, is damaged, or has another version.

    Guarantees
    ----------
    * What a transaction wrote survives the process and the machine once the block of :func:`transaction` has
      been left; what it did not finish writing is gone when the file is opened next.
    """
    if not Path(path).parent.is_dir():
        raise FileProblem(f"cannot open {path}: the folder {Path(path).parent} does not exist.")
    _make_private(path)
    with _as_file_problem(path):
        database = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
    try:
        with _as_file_problem(path):
            database.execute("PRAGMA foreign_keys = ON")
            database.execute("PRAGMA synchronous = EXTRA")
            with transaction(database):
                _prepare(database, path, application, version, schema)
            yield database
    finally:
        database.close()


@contextlib.contextmanager
def transaction(database: Database) -> Iterator[None]:
    """Run a block as one step that others see whole or not at all; nobody else writes meanwhile.

    If the block raises, nothing of it has happened. Transactions do not nest.

    Raises
    ------
    FileProblem : another process has been writing for half a minute, or the file cannot be written.
    """
    with _as_file_problem("the database"):
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")


def damage(database: Database) -> list[str]:
    """Return what SQLite's own check finds wrong with the file; an empty list if nothing."""
    with _as_file_problem("the database"):
        found = [str(row[0]) for row in database.execute("PRAGMA integrity_check(5)")]
        found += [
            f"a row of {row[0]} refers to nothing" for row in database.execute("PRAGMA foreign_key_check")
        ]
    return [line for line in found if line != "ok"]


def _make_private(path: str | os.PathLike[str]) -> None:
    """Make the file, if it is new, so that only its owner reads it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as problem:
        raise FileProblem(f"cannot open {path}: {problem.strerror or problem}.") from None


def _prepare(
    database: Database, path: str | os.PathLike[str], application: int, version: int, schema: str
) -> None:
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables == 0:
        for statement in schema.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {application:d}")
        database.execute(f"PRAGMA user_version = {version:d}")
        return
    if database.execute("PRAGMA application_id").fetchone()[0] != application:
        raise FileProblem(f"cannot use {path}: it is a database of something else.")
    found = database.execute("PRAGMA user_version").fetchone()[0]
    if found != version:
        raise FileProblem(
            f"cannot use {path}: expected version {version} of its schema, found {found}; was it written by "
            "another version of dpmarket?"
        )


@contextlib.contextmanager
def _as_file_problem(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as problem:
        raise FileProblem(f"cannot use {path} as a database: {problem}.") from None
