"""Turn a path or an address into an open ledger; :func:`reading` and :func:`writing` lead to its rows."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import tables
from dpmarket.ledger.preparing import (
    WAIT_SECONDS,
    NoLinks,
    drop_second_name,
    prepare_file,
    prepare_server,
    refuse_unfinished,
    whole_file,
)
from dpmarket.ledger.preparing import new_id as new_id
from dpmarket.ledger.preparing import now as now
from dpmarket.ledger.waits import waiting

Connection = sa.Connection
"""A connection inside a transaction: what every function that looks into a ledger takes."""

_MAGIC = b"SQLite format 3\0"
_LITTLE = 1 << 16  # bytes; SQLite enlarges its files by half as much


@dataclass(frozen=True, eq=False)
class Ledger:
    """An open ledger: its database, its identity and the key of its digests.

    Attributes
    ----------
    id
        128 random bits as text, made with the ledger.
    key
        32 random bytes, made with the ledger. Confidential: with it, guessed costs could be confirmed.
    place
        How messages call it; never with a password.
    path
        The file; None for a database server.
    read_only
        Whether nothing can be written.
    """

    id: str
    key: bytes
    place: str
    path: Path | None
    read_only: bool
    engine: sa.Engine

    def __repr__(self) -> str:
        return f"Ledger({self.place!r})"


def is_address(place: str | os.PathLike[str]) -> bool:
    """Whether a ledger's place is the address of a database server, not a file."""
    return "://" in os.fspath(place)


def is_empty_file(path: Path) -> bool:
    """Whether a file that should be a ledger is not there, or has no tables; what is no database has some."""
    if not path.is_file():
        return True
    try:
        target = f"file:{quote(str(path.absolute()))}?mode=ro"
        with contextlib.closing(sqlite3.connect(target, uri=True)) as file:
            return not file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.Error:
        return False


def command_for(what: str, place: str | os.PathLike[str]) -> str:
    """Return a command about a ledger as a message tells it, whole: ``'dpmarket ledger repair x.ledger'``.

    Parameters
    ----------
    what
        ``repair`` or ``check``.
    place
        The ledger's file or address, which is told without its password.
    """
    return f"'dpmarket ledger {what} {shlex.quote(without_password(os.fspath(place)))}'"


@contextlib.contextmanager
def open_ledger(place: str | os.PathLike[str]) -> Iterator[Ledger]:
    """Open a ledger, made if there is none, for a ``with`` block.

    Parameters
    ----------
    place
        A file, or the address of a PostgreSQL database (``postgresql://user@host/name``).

    Raises
    ------
    FileProblem
        It cannot be opened, is no ledger, one of another revision, or damaged.

    Notes
    -----
    Guaranteed:

    * Only its owner can read the file from now on.
    * What :func:`writing` wrote survives the process and the machine once its block has been left.
    """
    shown, path, read_only, engine = _engine(place)
    try:
        with _told(shown):
            if path is None:
                prepare_server(engine, shown)
            else:
                prepare_file(engine, path, read_only=read_only)
            with engine.connect() as connection:
                row = connection.execute(sa.select(tables.ledger.c.id, tables.ledger.c.key)).one()
        yield Ledger(row.id, bytes(row.key), shown, path, read_only, engine)
    finally:
        engine.dispose()


@contextlib.contextmanager
def existing_ledger(place: str | os.PathLike[str]) -> Iterator[Ledger]:
    """Open a ledger that must be there already, for a ``with`` block.

    Raises
    ------
    FileProblem
        There is none, or as for :func:`open_ledger`.
    """
    if not is_address(place) and not Path(place).is_file():
        raise FileProblem(
            f"cannot find the ledger {place}: 'dpmarket quote' makes it beside the market file, and without "
            "it no promise can be used."
        )
    if not is_address(place) and not _start_of(Path(place)):
        raise FileProblem(f"cannot use {place}: it is empty, and no ledger.")
    with open_ledger(place) as ledger:
        yield ledger


@contextlib.contextmanager
def looking_at(place: str | os.PathLike[str]) -> Iterator[Connection]:
    """Give a connection to whatever database is at a place, for a ``with`` block; nothing at all is changed.

    Raises
    ------
    FileProblem
        There is none, or it cannot be read.
    """
    if is_address(place):
        shown, _, _, engine = _server(os.fspath(place))
        engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    else:
        shown, path = os.fspath(place), Path(place)
        if not path.is_file() or not _start_of(path):
            raise FileProblem(f"cannot find the ledger {place}.")
        # Who may only read leaves SQLite's own files behind, whoever was last.
        engine = _file_engine(path, "rw" if os.access(path, os.W_OK) else "ro")
    try:
        with _told(shown), engine.connect() as connection, connection.begin():
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = ON")
            yield connection
    finally:
        engine.dispose()


