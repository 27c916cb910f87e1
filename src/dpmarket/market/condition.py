"""Look at a desk's database and keys without changing anything, and say what to do about what is wrong."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from dpmarket.errors import DpmarketError, FileProblem
from dpmarket.ledger import Connection, outside
from dpmarket.ledger import tables as ledger_tables
from dpmarket.ledger.engine import command_for, is_address, ledger_seen, looking_at
from dpmarket.ledger.preparing import revision_of
from dpmarket.ledger.restoring import log_problems
from dpmarket.market import tables
from dpmarket.market.checking import check_market, live_campaigns
from dpmarket.market.desk import desk_revision, time_text
from dpmarket.market.keys import OPERATOR, has_key
from dpmarket.market.wrapping import unwrapped

_ENDED = ("released", "lost", "cancelled")
_AHEAD = timedelta(seconds=5)  # clocks of two machines that are set well differ by less
_QUARTER = timedelta(minutes=15)  # zones are whole multiples of it
_LATE = timedelta(hours=1)  # for a job that is due, or a key that is not needed any more
_OFTEN = 8  # attempts that were put off: some minutes


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a service.

    Attributes
    ----------
    kind
        One word: settings, mode, keys, schema, books, log, clock, disk, jobs, mails or address.
    found
        What was found, in one sentence, without a value of a row.
    todo
        What to do about it.
    """

    kind: str
    found: str
    todo: str


def desk_findings(place: str, keys: Path, now: datetime) -> Iterator[Finding]:
    """Give all that is wrong with a desk's tables, books, log, clock, jobs and keys; nothing is changed.

    Parameters
    ----------
    place
        A ledger's file, or the address of a PostgreSQL database.
    keys
        The folder of private keys.
    now
        The time.
    """
    try:
        with looking_at(place) as connection:
            others = list(_schema(connection))
            yield from others
            if others:  # what has other tables cannot be asked any further
                return
            yield from _books(connection, place)
            yield from _clock(connection, now)
            yield from _jobs(connection, now)
            yield from _mails(connection)
            yield from _keys(connection, keys)
    except FileProblem as problem:
        todo = (
            "see that the server runs and lets this user in"
            if is_address(place)
            else "see that its disk is mounted; else 'dpmarket service restore' puts a backup there"
        )
        yield Finding("books", _words(problem), f"{todo}.")


def _schema(connection: Connection) -> Iterator[Finding]:
    found = {
        "the ledger's tables": (revision_of(connection), ledger_tables.HEAD),
        "the desk's tables": (desk_revision(connection), tables.HEAD),
    }
    for name, (revision, head) in found.items():
        if revision is None:
            yield Finding(
                "schema",
                f"{name} are not there.",
                "see that this is the service's database; 'dpmarket service restore' puts a backup there.",
            )
        elif revision != head:
            yield Finding(
                "schema",
                f"{name} are of the revision {revision}, which this version of dpmarket does not know.",
                "install the version of dpmarket that wrote them.",
            )


def _books(connection: Connection, place: str) -> Iterator[Finding]:
    ledger = ledger_seen(connection, place)
    try:
        check_market(connection)
    except FileProblem as problem:
        for line in problem.details or [_words(problem)]:
            yield Finding(
                "books", f"the books do not balance: {line}", "stop the service and put back a backup."
            )
    try:
        with looking_at(place) as fresh:  # what was read before is older than the log
            problems = log_problems(fresh, ledger)
        for line in problems:
            found, _, todo = line.partition(": ")
            yield Finding("log", f"{found}.", todo)
    except FileProblem as problem:
        yield Finding(
            "log",
            _words(problem),
            "put back the state folder's own newest copy; without one, move the log away and run "
            f"{command_for('repair', place)}, which enters all open promises as spent and paid.",
        )


def _clock(connection: Connection, now: datetime) -> Iterator[Finding]:
    newest = [
        connection.execute(sa.select(sa.func.max(column))).scalar()
        for column in (tables.event.c.at, tables.live_campaign.c.made_at, tables.token.c.made_at)
    ]
    with contextlib.suppress(FileProblem):  # told with the log
        newest += [line.at for line in outside.read_log()[-1:]]
    known = [datetime.fromisoformat(at) for at in newest if at is not None]
    behind = max(known, default=now) - now
    if behind > _AHEAD:
        yield _wrong_clock(f"the clock is {_span(behind)} behind the newest entry", behind)
    if connection.dialect.name == "postgresql":
        told = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        apart = abs(told.astimezone(UTC) - now)
        if apart > _AHEAD:
            yield _wrong_clock(f"the database server's clock is {_span(apart)} from this one", apart)


