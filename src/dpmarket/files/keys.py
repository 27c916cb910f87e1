"""Match rows of tables by a key that is text: which repeat, which row of another table is the same one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, IntArray
from dpmarket.files.tables import Table


def repeated(table: Table, name: str) -> BoolArray:
    """Return which rows have a text that stood in an earlier row already.

    Examples
    --------
    >>> from dpmarket.files import make_table
    >>> repeated(make_table({"who": ["a", "b", "a"]}), "who").tolist()
    [False, False, True]
    """
    column = table.get_column(name)
    # No two hashes are equal: no two texts are, found in a tenth of the time.
    hashes = np.sort(column.hash().to_numpy())
    if not (hashes[1:] == hashes[:-1]).any():
        return np.zeros(len(column), dtype=bool)
    return cast(BoolArray, (~column.is_first_distinct()).to_numpy())


def positions_in(table: Table, name: str, other: Table, other_name: str) -> IntArray:
    """Return, for each row, the row of ``other`` with the same text, or -1. Texts of ``other`` differ.

    Examples
    --------
    >>> from dpmarket.files import make_table
    >>> rows, known = make_table({"who": ["b", "x", "a"]}), make_table({"seller": ["a", "b"]})
    >>> positions_in(rows, "who", known, "seller").tolist()
    [1, -1, 0]
    """
    keys = other.select(pl.col(other_name).alias("key")).with_row_index("position")
    rows = table.select(pl.col(name).cast(pl.String).alias("key"))
    found = rows.join(keys, on="key", how="left", maintain_order="left").get_column("position")
    return cast(IntArray, found.cast(pl.Int64).fill_null(-1).to_numpy())


def sum_by(tables: Sequence[Table], key: str) -> Table:
    """Return one row per key with the sums of all other columns, in the order of first appearance.

    All tables have the same columns, numbers but for the key.

    Examples
    --------
    >>> from dpmarket.files import make_table
    >>> first, second = make_table({"who": ["a", "b"], "x": [1, 2]}), make_table({"who": ["b"], "x": [5]})
    >>> sum_by([first, second], "who").rows()
    [('a', 1), ('b', 7)]
    """
    return pl.concat(list(tables)).group_by(key, maintain_order=True).sum()


def same_content(table: Table, other: Table) -> bool:
    """Whether two tables hold the same columns and values in the same order, bit by bit."""
    return table.equals(other, null_equal=True)