def ledger_seen(connection: Connection, place: str | os.PathLike[str]) -> Ledger:
    """Return the ledger that a connection of :func:`looking_at` sees, which cannot be written."""
    row = connection.execute(sa.select(tables.ledger.c.id, tables.ledger.c.key)).one()
    path = None if is_address(place) else Path(place)
    shown = without_password(os.fspath(place))
    return Ledger(row.id, bytes(row.key), shown, path, read_only=True, engine=connection.engine)


@contextlib.contextmanager
def reading(ledger: Ledger) -> Iterator[Connection]:
    """Give a connection that sees one state of the ledger and writes nothing.

    Raises
    ------
    FileProblem
        The ledger cannot be read.
    """
    with _told(ledger.place):
        connection = ledger.engine.connect()
        if ledger.path is None:
            connection = connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        with connection, connection.begin():
            yield connection


@contextlib.contextmanager
def writing(ledger: Ledger) -> Iterator[Connection]:
    """Give a connection for one step that others see whole or not at all; if the block raises, not at all.

    On SQLite nobody else writes meanwhile. On PostgreSQL the ledger's own row is locked, so that steps which
    look before they write come one after the other. Steps do not nest.

    Raises
    ------
    FileProblem
        Another process has been writing for half a minute, or the ledger cannot be written.
    """
    if ledger.read_only:
        raise FileProblem(f"cannot write to {ledger.place}: it is read-only; it can only be shown.")
    with contextlib.ExitStack() as stack:
        turn = stack.enter_context(contextlib.ExitStack())
        turn.enter_context(waiting(ledger.engine))
        if ledger.path is not None:
            lock = _lock_of(ledger.path)
            if not lock.acquire(timeout=WAIT_SECONDS):
                raise FileProblem(f"cannot use {ledger.place}: another thread has been writing for long.")
            stack.callback(lock.release)
        stack.enter_context(_told(ledger.place))
        connection = stack.enter_context(ledger.engine.connect().execution_options(dpmarket_writing=True))
        stack.enter_context(connection.begin())
        connection.execute(sa.select(tables.ledger.c.id).with_for_update()).one()
        turn.close()
        yield connection


def damage(connection: Connection) -> list[str]:
    """Return what is wrong with a file by SQLite's own check; an empty list on a server."""
    if connection.dialect.name != "sqlite":
        return []
    found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(5)")]
    found += [
        f"a row of {row[0]} refers to nothing"
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]
    return [line for line in found if line != "ok"]


class _Lock:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acquire, self.release = self._lock.acquire, self._lock.release


# SQLite's own waiting is by polling, and unfair: threads of one process queue here first.
_locks: weakref.WeakValueDictionary[Path, _Lock] = weakref.WeakValueDictionary()
_locks_guard = threading.Lock()


def _lock_of(path: Path) -> _Lock:
    with _locks_guard:
        resolved = path.resolve()
        lock = _locks.get(resolved)
        if lock is None:
            lock = _locks[resolved] = _Lock()
        return lock


def _engine(place: str | os.PathLike[str]) -> tuple[str, Path | None, bool, sa.Engine]:
    """Return how messages call a place, its file, whether it is read-only, and its engine."""
    if is_address(place):
        return _server(os.fspath(place))
    path = Path(place)
    try:
        str(path.absolute()).encode()
        path.is_dir()
    except UnicodeEncodeError:
        raise FileProblem("cannot open the ledger: expected a file's name in UTF-8.") from None
    except OSError as problem:  # a name that no file can have
        raise FileProblem(f"cannot open {path}: {problem.strerror or problem}.") from None
    if not path.parent.is_dir():
        raise FileProblem(f"cannot open {path}: the folder {path.parent} does not exist.")
    if path.is_dir():
        raise FileProblem(f"cannot open {path}: it is a folder; name a file.")
    if path.exists() and not path.is_file():  # its mode is tightened below, which a device must be spared
        raise FileProblem(f"cannot open {path}: it is a pipe or a device; name a file.")
    if not os.path.lexists(path):
        _make_new(path)
    if path.exists():
        _start_of(path)
    read_only = path.exists() and not os.access(path, os.W_OK)
    if not read_only:
        _make_private(path)
    return str(path), path, read_only, _file_engine(path, "ro" if read_only else "rw")


