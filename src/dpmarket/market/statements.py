"""Say statements in the words of the connection's database: inserts that know conflicts, several at once.

Statements of every act of a seller are made once, with places for values (:func:`given`): making one takes as
long as a way to the server and back.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from dpmarket.ledger import Connection

Text: TypeAlias = "str | sa.BindParameter[str]"
Whole: TypeAlias = "int | sa.BindParameter[int]"


def given(name: str) -> sa.BindParameter[str]:
    """Return a place for a text, which :func:`together` fills in."""
    return sa.bindparam(f"given_{name}", type_=sa.Text())


def given_whole(name: str) -> sa.BindParameter[int]:
    """Return a place for a whole number."""
    return sa.bindparam(f"given_{name}", type_=sa.BigInteger())


def insert(connection: Connection, table: sa.Table, values: Mapping[str, object]) -> Any:
    """Return an insert that can say ``ON CONFLICT``."""
    return insert_for(connection.dialect.name, table, values)


def insert_for(dialect: str, table: sa.Table, values: Mapping[str, object]) -> Any:
    """Return an insert that can say ``ON CONFLICT`` in a database of this kind."""
    words = sqlite if dialect == "sqlite" else postgresql
    return words.insert(table).values(values)


def together(connection: Connection, statements: tuple[Any, ...], **values: object) -> int:
    """Change rows of several tables, no row twice; return how many rows the first statement changed.

    On PostgreSQL they are one statement, because every statement is a way to the server and back.

    Parameters
    ----------
    statements
        Made once and kept, with :func:`given` places.
    **values
        What stands in these places, by their names.
    """
    filled = {f"given_{name}": value for name, value in values.items()}
    if connection.dialect.name == "postgresql":
        return connection.execute(_joined(statements), filled).rowcount
    changed, *_ = [connection.execute(one, filled).rowcount for one in statements]
    return changed


@functools.cache
def _joined(statements: tuple[Any, ...]) -> Any:
    main, *others = statements
    return main.add_cte(*[other.cte(f"part_{place}") for place, other in enumerate(others)])


def insert_all(connection: Connection, table: sa.Table, columns: Mapping[str, Sequence[object]]) -> None:
    """Enter many rows, given by column: on PostgreSQL as one statement over arrays, half the time of rows."""
    if connection.dialect.name == "postgresql":
        arrays = [
            sa.bindparam(name, values, type_=postgresql.ARRAY(table.c[name].type))
            for name, values in columns.items()
        ]
        rows = sa.func.unnest(*arrays).table_valued(*columns).render_derived()
        connection.execute(table.insert().from_select(list(columns), sa.select(rows)))
        return
    names = list(columns)
    found = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    connection.execute(table.insert(), found)


def random_id(connection: Connection) -> sa.ColumnElement[str]:
    """Return an expression that is a new id in every row: random bits as 32 hexadecimal digits.

    128 bits of SQLite's generator; on PostgreSQL the 122 random bits of a UUID.
    """
    if connection.dialect.name == "sqlite":
        return sa.func.lower(sa.func.hex(sa.func.randomblob(16)))
    return sa.func.replace(sa.cast(sa.func.gen_random_uuid(), sa.Text), "-", "")
