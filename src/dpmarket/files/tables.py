"""Read and write tables: CSV and Parquet, chosen by the file's ending."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files.atomic import atomic_path

Table = pl.DataFrame
"""A table in memory; other rooms treat it as opaque and come here to use it."""


def read_table(source: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Table:
    """Read a .csv or .parquet file, all columns or the named ones.

    Raises
    ------
    FileProblem : no such file, another ending, not a table, no rows, or a column is missing (the message
        lists the columns that are there). The message never contains a value of the table.
    """
    path = Path(source)
    if not path.is_file():
        raise FileProblem(f"cannot read {path}: there is no such file.")
    kind = _kind(path)
    try:
        table = pl.read_csv(path, infer_schema_length=None) if kind == ".csv" else pl.read_parquet(path)
    except pl.exceptions.NoDataError:
        raise FileProblem(f"cannot read {path}: the file is empty.") from None
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError):
        # polars quotes the offending cell, which may be private: its words are not passed on.
        raise FileProblem(
            f"cannot understand {path} as {kind[1:].upper()}: expected UTF-8 text with a header row and "
            "commas between columns, the same number in every row."
            if kind == ".csv"
            else f"cannot understand {path} as Parquet."
        ) from None
    if table.height == 0:
        raise FileProblem(f"cannot use {path}: it has a header but no rows.")
    missing = [name for name in columns or () if name not in table.columns]
    if missing:
        raise FileProblem(
            f"cannot find {_names(missing)} in {path}; its columns are {_names(table.columns)}."
        )
    return table.select(list(columns)) if columns is not None else table


def csv_columns(data: bytes) -> dict[str, list[str]]:
    """Return the columns of CSV text with a header row, every cell as text, by the header's names.

    Raises
    ------
    FileProblem
        If the text is no such table. The message has no cell of it.
    """
    try:
        table = pl.read_csv(io.BytesIO(data), infer_schema=False)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError):
        raise FileProblem("expected CSV text in UTF-8 with a header row, got something else.") from None
    return {name: table.get_column(name).to_list() for name in table.columns}


def write_table(target: str | os.PathLike[str], columns: Mapping[str, Any], overwrite: bool = True) -> None:
    """Write columns of equal length to a .csv or .parquet file, atomically, losing no bit."""
    path = Path(target)
    kind = _kind(path)
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"expected columns of equal length, got {lengths}.")
    table = pl.DataFrame({name: _series(values) for name, values in columns.items()})
    with atomic_path(path, overwrite) as temporary:
        if kind == ".csv":
            table.write_csv(temporary)
        else:
            table.write_parquet(temporary)


def write_parquet(
    target: str | os.PathLike[str],
    columns: Mapping[str, Any],
    notes: Mapping[str, str],
    overwrite: bool = True,
) -> None:
    """Write columns and texts that belong to the whole table to a Parquet file, atomically."""
    table = pl.DataFrame({name: _series(values) for name, values in columns.items()})
    with atomic_path(target, overwrite) as temporary:
        table.write_parquet(temporary, metadata=dict(notes))


def read_parquet(source: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Read what :func:`write_parquet` wrote: the columns as arrays (texts as lists), and the notes."""
    table = read_table(source)
    columns = {
        name: table.get_column(name).to_list()
        if table.get_column(name).dtype == pl.String
        else table.get_column(name).to_numpy()
        for name in table.columns
    }
    return columns, dict(pl.read_parquet_metadata(Path(source)))


def number_column(table: Table, name: str, source: str | os.PathLike[str]) -> FloatArray:
    """Return a column as float64, refusing missing values and text by line number, never by value."""
    column = table.get_column(name)
    if column.dtype.is_numeric():
        numbers = column.cast(pl.Float64)
    elif column.dtype == pl.String:
        numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
    else:
        raise FileProblem(f"expected numbers in column {name!r} of {source}, found {column.dtype}.")
    bad = numbers.is_null()
    if bad.any():
        rows = [int(row) + 2 for row in bad.arg_true().head(3)]
        raise FileProblem(
            f"expected a number in every row of column {name!r} of {source}, found {int(bad.sum())} "
            f"without one, the first in line {', '.join(map(str, rows))}."
        )
    return cast(FloatArray, np.ascontiguousarray(numbers.to_numpy(), dtype=np.float64))


def text_column(table: Table, name: str) -> list[str]:
    """Return a column as text, as it stood in the file where that can be known."""
    return table.get_column(name).cast(pl.String).to_list()


def _series(values: Any) -> Any:
    return values if isinstance(values, np.ndarray) else list(values)


def _kind(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise FileProblem(f"expected a file ending in .csv or .parquet, got {path.name!r}.")
    return ending


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
