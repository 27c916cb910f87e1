"""Many rows at once: a table of values on the connection's own side, for statements over whole columns."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Tx

_TYPES: dict[Any, Any] = {
    pl.Binary: schema.BYTES,
    pl.String: schema.TEXT,
    pl.Int64: schema.WHOLE,
    pl.Float64: schema.REAL,
}


def stage(tx: Tx, name: str, key: str, rows: pl.DataFrame) -> sa.Table:
    """Put a table's rows into a temporary table that ends with the transaction; return it.

    Parameters
    ----------
    name, key
        Of the temporary table, and of the column that it is looked up by.
    rows
        Columns of bytes, text, whole numbers and floats.
    """
    columns: list[Any] = [sa.Column(column, _TYPES[type(kind)]) for column, kind in rows.schema.items()]
    postgres = tx.c.dialect.name != "sqlite"
    options: dict[str, Any] = {"postgresql_on_commit": "DROP"} if postgres else {}
    table = sa.Table(name, sa.MetaData(), *columns, prefixes=["TEMPORARY"], **options)
    tx.c.execute(sa.schema.DropTable(table, if_exists=True))
    tx.c.execute(sa.schema.CreateTable(table))
    if postgres:
        _copy(tx, name, rows)
    else:
        places = ", ".join("?" * rows.width)
        if rows.height:
            tx.c.exec_driver_sql(f"INSERT INTO {name} VALUES ({places})", rows.rows())  # nosec B608
    tx.c.execute(sa.text(f"CREATE INDEX {name}_key ON {name} ({key})"))
    return table


def _copy(tx: Tx, name: str, rows: pl.DataFrame) -> None:
    """Copy rows to PostgreSQL as CSV."""
    buffer = io.BytesIO()
    written = rows.with_columns(
        [
            (pl.lit("\\x") + pl.col(column).bin.encode("hex")).alias(column)
            for column, kind in rows.schema.items()
            if kind == pl.Binary
        ]
    )
    written.write_csv(buffer, include_header=False, quote_style="non_numeric")
    driver: Any = tx.c.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
        copy.write(buffer.getvalue())
