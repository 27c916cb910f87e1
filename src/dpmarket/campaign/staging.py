"""Many rows at once: into a temporary table for statements over whole columns, and out into a data frame."""

import io
from typing import Any

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.transaction import Tx

_TYPES: dict[Any, Any] = {
    pl.Binary: schema.BYTES,
    pl.String: schema.TEXT,
    pl.Int64: schema.WHOLE,
    pl.Float64: schema.REAL,
}


def stage(tx: Tx, name: str, key: str, rows: pl.DataFrame) -> sa.Table:
    """Put rows into a temporary table, looked up by a key column; it ends with the transaction."""
    columns: list[Any] = [sa.Column(column, _TYPES[type(kind)]) for column, kind in rows.schema.items()]
    postgres = tx.c.dialect.name != "sqlite"
    options: dict[str, Any] = {"postgresql_on_commit": "DROP"} if postgres else {}
    table = sa.Table(name, sa.MetaData(), *columns, prefixes=["TEMPORARY"], **options)
    tx.c.execute(sa.schema.DropTable(table, if_exists=True))
    tx.c.execute(sa.schema.CreateTable(table))
    if postgres:
        _copy(tx, name, rows)
    elif rows.height:
        places = ", ".join("?" * rows.width)
        tx.c.exec_driver_sql(f"INSERT INTO {name} VALUES ({places})", rows.rows())  # nosec B608
    tx.c.execute(sa.text(f"CREATE INDEX {name}_key ON {name} ({key})"))
    return table


def _copy(tx: Tx, name: str, rows: pl.DataFrame) -> None:
    """Copy rows to PostgreSQL as CSV."""
    buffer = io.BytesIO()
    in_hex = (pl.lit("\\x") + pl.col(pl.Binary).bin.encode("hex")).name.keep()
    rows.with_columns(in_hex).write_csv(buffer, include_header=False, quote_style="non_numeric")
    driver: Any = tx.c.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
        copy.write(buffer.getvalue())


def frame(c: sa.Connection, query: Any, **kinds: Any) -> pl.DataFrame:
    """Return the rows of a query as a data frame with columns of these names and kinds, in this order."""
    columns = list(zip(*c.execute(query).all(), strict=True)) or [()] * len(kinds)
    return pl.DataFrame(dict(zip(kinds, columns, strict=True)), schema=kinds)
