"""Find cells of a SQLite file that hold another kind of value than their column.

SQLite takes any value in any column. A file that somebody else made may hold texts where numbers are
expected: it is refused before anything is read from it.
"""

from __future__ import annotations

import functools

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from dpmarket.ledger import tables

_JSON = {"campaign.rules", "round.parameters", "round.plan", "round.header"}
_LARGE = {"page", "left_out", "payout_page", "withdrawal", "journal"}  # may take long: looked at by a check


def cell_problems(connection: sa.Connection) -> list[str]:
    """Return a sentence for every table with cells of another kind; an empty list on a server."""
    return _problems(connection, list(tables.metadata.tables.values()))


def cell_problems_of_small_tables(connection: sa.Connection) -> list[str]:
    """Return what :func:`cell_problems` finds in tables that are quick to look at."""
    small = [table for table in tables.metadata.tables.values() if table.name not in _LARGE]
    return _problems(connection, small)


def _problems(connection: sa.Connection, looked_at: list[sa.Table]) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []
    found = []
    for table in looked_at:
        if connection.exec_driver_sql(_question(table)).scalar_one():
            found.append(f"{table.name}: a cell does not hold what its column says.")
    return found


@functools.cache
def _question(table: sa.Table) -> str:
    """Return the query whether a table has a cell of another kind, as text: every opening asks it."""
    right = sa.and_(*(_is_right(table.name, column) for column in table.columns))
    query = sa.select(sa.exists().where(sa.not_(right)).select_from(table))
    return str(query.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))


def _is_right(table: str, column: sa.Column[object]) -> sa.ColumnElement[bool]:
    """Return the condition that a cell is of its column's kind."""
    kinds = {sa.Text: ["text"], sa.LargeBinary: ["blob"], sa.Double: ["real", "integer"]}
    allowed = next((kind for of, kind in kinds.items() if isinstance(column.type, of)), ["integer"])
    right: sa.ColumnElement[bool] = sa.func.typeof(column).in_(allowed)
    if f"{table}.{column.name}" in _JSON:
        right = sa.and_(right, sa.func.json_valid(column) == 1, sa.func.json_type(column) == "object")
    return sa.or_(column.is_(None), right) if column.nullable else right