def _file_engine(path: Path, mode: str) -> sa.Engine:
    if mode == "ro" and not os.access(path.parent, os.W_OK):
        mode = "ro&immutable=1"  # where the folder cannot be written, SQLite must look for no writer's files
    target = f"file:{quote(str(path.absolute()))}?mode={mode}"
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(target, timeout=WAIT_SECONDS, isolation_level=None, uri=True),
        poolclass=NullPool,
        hide_parameters=True,
    )

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        wanted = connection.get_execution_options().get("dpmarket_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if wanted else "BEGIN")

    return engine


def without_password(place: str) -> str:
    """Return a ledger's place as it may be shown: an address without its password."""
    if not is_address(place):
        return place
    try:
        return sa.make_url(place).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return "an address that cannot be understood"


def _server(address: str) -> tuple[str, Path | None, bool, sa.Engine]:
    try:
        url = sa.make_url(address)
    except (ArgumentError, ValueError):
        raise FileProblem("cannot understand the ledger's address: expected postgresql://...") from None
    if url.get_backend_name() != "postgresql":
        raise FileProblem(
            f"expected a ledger's file or an address postgresql://..., got one of {url.get_backend_name()}."
        )
    url = url.set(drivername="postgresql+psycopg")
    try:
        engine = sa.create_engine(
            url, hide_parameters=True, isolation_level="READ COMMITTED", connect_args={"connect_timeout": 30}
        )
    except ImportError:
        raise FileProblem(
            "a ledger on PostgreSQL needs the package psycopg: pip install 'dpmarket[service]'."
        ) from None
    return url.set(password=None, drivername="postgresql").render_as_string(), None, False, engine


def _start_of(path: Path) -> bytes:
    """Return a file's first bytes; refuse one that is neither empty nor a database, before it is touched."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except (OSError, ValueError) as problem:
        raise FileProblem(f"cannot open {path}: {getattr(problem, 'strerror', problem)}.") from None
    if start not in (b"", _MAGIC):
        raise FileProblem(f"cannot use {path}: it is not a database, and no ledger.")
    return start


def _make_new(path: Path) -> None:
    """Make a ledger under another name and put it in its place whole; another process may have been quicker.

    A process that is killed, or finds the disk full, leaves no file that looks like a ledger and is none.
    """
    try:
        with whole_file(path, only_by_link=True) as temporary, _told(str(path)):
            engine = _file_engine(temporary, "rw")
            try:
                prepare_file(engine, temporary, read_only=False)
            finally:
                engine.dispose()
            refuse_unfinished(temporary)
    except NoLinks:  # then it is made where it will be
        return
    except FileProblem:
        if not path.exists():
            raise


def _make_private(path: Path) -> None:
    """Make the file, if it is new, and let only its owner read it, and what SQLite keeps beside it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        drop_second_name(path)
        for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            with contextlib.suppress(FileNotFoundError):
                if name.stat().st_mode & 0o077:
                    name.chmod(0o600)
    except OSError as problem:
        raise FileProblem(f"cannot open {path}: {problem.strerror or problem}.") from None


@contextlib.contextmanager
def _told(place: str) -> Iterator[None]:
    """Turn what a database says into one sentence without any value of a row."""
    try:
        yield
    except IntegrityError as problem:
        raise LedgerRefusal(
            f"the ledger {place} forbids this: {_constraint(problem)}. Nothing was changed."
        ) from None
    except DBAPIError as problem:
        raise FileProblem(f"cannot use {place} as a ledger: {_words(problem, place)}.") from None
    except SQLAlchemyError as problem:
        raise FileProblem(f"cannot use {place} as a ledger: {type(problem).__name__}.") from None
    except sqlite3.Error as problem:
        raise FileProblem(f"cannot use {place} as a ledger: {_words_of_file(problem, place)}.") from None


def _constraint(problem: IntegrityError) -> str:
    """Name the rule that was broken; a server's own words hold the row."""
    diagnosis = getattr(problem.orig, "diag", None)
    if diagnosis is not None:
        return f"the rule {diagnosis.constraint_name}"
    return str(problem.orig)


def _words(problem: DBAPIError, place: str) -> str:
    if isinstance(problem.orig, sqlite3.Error):
        return _words_of_file(problem.orig, place)
    state = getattr(problem.orig, "sqlstate", None)
    return f"the server says no (code {state})" if state else "the server cannot be reached"


def _words_of_file(problem: sqlite3.Error, place: str) -> str:
    """Say what SQLite says; a full disk by its name, which SQLite calls an error of the disk at times."""
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if code == sqlite3.SQLITE_IOERR:
        with contextlib.suppress(OSError):  # a disk that is gone is not full
            if shutil.disk_usage(Path(place).parent).free < _LITTLE:
                return "the disk is full"
    return str(problem)
