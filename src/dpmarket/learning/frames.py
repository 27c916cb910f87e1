"""Read columns by name from data frames of pandas or polars and mappings, by place from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpmarket.errors import InvalidInput


def names_of(table: Any, wanted: Sequence[str]) -> list[str] | None:
    """Return the names of a table's columns, or None for an array, whose columns are those wanted, in order.

    Raises
    ------
    InvalidInput
        If a wanted column is not there, or a table has another number of columns than are wanted and no
        names.
    """
    names: list[str] | None = None
    if isinstance(table, Mapping):
        names = [str(name) for name in table]
    elif hasattr(table, "columns"):
        names = [str(name) for name in table.columns]
    if names is None:
        shape = np.shape(table)
        if len(shape) != 2 or shape[1] != len(wanted):
            raise InvalidInput(
                f"expected a table with named columns, or an array of {len(wanted)} columns, got shape "
                f"{shape}."
            )
        return None
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InvalidInput(f"expected the columns {', '.join(map(repr, absent))} in the table; found none.")
    return names


def columns_of(table: Any, wanted: Sequence[str]) -> list[Any]:
    """Return the values of the wanted columns, each an array of numbers or a list."""
    if names_of(table, wanted) is None:
        array = np.asarray(table)
        found = [array[:, place] for place in range(len(wanted))]
        return [column if column.dtype.kind in "fiub" else column.tolist() for column in found]
    columns = [_values(table[name]) for name in wanted]
    if len({len(column) for column in columns}) > 1:
        raise InvalidInput("expected columns of the same length.")
    return columns


def _values(column: Any) -> Any:
    """Return a column as numbers, if it has nothing else, or as a list with None for gaps."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        return column
    kind = type(column).__module__.split(".")[0]
    if kind == "pandas":
        if getattr(column.dtype, "kind", "O") in "fiub" and isinstance(column.dtype, np.dtype):
            return np.asarray(column)
        gaps = column.isna().to_numpy()
        return [None if gap else value for value, gap in zip(column.tolist(), gaps, strict=True)]
    if kind == "polars" and column.dtype.is_numeric() and column.null_count() == 0:
        return np.asarray(column.to_numpy())
    return column.tolist() if isinstance(column, np.ndarray) else list(column)
