"""Call PostgreSQL's own programs, ``pg_dump`` and ``pg_restore``, of the server's version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess  # nosec B404
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from dpmarket.errors import FileProblem

_PLAIN = ("--no-owner", "--no-privileges", "--no-password")


def dump(address: str, target: Path, programs: Path | None) -> None:
    """Write a database, as it is at one moment, to a file in PostgreSQL's custom format.

    Raises
    ------
    FileProblem
        ``pg_dump`` is missing, of another version than the server, or fails.
    """
    program = _program("pg_dump", programs, _server_version(address))
    _run([program, "--format=custom", *_PLAIN, f"--file={target}"], address)


def load(source: Path, address: str, programs: Path | None) -> None:
    """Put what :func:`dump` wrote into an empty database, all of it or nothing.

    Raises
    ------
    FileProblem
        ``pg_restore`` is missing, of another version than the server, or fails.
    """
    program = _program("pg_restore", programs, _server_version(address))
    _run([program, "--single-transaction", "--exit-on-error", *_PLAIN, str(source)], address)


def is_empty_database(address: str) -> bool:
    """Whether a database has no tables.

    Raises
    ------
    FileProblem
        The server cannot be asked.
    """
    return not int(_ask(address, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"))


def _server_version(address: str) -> int:
    return int(_ask(address, "SHOW server_version_num")) // 10_000


def _ask(address: str, question: str) -> str:
    try:
        engine = sa.create_engine(
            sa.make_url(address).set(drivername="postgresql+psycopg"), connect_args={"connect_timeout": 30}
        )
        try:
            with engine.connect() as connection:
                return str(connection.exec_driver_sql(question).scalar_one())
        finally:
            engine.dispose()
    except ImportError:
        raise FileProblem("this needs the package psycopg: pip install 'dpmarket[service]'.") from None
    except (SQLAlchemyError, ValueError):
        raise FileProblem("cannot ask the database's server: it cannot be reached, or says no.") from None


def _program(name: str, programs: Path | None, version: int) -> str:
    """Return where a program is; refuse one of another version than the server."""
    found = shutil.which(name, path=None if programs is None else str(programs))
    if found is None:
        raise FileProblem(
            f"cannot find {name}: install PostgreSQL {version}'s client programs, or name their folder "
            "(postgres_programs)."
        )
    told = _called([found, "--version"], dict(os.environ)).stdout
    match = re.search(r"\b(\d+)", told)
    if match is None or int(match[1]) != version:
        raise FileProblem(
            f"cannot use {found}: expected version {version}, the server's, found "
            f"{match[1] if match else 'none'}; name the folder of the right one (postgres_programs)."
        )
    return found


def _run(command: Sequence[str], address: str) -> None:
    """Call a program on a database; the password goes by the environment, which others cannot list."""
    url = sa.make_url(address).set(drivername="postgresql")
    environment = dict(os.environ)
    if url.password:
        environment["PGPASSWORD"] = str(url.password)
    shown = url.set(password=None).render_as_string(hide_password=False)
    done = _called([*command, f"--dbname={shown}"], environment)
    if done.returncode != 0:
        # Its words may hold rows.
        raise FileProblem(f"{Path(command[0]).name} failed with code {done.returncode}: nothing was written.")


def _called(command: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        # A program that the operator names; arguments are a list, and no shell reads them.
        return subprocess.run(  # nosec B603
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as problem:
        raise FileProblem(f"cannot run {command[0]}: {problem.strerror or problem}.") from None
