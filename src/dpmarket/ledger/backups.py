"""Copy a ledger's database to one file while it is in use, and put such a copy where there is none.

A copy of a SQLite file is a SQLite file, made by SQLite's online backup. A copy of a PostgreSQL database is
what ``pg_dump`` of the server's own version writes. Neither holds a private key: those are files elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from dpmarket.errors import FileProblem
from dpmarket.ledger import tables
from dpmarket.ledger.engine import is_address
from dpmarket.ledger.postgres import dump, is_empty_database, load
from dpmarket.ledger.preparing import APPLICATION, WAIT_SECONDS, refuse_other, whole_file

_SQLITE, _POSTGRES = b"SQLite format 3\0", b"PGDMP"


@dataclass(frozen=True)
class Backup:
    """A copy that was made.

    Attributes
    ----------
    path
        Its file, for its owner only.
    database
        ``sqlite`` or ``postgresql``.
    size
        Bytes.
    """

    path: Path
    database: str
    size: int


def back_up(
    place: str | os.PathLike[str], target: str | os.PathLike[str], programs: Path | None = None
) -> Backup:
    """Copy a ledger's database, as it is at one moment, to a new file.

    Others go on reading and writing meanwhile. The file appears whole, on the disk and for its owner only,
    or not at all.

    Parameters
    ----------
    place
        A ledger's file, or the address of a PostgreSQL database.
    target
        The new file.
    programs
        The folder of ``pg_dump``; None: it is looked for as any program.

    Raises
    ------
    FileProblem
        There is no ledger, there is such a file already, it cannot be written, what was copied is damaged,
        or ``pg_dump`` is missing or of another version than the server.
    """
    path = Path(target)
    if path.exists():
        raise FileProblem(f"cannot write {path}: it exists; name another file.")
    with whole_file(path) as temporary:
        if is_address(place):
            dump(os.fspath(place), temporary, programs)
        else:
            _copy_file(Path(place), temporary)
    return Backup(path, "postgresql" if is_address(place) else "sqlite", path.stat().st_size)


def put_back(
    source: str | os.PathLike[str], place: str | os.PathLike[str], programs: Path | None = None
) -> None:
    """Put a copy that :func:`back_up` made where there is no ledger.

    It does not know what was spent since: open it by :func:`~dpmarket.ledger.repair`, which enters that.

    Parameters
    ----------
    source
        The copy.
    place
        A file that is not there, or the address of a PostgreSQL database without tables.
    programs
        The folder of ``pg_restore``; None: it is looked for as any program.

    Raises
    ------
    FileProblem
        There is something at the place; the copy is none, damaged, or of the other kind of database.
    """
    path, kind = Path(source), _kind_of(Path(source))
    wanted = "postgresql" if is_address(place) else "sqlite"
    if kind != wanted:
        raise FileProblem(
            f"cannot put back {path}: it is a copy of a {_NAMES[kind]}, and the place is a {_NAMES[wanted]}."
        )
    if is_address(place):
        if not is_empty_database(os.fspath(place)):
            raise FileProblem(
                "cannot put the copy back: the database has tables; make a new one (createdb) and name it in "
                "database_url."
            )
        load(path, os.fspath(place), programs)
        return
    file = Path(place)
    for name in (file, file.with_name(file.name + "-wal")):
        if name.exists():
            raise FileProblem(
                f"cannot put the copy back: {name} exists; stop the service and move it away first."
            )
    _check_file(path, path)
    with whole_file(file) as temporary:
        shutil.copyfile(path, temporary)


_NAMES = {"sqlite": "file", "postgresql": "PostgreSQL database"}


def _kind_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE))
    except OSError as problem:
        raise FileProblem(f"cannot read {path}: {problem.strerror or problem}.") from None
    if start == _SQLITE:
        return "sqlite"
    if start.startswith(_POSTGRES):
        return "postgresql"
    raise FileProblem(f"cannot put back {path}: it is no copy of a ledger.")


def _copy_file(path: Path, temporary: Path) -> None:
    if not path.is_file():
        raise FileProblem(f"cannot find the ledger {path}.")
    try:
        with (
            contextlib.closing(_read_only(path)) as source,
            contextlib.closing(sqlite3.connect(temporary)) as copy,
        ):
            source.backup(copy)
    except sqlite3.Error as problem:
        raise FileProblem(f"cannot copy {path}: {problem}.") from None
    _check_file(temporary, path)


def _check_file(path: Path, source: Path) -> None:
    """Refuse a copy that is damaged, of something else, or of another revision; name its source."""
    try:
        with contextlib.closing(_read_only(path)) as copy:
            found = [row[0] for row in copy.execute("PRAGMA integrity_check(1)")]
            application = copy.execute("PRAGMA application_id").fetchone()[0]
            named = copy.execute("SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'")
            revision = None
            if named.fetchone()[0]:
                revision = copy.execute("SELECT max(version_num) FROM alembic_version").fetchone()[0]
    except sqlite3.Error as problem:
        raise FileProblem(f"cannot use {source}: {problem}.") from None
    if found != ["ok"]:
        raise FileProblem(f"cannot use {source}: it is damaged.")
    if application != APPLICATION:
        raise FileProblem(f"cannot use {source}: it is a database of something else.")
    refuse_other(str(source), tables.HEAD, revision)


def _read_only(path: Path) -> sqlite3.Connection:
    mode = "rw" if os.access(path, os.W_OK) else "ro"  # who may only read leaves SQLite's own files behind
    target = f"file:{quote(str(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(target, timeout=WAIT_SECONDS, isolation_level=None, uri=True)
    connection.execute("PRAGMA query_only = ON")
    return connection
