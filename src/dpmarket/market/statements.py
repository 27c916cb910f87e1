"""Say statements in the words of the connection's database: inserts that know conflicts, several at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dpmarket.ledger import Connection


def insert(connection: Connection, table: sa.Table, values: Mapping[str, object]) -> Any:
    """Return an insert that can say ``ON CONFLICT``."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    return dialect.insert(table).values(values)


def together(connection: Connection, main: Any, *others: Any) -> int:
    """Change rows of several tables, no row twice; return how many rows the first statement changed.

    On PostgreSQL they are one statement, because every statement is a way to the server and back.
    """
    if connection.dialect.name == "postgresql":
        parts = [other.cte(f"part_{place}") for place, other in enumerate(others)]
        return connection.execute(main.add_cte(*parts)).rowcount
    changed = connection.execute(main).rowcount
    for other in others:
        connection.execute(other)
    return changed


def random_id(connection: Connection) -> sa.ColumnElement[str]:
    """Return an expression that is a new id in every row: random bits as 32 hexadecimal digits.

    128 bits of SQLite's generator; on PostgreSQL the 122 random bits of a UUID.
    """
    if connection.dialect.name == "sqlite":
        return sa.func.lower(sa.func.hex(sa.func.randomblob(16)))
    return sa.func.replace(sa.cast(sa.func.gen_random_uuid(), sa.Text), "-", "")
