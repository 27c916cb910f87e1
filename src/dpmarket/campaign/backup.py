"""Backups: a copy of the database while it is in use, and putting one back where there is none.

A copy of a SQLite file is a SQLite file, made by SQLite's online backup; of a PostgreSQL database it is what
``pg_dump`` writes. Private keys and the log are in neither. After a copy is put back, commit points that it
lacks are entered from the log, and all tokens are deleted: revoked ones could have come back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess  # nosec B404
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from dpmarket.campaign.access import revoke_all_tokens
from dpmarket.campaign.checks import refuse_unbalanced
from dpmarket.campaign.database import is_address, open_market
from dpmarket.campaign.repair import repair
from dpmarket.errors import FileProblem
from dpmarket.files.atomic import PRIVATE, atomic_path

_PLAIN = ("--no-owner", "--no-privileges", "--no-password")


def back_up(
    url: str | os.PathLike[str], target: str | os.PathLike[str], programs: Path | None = None
) -> None:
    """Copy a market's database, as it is at one moment, to a new file for its owner only.

    Parameters
    ----------
    url
        The database.
    target
        The new file.
    programs
        The folder of ``pg_dump``; None: it is searched for as any program.

    Raises
    ------
    FileProblem
        The database cannot be read, or the file exists or cannot be written.
    """
    with atomic_path(target, overwrite=False, mode=PRIVATE) as temporary:
        if is_address(url):
            _run("pg_dump", programs, os.fspath(url), "--format=custom", *_PLAIN, f"--file={temporary}")
            return
        address = f"file:{Path(url).absolute()}?mode=rw"
        with (
            _sqlite(address, f"cannot copy {url}") as source,
            contextlib.closing(sqlite3.connect(temporary)) as copy,
        ):
            source.backup(copy)
        _refuse_damaged(temporary, f"cannot copy {url}")


def put_back(
    source: str | os.PathLike[str], url: str | os.PathLike[str], programs: Path | None = None
) -> None:
    """Put a copy where there is no database; :func:`restore` also enters what it lacks."""
    if is_address(url):
        whole = ("--single-transaction", "--exit-on-error")
        _run("pg_restore", programs, os.fspath(url), *whole, *_PLAIN, str(source))
        return
    path = Path(url)
    if path.exists() or path.with_name(path.name + "-wal").exists():
        raise FileProblem(f"cannot put back {source}: {path} exists; stop the service and move it away.")
    with atomic_path(path, overwrite=False, mode=PRIVATE) as temporary:
        shutil.copyfile(source, temporary)
        _refuse_damaged(temporary, f"cannot put back {source}")


def _refuse_damaged(path: Path, refusal: str) -> None:
    """Refuse what is no whole SQLite file, before it stands in the place of a database."""
    with _sqlite(f"file:{path}?mode=ro&immutable=1", refusal) as connection:
        damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if damage != "ok":
        raise FileProblem(f"{refusal}: it is damaged.")


@contextlib.contextmanager
def _sqlite(address: str, refusal: str) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            yield connection
    except sqlite3.Error as problem:
        raise FileProblem(f"{refusal}: {problem}.") from None


def restore(
    source: str | os.PathLike[str],
    url: str | os.PathLike[str],
    state: str | os.PathLike[str],
    keys: str | os.PathLike[str] | None = None,
    programs: Path | None = None,
) -> list[str]:
    """Put a copy back, repair it, delete all tokens, check it; return what the repair entered."""
    put_back(source, url, programs)
    entered = repair(url, state, keys)
    with open_market(url, state, keys) as market:
        market.transact(revoke_all_tokens)
        refuse_unbalanced(market)
    return entered


def _run(program: str, programs: Path | None, address: str, *arguments: str) -> None:
    """Call a program of PostgreSQL on a database; the password goes by the environment."""
    found = shutil.which(program, path=None if programs is None else str(programs))
    if found is None:
        raise FileProblem(f"cannot find {program}: install PostgreSQL's client programs.")
    url = sa.make_url(address).set(drivername="postgresql")
    environment = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    shown = url.set(password=None).render_as_string(hide_password=False)
    # A program that the operator named; arguments are a list, and no shell reads them.
    done = subprocess.run(  # nosec B603
        [found, *arguments, f"--dbname={shown}"], env=environment, capture_output=True, check=False
    )
    if done.returncode != 0:  # its words may hold rows
        raise FileProblem(f"{program} failed with code {done.returncode}.")
