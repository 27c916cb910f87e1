"""Turn every change of a ledger into a line of a chain, so that edited, lost and added rows are found.

A line holds a keyed digest of the rows that it speaks of, as they were after the change, and one of itself
and the line before; a digest of the last line is kept apart. The key is the ledger's own: this finds mistakes
and edits by hand, not somebody who has the ledger and this program. Against those stands the log outside
(:mod:`dpmarket.ledger.outside`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from dpmarket.ledger import tables
from dpmarket.ledger.engine import Connection, now

_START = "0" * 64


def canonical(data: object) -> str:
    """Write plain data as JSON in one way only: sorted, without blanks."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def keyed(key: bytes, *parts: str) -> str:
    """Return the HMAC of texts, each with its length before it, as hexadecimal digits."""
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def key_of(connection: Connection) -> bytes:
    """Return the ledger's key."""
    return bytes(connection.execute(sa.select(tables.ledger.c.key)).scalar_one())


def record(connection: Connection, kind: str, subject: str | int) -> None:
    """Append a line about a row, and what belongs to it, as they are now.

    Parameters
    ----------
    kind
        One of :data:`KINDS`.
    subject
        The row's key.
    """
    record_all(connection, kind, [subject])


def record_all(connection: Connection, kind: str, subjects: Sequence[str | int]) -> None:
    """Append a line about each of several rows of one kind."""
    key = key_of(connection)
    last = connection.execute(
        sa.select(tables.journal.c.number, tables.journal.c.chain)
        .order_by(tables.journal.c.number.desc())
        .limit(1)
    ).one_or_none()
    number, chain = (0, _START) if last is None else (int(last.number), str(last.chain))
    for subject in subjects:
        number += 1
        content = keyed(key, KINDS[kind](connection, str(subject)) or "")
        at = now()
        chain = _chained(key, chain, number, at, kind, str(subject), content)
        connection.execute(
            tables.journal.insert().values(
                number=number, at=at, kind=kind, subject=str(subject), content=content, chain=chain
            )
        )
    if number:
        connection.execute(tables.ledger.update().values(journal_end=_ended(key, number, chain)))


def journal_problems(connection: Connection) -> list[str]:
    """Return a sentence for every line or row that is not as it was written."""
    key = key_of(connection)
    problems, chain, newest, expected = [], _START, {}, 0
    for row in connection.execute(sa.select(tables.journal).order_by(tables.journal.c.number)):
        expected += 1
        right = _chained(key, chain, row.number, row.at, row.kind, row.subject, row.content)
        if row.number != expected or row.chain != right:
            problems.append(f"journal: its chain is broken at line {row.number}.")
            expected = row.number
        chain = row.chain
        newest[row.kind, row.subject] = row.content
    end = connection.execute(sa.select(tables.ledger.c.journal_end)).scalar_one()
    if end != (_ended(key, expected, chain) if expected else None):
        problems.append("journal: its end is missing.")
    for (kind, subject), content in newest.items():
        found = KINDS[kind](connection, subject)
        if found is None:
            problems.append(f"{kind} {subject}: it is gone.")
        elif keyed(key, found) != content:
            problems.append(f"{kind} {subject}: it is not as it was entered.")
    for kind, column in _COLUMNS.items():
        known = {subject for of, subject in newest if of == kind}
        query = sa.select(column)
        if kind == "transfer":  # holds of single sellers are the live desk's, which checks them itself
            query = query.where(tables.transfer.c.participation.is_(None))
        there = (str(value) for value in connection.execute(query).scalars())
        problems += [f"{kind} {value}: it was never entered." for value in there if value not in known]
    return problems


def _chained(key: bytes, before: str, number: int, *said: str) -> str:
    """Return what a line that says when, what kind, what subject and what content adds to the chain."""
    return keyed(key, before, str(number), *said)


def _ended(key: bytes, number: int, chain: str) -> str:
    """Return what tells the journal's last line from all lines before it."""
    return keyed(key, "end", str(number), chain)


def _row(table: sa.Table, column: sa.Column[Any], value: object, leave: tuple[str, ...] = ()) -> Any:
    wanted = [found for found in table.columns if found.name not in ("content", *leave)]
    return sa.select(*wanted).where(column == value).order_by(*table.primary_key.columns)


def _text(connection: Connection, *queries: Any) -> str | None:
    """Write the rows of queries; None if the first has none."""
    found = [[list(row) for row in connection.execute(query)] for query in queries]
    return canonical(found) if found[0] else None


def _of_campaign(connection: Connection, subject: str) -> str | None:
    return _text(connection, _row(tables.campaign, tables.campaign.c.id, subject))


def _of_round(connection: Connection, subject: str) -> str | None:
    number = int(subject)
    pages = _row(tables.page, tables.page.c.round, number).where(tables.page.c.kind == "quoted")
    return _text(
        connection,
        _row(tables.round_, tables.round_.c.number, number),
        pages,
        _row(tables.left_out, tables.left_out.c.round, number),
    )


def _of_withdrawals(connection: Connection, subject: str) -> str | None:
    return _text(connection, _row(tables.withdrawal, tables.withdrawal.c.round, int(subject)))


def _of_release(connection: Connection, subject: str) -> str | None:
    debits = _row(tables.debit, tables.debit.c.release, subject)
    spent = (
        sa.select(tables.page.c.round, tables.page.c.number, tables.page.c.digest)
        .join(tables.debit, tables.debit.c.round == tables.page.c.round)
        .where(tables.debit.c.release == subject, tables.debit.c.counts == 1, tables.page.c.kind == "spent")
        .order_by(tables.page.c.round, tables.page.c.number)
    )
    return _text(connection, _row(tables.release, tables.release.c.id, subject), debits, spent)


def _of_transfer(connection: Connection, subject: str) -> str | None:
    return _text(connection, _row(tables.transfer, tables.transfer.c.id, subject))


def _of_payout(connection: Connection, subject: str) -> str | None:
    pages = _row(tables.payout_page, tables.payout_page.c.payout, subject)
    return _text(connection, _row(tables.payout, tables.payout.c.id, subject), pages)


KINDS: dict[str, Callable[[Connection, str], str | None]] = {
    "campaign": _of_campaign,
    "round": _of_round,
    "withdrawals of round": _of_withdrawals,
    "release": _of_release,
    "transfer": _of_transfer,
    "payout": _of_payout,
}
"""What the journal speaks of, and how its rows are written for the digest."""

_COLUMNS: dict[str, Any] = {
    "campaign": tables.campaign.c.id,
    "round": tables.round_.c.number,
    "withdrawals of round": tables.withdrawal.c.round,
    "release": tables.release.c.id,
    "transfer": tables.transfer.c.id,
    "payout": tables.payout.c.id,
}
