"""Turn a path or an address into an open ledger; :func:`reading` and :func:`writing` lead to its rows."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import tables

Connection = sa.Connection
"""A connection inside a transaction: what every function that looks into a ledger takes."""

APPLICATION = 0x64706D31
_WAIT_SECONDS = 30.0
_UPGRADE_LOCK = 0x64706D31  # of PostgreSQL's advisory locks


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


def new_id() -> str:
    """Return 128 random bits as text."""
    return secrets.token_hex(16)


def now() -> str:
    """Return the time, in UTC, as ledgers write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_address(place: str | os.PathLike[str]) -> bool:
    """Whether a ledger's place is the address of a database server, not a file."""
    return "://" in os.fspath(place)


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
        It cannot be opened, is no ledger, one of a later version, or damaged.

    Notes
    -----
    Guaranteed:

    * A file of version 2 is upgraded; a copy of it is kept beside it, with ``.version-2`` after its name.
    * Only its owner can read the file from now on.
    * What :func:`writing` wrote survives the process and the machine once its block has been left.
    """
    shown, path, read_only, engine = _engine(place)
    try:
        with _told(shown):
            if path is None:
                _prepare_server(engine, shown)
            else:
                _prepare_file(engine, path, read_only)
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
    with open_ledger(place) as ledger:
        yield ledger


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
        if ledger.path is not None:
            lock = _lock_of(ledger.path)
            if not lock.acquire(timeout=_WAIT_SECONDS):
                raise FileProblem(f"cannot use {ledger.place}: another thread has been writing for long.")
            stack.callback(lock.release)
        stack.enter_context(_told(ledger.place))
        connection = stack.enter_context(ledger.engine.connect().execution_options(dpmarket_writing=True))
        stack.enter_context(connection.begin())
        connection.execute(sa.select(tables.ledger.c.id).with_for_update()).one()
        yield connection


def damage(connection: Connection) -> list[str]:
    """Return what SQLite's own check finds wrong with the file; an empty list if nothing, or on a server."""
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
    if not path.parent.is_dir():
        raise FileProblem(f"cannot open {path}: the folder {path.parent} does not exist.")
    if path.is_dir():
        raise FileProblem(f"cannot open {path}: it is a folder; name a file.")
    if path.exists() and not path.is_file():  # its mode is tightened below, which a device must be spared
        raise FileProblem(f"cannot open {path}: it is a pipe or a device; name a file.")
    read_only = path.exists() and not os.access(path, os.W_OK)
    if not read_only:
        _make_private(path)
    mode = "rw"
    if read_only:
        # Where not even the folder can be written, SQLite must not look for a writer's files.
        mode = "ro" if os.access(path.parent, os.W_OK) else "ro&immutable=1"
    target = f"file:{quote(str(path.absolute()))}?mode={mode}"
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(target, timeout=_WAIT_SECONDS, isolation_level=None, uri=True),
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

    return str(path), path, read_only, engine


def _server(address: str) -> tuple[str, Path | None, bool, sa.Engine]:
    try:
        url = sa.make_url(address)
    except ArgumentError:
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


def _make_private(path: Path) -> None:
    """Make the file, if it is new, and let only its owner read it, and what SQLite keeps beside it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            with contextlib.suppress(FileNotFoundError):
                if name.stat().st_mode & 0o077:
                    name.chmod(0o600)
    except OSError as problem:
        raise FileProblem(f"cannot open {path}: {problem.strerror or problem}.") from None


def _prepare_file(engine: sa.Engine, path: Path, read_only: bool) -> None:
    """Make the tables of a new file, upgrade an older one, refuse what is no ledger."""
    with engine.connect() as connection:
        version = _version_of_file(connection, path)
    if version == tables.HEAD:
        return
    if read_only:
        raise FileProblem(f"cannot show {path}: it must be upgraded first, and it is read-only.")
    if version == "version_2":
        _keep_copy(path)
    with engine.connect() as raw:
        # Kept in the file itself; no change of it is possible inside a transaction.
        _directly(raw, "PRAGMA journal_mode = WAL")
    with engine.connect().execution_options(dpmarket_writing=True) as connection:
        _directly(connection, "PRAGMA foreign_keys = OFF")  # tables are replaced by new ones of their name
        with connection.begin():
            _bring_up(connection, path)


def _bring_up(connection: Connection, path: Path) -> None:
    version = _version_of_file(connection, path)  # once more: another process may have been quicker
    if version is None:
        make_tables(connection)
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION:d}")
    elif version != tables.HEAD:
        _upgrade(connection)
    connection.exec_driver_sql("PRAGMA user_version = 3")


def _directly(connection: Connection, statement: str) -> None:
    """Run a statement that SQLite takes outside of transactions only."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.execute(statement)


