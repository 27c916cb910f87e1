"""Keep tables of many sellers as Parquet files, cut into pages with a digest each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
import sqlalchemy as sa

from dpmarket.files import table_from_bytes
from dpmarket.ledger import tables
from dpmarket.ledger.engine import Connection

PAGE = 1 << 24  # bytes; SQLite holds no value of more than a billion


def keep(connection: Connection, table: sa.Table, keys: Mapping[str, Any], content: bytes) -> None:
    """Enter a file's bytes as pages under these keys."""
    for number, first in enumerate(range(0, len(content), PAGE)):
        part = content[first : first + PAGE]
        values = {**keys, "number": number, "content": part, "digest": digest_of(part)}
        connection.execute(table.insert().values(values))


def kept(connection: Connection, table: sa.Table, keys: Mapping[str, Any]) -> bytes:
    """Return a file's bytes from its pages; nothing if there are none."""
    query = sa.select(table.c.content).order_by(table.c.number)
    rows = connection.execute(query.where(*(table.c[name] == value for name, value in keys.items())))
    return b"".join(bytes(row.content) for row in rows)


def kept_table(connection: Connection, table: sa.Table, keys: Mapping[str, Any]) -> pl.DataFrame:
    """Return the table whose Parquet file was kept.

    Raises
    ------
    FileProblem
        A page is missing or damaged.
    """
    return table_from_bytes(kept(connection, table, keys))


def digest_of(content: bytes) -> str:
    """Return what a page is known by."""
    return hashlib.sha256(content).hexdigest()


def page_problems(connection: Connection) -> list[str]:
    """Return a sentence for every page that is not what it was."""
    problems = []
    for table, column in _paged():
        for row in _rows(connection, table, column):
            if digest_of(bytes(row.content)) != row.digest:
                problems.append(f"{column.name} {row[0]}: a page is not as it was entered.")
    return problems


def _paged() -> list[tuple[sa.Table, sa.Column[Any]]]:
    return [
        (tables.page, tables.page.c.round),
        (tables.left_out, tables.left_out.c.round),
        (tables.payout_page, tables.payout_page.c.payout),
    ]


def _rows(connection: Connection, table: sa.Table, column: sa.Column[Any]) -> Iterator[Any]:
    """Give pages one at a time: all of them may not fit into memory."""
    keys = connection.execute(sa.select(*table.primary_key.columns)).all()
    for key in keys:
        where = [part == value for part, value in zip(table.primary_key.columns, key, strict=True)]
        yield connection.execute(sa.select(column, table.c.content, table.c.digest).where(*where)).one()