def _wrong_clock(found: str, apart: timedelta) -> Finding:
    odd = abs(apart - round(apart / _QUARTER) * _QUARTER)
    zone = apart > _QUARTER / 2 and odd < timedelta(minutes=1)
    hint = ", which looks like a time zone: is the hardware clock set to local time" if zone else ""
    return Finding(
        "clock",
        f"{found}{hint}.",
        "set the clock (timedatectl set-ntp true) before anything is quoted: terms end by it.",
    )


def _span(length: timedelta) -> str:
    seconds = round(length.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _jobs(connection: Connection, now: datetime) -> Iterator[Finding]:
    job = tables.job.c
    late = sa.and_(job.state == "waiting", job.due_at < time_text(now - _LATE))
    for row in connection.execute(sa.select(job.kind, job.campaign).where(late).order_by(job.due_at)):
        yield Finding(
            "jobs",
            f"campaign {row.campaign} has been waiting for '{row.kind}' for more than an hour.",
            "start a worker ('dpmarket worker'), or look into its log.",
        )
    put_off = sa.and_(job.state == "waiting", job.error_kind.is_not(None), job.attempts >= _OFTEN)
    query = sa.select(job.kind, job.campaign, job.error_kind, job.attempts).where(put_off)
    for kind, campaign, error, attempts in connection.execute(query.order_by(job.due_at)):
        yield Finding(
            "jobs",
            f"campaign {campaign}: '{kind}' was tried {attempts} times ({error}), and is tried again.",
            "mend what the other lines of this check, or the log of a worker, name.",
        )
    query = sa.select(job.kind, job.campaign, job.error_kind).where(job.state == "failed")
    for kind, campaign, error in connection.execute(query.order_by(job.due_at)):
        yield Finding(
            "jobs",
            f"campaign {campaign}: '{kind}' failed ({error}).",
            "mend what the other lines of this check name; 'dpmarket service retry' then tries it again.",
        )


def _mails(connection: Connection) -> Iterator[Finding]:
    mail, own = tables.mail.c, tables.participation.c
    query = (
        sa.select(own.campaign, mail.state, sa.func.count(), sa.func.max(mail.error_kind))
        .join(tables.participation, own.id == mail.participation)
        .where(mail.state.in_(("failed", "unknown")))
        .group_by(own.campaign, mail.state)
        .order_by(own.campaign, mail.state)
    )
    for campaign, state, number, error in connection.execute(query):
        option = " --perhaps-sent" if state == "unknown" else ""
        yield Finding(
            "mails",
            f"campaign {campaign}: {number} mails are {state} ({error}).",
            f"'dpmarket service send-again FOLDER {campaign}{option}' sends them once more.",
        )


def _keys(connection: Connection, keys: Path) -> Iterator[Finding]:
    if not keys.is_dir() or not os.access(keys, os.R_OK | os.X_OK):
        yield Finding("keys", f"{keys} cannot be read.", "run this check where a worker runs, as its user.")
        return
    if not any(keys.glob(f"{OPERATOR}-*.key")):
        yield Finding(
            "keys",
            f"the operator's key is not in {keys}.",
            "put it back from its own copy: without it payees and openings cannot be read.",
        )
    for found in live_campaigns(connection):
        if found.public_key is None:
            continue
        there = has_key(keys, found.campaign, bytes(found.public_key))
        if found.state in _ENDED and there:
            yield Finding(
                "keys",
                f"campaign {found.campaign} is over, and its private key is still there.",
                "let a worker run ('dpmarket worker'): it destroys the key.",
            )
        elif found.state not in _ENDED and not there:
            yield Finding(
                "keys",
                f"the private key of campaign {found.campaign} is not in {keys}.",
                "see that this is the worker's folder of keys (keys_folder); if the key is lost, nobody can "
                "read the campaign's records.",
            )
    yield from _unreadable(sorted(keys.glob("*.key")))


def _unreadable(paths: Sequence[Path]) -> Iterator[Finding]:
    for path in paths:
        try:
            unwrapped(path.read_bytes(), path.name)
        except DpmarketError as problem:
            yield Finding("keys", _words(problem), "name the right master key (master_key_file).")
        except OSError as problem:
            reason = problem.strerror or problem
            yield Finding(
                "keys", f"cannot read the key {path.name}: {reason}.", "run this check as its owner."
            )


def _words(problem: DpmarketError) -> str:
    return str(problem.args[0])