def _version_of_file(connection: Connection, path: Path) -> str | None:
    """Return the revision of a file's tables, None for an empty file."""
    if connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar() == 0:
        return None
    if connection.exec_driver_sql("PRAGMA application_id").scalar() != APPLICATION:
        raise FileProblem(f"cannot use {path}: it is a database of something else.")
    found = connection.exec_driver_sql("PRAGMA user_version").scalar()
    if found == 2:
        return "version_2"
    version = _revision(connection) if found == 3 else None
    if version != tables.HEAD:
        raise FileProblem(
            f"cannot use {path}: expected version 3 of its tables, found {found}; was it written by "
            "another version of dpmarket?"
        )
    return version


def _prepare_server(engine: sa.Engine, shown: str) -> None:
    with engine.connect() as connection:
        if sa.inspect(connection).has_table("alembic_version"):
            version = _revision(connection)
            if version == tables.HEAD:
                return
            raise FileProblem(
                f"cannot use {shown}: expected revision {tables.HEAD} of its tables, found {version}; was it "
                "made by another version of dpmarket?"
            )
    with engine.connect() as connection, connection.begin():
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
        if not sa.inspect(connection).has_table("alembic_version"):
            if sa.inspect(connection).has_table("ledger"):
                raise FileProblem(f"cannot use {shown}: it has tables of something else.")
            make_tables(connection)


def make_tables(connection: Connection) -> None:
    """Make all tables and the ledger's identity, at the newest revision."""
    tables.metadata.create_all(connection)
    connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(sa.text("INSERT INTO alembic_version VALUES (:head)"), {"head": tables.HEAD})
    give_identity(connection)


def give_identity(connection: Connection) -> None:
    """Enter the ledger's own row: its id and its key, both random."""
    connection.execute(
        tables.ledger.insert().values(id=new_id(), key=secrets.token_bytes(32), made_at=now(), revision=0)
    )


def _revision(connection: Connection) -> str | None:
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _upgrade(connection: Connection) -> None:
    """Run the migrations on a connection, inside its transaction."""
    # Loaded for this only: most ledgers are new enough.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.stamp(config, "version_2")
    command.upgrade(config, "head")


def _keep_copy(path: Path) -> None:
    """Keep a copy of a file that is about to be upgraded, whole and on the disk."""
    copy = path.with_name(path.name + ".version-2")
    if copy.exists():
        return
    temporary = copy.with_name(f".{copy.name}.{secrets.token_hex(6)}.tmp")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with (
            contextlib.closing(sqlite3.connect(path, timeout=_WAIT_SECONDS)) as old,
            contextlib.closing(sqlite3.connect(temporary)) as new,
        ):
            old.backup(new)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, copy)
    except OSError as problem:
        raise FileProblem(f"cannot write {copy}: {problem.strerror or problem}.") from None
    finally:
        temporary.unlink(missing_ok=True)


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
        raise FileProblem(f"cannot use {place} as a ledger: {_words(problem)}.") from None
    except SQLAlchemyError as problem:
        raise FileProblem(f"cannot use {place} as a ledger: {type(problem).__name__}.") from None
    except sqlite3.Error as problem:
        raise FileProblem(f"cannot use {place} as a ledger: {problem}.") from None


def _constraint(problem: IntegrityError) -> str:
    """Name the rule that was broken; a server's own words hold the row."""
    diagnosis = getattr(problem.orig, "diag", None)
    if diagnosis is not None:
        return f"the rule {diagnosis.constraint_name}"
    return str(problem.orig)


def _words(problem: DBAPIError) -> str:
    if isinstance(problem.orig, sqlite3.Error):
        return str(problem.orig)
    state = getattr(problem.orig, "sqlstate", None)
    return f"the server says no (code {state})" if state else "the server cannot be reached"
