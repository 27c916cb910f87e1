"""Make the tables of a new ledger; refuse those of another revision, and what is no ledger."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from dpmarket.errors import FileProblem
from dpmarket.files.atomic import flush_to_disk
from dpmarket.ledger import tables

APPLICATION = 0x64706D31
WAIT_SECONDS = 30.0
_FAILS = "EPERM ENOTSUP EOPNOTSUPP ENOSYS EACCES EXDEV EINVAL EMLINK"  # of links, on one or the other system
_WITHOUT_LINKS = {getattr(errno, name) for name in _FAILS.split()}
_TEMPORARY = (".dpmarket-", ".tmp")
_MAKING_LOCK = 0x64706D31  # of PostgreSQL's advisory locks


def now() -> str:
    """Return the time, in UTC, as ledgers write it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_id() -> str:
    """Return 128 random bits as text."""
    return secrets.token_hex(16)


def prepare_file(engine: sa.Engine, path: Path, *, read_only: bool) -> None:
    """Make the tables of a new file; refuse one of another revision, or of something else."""
    with engine.connect() as connection:
        if _is_made(connection, path):
            return
    if read_only:
        raise FileProblem(f"cannot show {path}: it has no tables, and it is read-only.")
    with engine.connect() as raw:
        # Kept in the file itself; no change of it is possible inside a transaction.
        driver = raw.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.execute("PRAGMA journal_mode = WAL")
    with engine.connect().execution_options(dpmarket_writing=True) as connection, connection.begin():
        if not _is_made(connection, path):  # once more: another process may have been quicker
            make_tables(connection)
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION:d}")


def _is_made(connection: sa.Connection, path: Path) -> bool:
    """Whether a file has a ledger's tables; refuse other tables."""
    if connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar() == 0:
        return False
    if connection.exec_driver_sql("PRAGMA application_id").scalar() != APPLICATION:
        raise FileProblem(f"cannot use {path}: it is a database of something else.")
    refuse_other(str(path), tables.HEAD, revision_of(connection))
    return True


def refuse_other(shown: str, expected: str, found: str | None) -> None:
    """Refuse tables of another revision than this version of the package makes.

    Raises
    ------
    FileProblem
        The revision is another one. Nothing was changed.
    """
    if found != expected:
        raise FileProblem(
            f"cannot use {shown}: expected revision {expected} of its tables, found {found or 'none'}; "
            "another version of dpmarket wrote it: install that one. Nothing was changed."
        )


def revision_of(connection: sa.Connection) -> str | None:
    """Return the revision of a ledger's tables, whatever it is; None where none is written."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def prepare_server(engine: sa.Engine, shown: str) -> None:
    """Make the tables of a new ledger on a server; refuse one of another revision, or of something else."""
    with engine.connect() as connection:
        if sa.inspect(connection).has_table("alembic_version"):
            refuse_other(shown, tables.HEAD, revision_of(connection))
            return
    with engine.connect() as connection, connection.begin():
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING_LOCK)))
        if not sa.inspect(connection).has_table("alembic_version"):
            if tables.metadata.tables.keys() & set(sa.inspect(connection).get_table_names()):
                raise FileProblem(f"cannot use {shown}: it has tables of something else.")
            make_tables(connection)


def make_tables(connection: sa.Connection) -> None:
    """Make all tables, at their one revision, and the ledger's identity: its id and its key, both random."""
    tables.metadata.create_all(connection, checkfirst=False)  # no table of something else is taken for one
    connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(sa.text("INSERT INTO alembic_version VALUES (:head)"), {"head": tables.HEAD})
    connection.execute(
        tables.ledger.insert().values(id=new_id(), key=secrets.token_bytes(32), made_at=now(), revision=0)
    )


class NoLinks(FileProblem):
    """A file system on which a file cannot have two names, and so cannot appear whole and at once."""


@contextlib.contextmanager
def whole_file(path: Path, *, only_by_link: bool = False) -> Iterator[Path]:
    """Give the name of a private file that becomes ``path`` when the block ends well, and else is gone.

    Parameters
    ----------
    path
        What must not exist.
    only_by_link
        Whether others may open the file as soon as there is one of its name. Where a file cannot have two
        names, an empty one would be there for a moment before all of it is: that is refused then.

    Raises
    ------
    FileProblem
        It cannot be written, or exists by then.
    NoLinks
        Only by a link, and the file system has none.
    """
    # No longer than need be: SQLite adds endings of its own.
    temporary = path.with_name(secrets.token_hex(6).join(_TEMPORARY))
    beside = [temporary, *(temporary.with_name(temporary.name + end) for end in ("-wal", "-shm", "-journal"))]
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield temporary
        flush_to_disk(temporary)
        _put_in_place(temporary, path, only_by_link=only_by_link)
        flush_to_disk(path.parent)
    except FileExistsError:
        raise FileProblem(f"cannot write {path}: it exists; name another file.") from None
    except FileProblem:  # about what was to be copied
        raise
    except OSError as problem:
        raise FileProblem(f"cannot write {path}: {problem.strerror or problem}.") from None
    finally:
        for name in beside:
            with contextlib.suppress(OSError):  # not there, or a name too long to be there
                name.unlink()


def _put_in_place(temporary: Path, path: Path, *, only_by_link: bool) -> None:
    """Give a file its name; unlike a plain rename, that fails where somebody else was quicker."""
    try:
        os.link(temporary, path)
    except OSError as problem:
        if problem.errno not in _WITHOUT_LINKS:
            raise
        if only_by_link:
            raise NoLinks(f"cannot write {path}: its file system knows no hard links.") from None
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        temporary.replace(path)
    else:
        temporary.unlink(missing_ok=True)


def drop_second_name(path: Path) -> None:
    """Take the temporary name off a file whose maker was killed before doing so.

    Everything entered later would be under that name, too, also when the file is moved away.
    """
    own = path.stat()
    if own.st_nlink < 2:
        return
    for name in path.resolve().parent.glob("*".join(_TEMPORARY)):
        with contextlib.suppress(OSError):
            if os.path.samestat(name.lstat(), own):
                name.unlink()


def refuse_unfinished(path: Path) -> None:
    """Refuse a new ledger that did not fit on the disk: SQLite closes it without a word.

    What was written is in a log beside the file until it is moved into it.
    """
    with contextlib.closing(sqlite3.connect(path, timeout=WAIT_SECONDS)) as file:
        busy, written, moved = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        fits = not busy and written == moved and file.execute("PRAGMA quick_check").fetchone() == ("ok",)
    if not fits:
        raise sqlite3.OperationalError("the new file is not whole: is the disk full?")
