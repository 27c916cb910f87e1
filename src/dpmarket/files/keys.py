"""Match rows of tables by a key that is text: which repeat, which row of another table is the same one."""

from __future__ import annotations

from typing import cast

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, IntArray


def repeated(table: pl.DataFrame, name: str) -> BoolArray:
    """Return which rows have a text that stood in an earlier row already.

    Examples
    --------
    >>> repeated(pl.DataFrame({"who": ["a", "b", "a"]}), "who").tolist()
    [False, False, True]
    """
    column = table.get_column(name)
    # Where no two hashes are equal no two texts are: numbers are compared in less time than texts.
    hashes = np.sort(column.hash().to_numpy())
    if not (hashes[1:] == hashes[:-1]).any():
        return np.zeros(len(column), dtype=bool)
    return cast(BoolArray, (~column.is_first_distinct()).to_numpy())


def positions_in(table: pl.DataFrame, name: str, other: pl.DataFrame, other_name: str) -> IntArray:
    """Return, for each row, the row of ``other`` with the same text, or -1. Texts of ``other`` differ.

    Examples
    --------
    >>> rows, known = pl.DataFrame({"who": ["b", "x", "a"]}), pl.DataFrame({"seller": ["a", "b"]})
    >>> positions_in(rows, "who", known, "seller").tolist()
    [1, -1, 0]
    """
    keys = other.select(pl.col(other_name).alias("key")).with_row_index("position")
    rows = table.select(pl.col(name).cast(pl.String).alias("key"))
    found = rows.join(keys, on="key", how="left", maintain_order="left").get_column("position")
    return cast(IntArray, found.cast(pl.Int64).fill_null(-1).to_numpy())
