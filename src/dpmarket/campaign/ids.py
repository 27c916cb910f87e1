"""Turn seller ids as people write them into one form, and what is wrong with them into line numbers."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from dpmarket.arrays import BoolArray, IntArray
from dpmarket.errors import FileProblem
from dpmarket.files import ColumnProblem, bytes_of_texts, find, repeated

_BLANKS = np.zeros(256, dtype=bool)
_BLANKS[[9, 10, 11, 12, 13, 28, 29, 30, 31, 32]] = True


def tidy_ids(table: pl.DataFrame, id_column: str) -> pl.DataFrame:
    r"""Return a table with its ids in Unicode's form NFC, in which the same letters are the same bytes.

    Examples
    --------
    >>> written = pl.DataFrame({"who": ["Zoe\u0308"]})
    >>> tidy_ids(written, "who").get_column("who").to_list() == ["Zo\u00eb"]
    True
    """
    column = table.get_column(id_column)
    if column.str.len_bytes().sum() == column.str.len_chars().sum():  # plain letters need no look
        return table
    return table.with_columns(column.str.normalize("NFC"))


def tidy_id(seller: str) -> str:
    """Return one id in the form NFC.

    Raises
    ------
    FileProblem
        It is empty, or begins or ends with a blank.
    """
    if not is_text(seller):
        raise FileProblem("expected a seller's id in UTF-8.")
    if not seller or seller != seller.strip():
        raise FileProblem("expected a seller's id without blanks before and after it.")
    return unicodedata.normalize("NFC", seller)


def is_text(seller: str) -> bool:
    """Whether an id, as it came from a command line, is text at all."""
    try:
        seller.encode()
    except UnicodeEncodeError:
        return False
    return True


def tidy_names(sellers: Sequence[str]) -> list[str]:
    """Return ids in the form NFC; refuses as :func:`tidy_id` does."""
    return [tidy_id(seller) for seller in sellers]


def id_problems(table: pl.DataFrame, id_column: str, rows_each: int = 1) -> list[ColumnProblem]:
    """Find rows without a seller's id, repeated ids, and what :func:`spelling_problems` finds.

    With ``rows_each`` above 1 an id may stand in so many rows.
    """
    empty: BoolArray = (table.get_column(id_column).fill_null("") == "").to_numpy()
    return [
        *find(id_column, "no seller id", empty),
        *_too_many(table, id_column, rows_each, empty),
        *spelling_problems(table, id_column),
    ]


def spelling_problems(table: pl.DataFrame, id_column: str) -> list[ColumnProblem]:
    """Find ids with blanks around them or a NUL in them.

    Arrays of texts drop NUL characters at the end, so that two sellers would look like one; a blank that
    nobody sees makes two sellers of one.
    """
    nul, blank = _looked_at(table, id_column)
    return [
        *find(id_column, "an id with a NUL character", nul),
        *find(id_column, "an id with blanks before or after it", blank),
    ]


def _too_many(table: pl.DataFrame, id_column: str, rows_each: int, empty: BoolArray) -> list[ColumnProblem]:
    if rows_each == 1:
        words = "a seller id that an earlier row has already"
        return find(id_column, words, repeated(table, id_column) & ~empty)
    count = table.select(pl.int_range(1, pl.len() + 1).over(id_column)).to_series().to_numpy()
    return find(
        id_column, f"a seller's row beyond rows_per_person = {rows_each}", (count > rows_each) & ~empty
    )


def _looked_at(table: pl.DataFrame, id_column: str) -> tuple[BoolArray, BoolArray]:
    """Return which rows have a NUL in their id, and which a blank at an end of it; in one pass."""
    nul, blank = np.zeros(table.height, dtype=bool), np.zeros(table.height, dtype=bool)
    first, plain = 0, True
    for data, ends in bytes_of_texts(table, id_column):
        starts = np.concatenate(([0], ends[:-1]))
        if _are_plain(data, starts, ends):
            first += ends.size
            continue
        some = np.flatnonzero(ends > starts)
        at_ends = _BLANKS[data[starts[some]]] | _BLANKS[data[ends[some] - 1]]
        blank[first + some] = at_ends
        if not data.all():
            nul[first + np.searchsorted(ends, np.flatnonzero(data == 0), side="right")] = True
        plain = plain and not (data >= 128).any()
        first += ends.size
    if not plain:
        column = table.get_column(id_column).fill_null("")
        blank |= np.asarray((column != column.str.strip_chars()).to_numpy())
    return nul, blank


def _are_plain(data: npt.NDArray[np.uint8], starts: IntArray, ends: IntArray) -> bool:
    """Whether texts are of printable ASCII, none is empty, and none has a blank at an end."""
    if data.size == 0 or data.min() < 32 or data.max() > 126 or (ends == starts).any():
        return False
    return not ((data[starts] == 32) | (data[ends - 1] == 32)).any()
