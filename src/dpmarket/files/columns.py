"""Turn columns of a table into arrays, and what is wrong with them into line numbers, never into values."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.errors import FileProblem
from dpmarket.files.atomic import is_standard_stream
from dpmarket.files.dialect import DECIMAL_COMMA, THOUSANDS

_SHOWN = 3
_YEAR = r"\d{4}"
_MIDNIGHT = r"[ T]00:00(:00(\.0+)?)?$"
_WRONG = {
    "a separator of thousands, or what may be one (write 1234; a fraction with a fourth digit)": THOUSANDS,
    "a decimal comma (write a point)": DECIMAL_COMMA,
    "no number": "",
}


@dataclass(frozen=True)
class ColumnProblem:
    """One kind of problem in a column: in words without a value, in how many rows, and the first of them."""

    column: str
    words: str
    count: int
    rows: tuple[int, ...]

    def sentence(self, table: pl.DataFrame, source: str | os.PathLike[str]) -> str:
        """Say it with the numbers of lines (CSV) or rows."""
        where, shift = _numbering(table, source)
        shown = ", ".join(str(row + shift) for row in self.rows)
        more = f" and {self.count - len(self.rows)} more" if self.count > len(self.rows) else ""
        plural = "s" if self.count > 1 else ""
        return f"column {self.column!r}: {self.words} in {self.count} row{plural}: {where} {shown}{more}."


def find(column: str, words: str, offends: BoolArray, rows: IntArray | None = None) -> list[ColumnProblem]:
    """Return the problem for the rows that offend, at these positions of the file (None: all), if any do."""
    where = np.flatnonzero(offends)
    if where.size == 0:
        return []
    first = where[:_SHOWN] if rows is None else rows[where[:_SHOWN]]
    return [ColumnProblem(column, words, int(where.size), tuple(int(row) for row in first))]


def refuse(table: pl.DataFrame, source: str | os.PathLike[str], problems: Sequence[ColumnProblem]) -> None:
    """Raise ``FileProblem`` with a sentence for every problem of a file's table, if there are any."""
    if not problems:
        return
    name = "the standard input" if is_standard_stream(source) else str(source)
    raise FileProblem(
        f"cannot use {name}: {len(problems)} problem{'s' if len(problems) > 1 else ''}.",
        [problem.sentence(table, source) for problem in problems],
    )


def numbers_of(
    table: pl.DataFrame, name: str, rows: IntArray | None = None
) -> tuple[FloatArray, list[ColumnProblem]]:
    """Return a column as float64, NaN where there is no finite number, and what was found instead."""
    column = table.get_column(name) if rows is None else table.get_column(name).gather(rows)
    if column.dtype == pl.Float64 and column.null_count() == 0:
        values = column.to_numpy()
        if np.isfinite(values.min(initial=0.0)) and np.isfinite(values.max(initial=0.0)):
            return np.ascontiguousarray(values), []
    if not (column.dtype.is_numeric() or column.dtype == pl.String):
        return np.full(len(column), np.nan), find(
            name, "no number (the column holds something else)", np.ones(len(column), dtype=bool), rows
        )
    is_text = column.dtype == pl.String
    cells = column.str.strip_chars() if is_text else column
    missing = cells.is_null() | (cells == "") if is_text else cells.is_null()
    numbers = cells.cast(pl.Float64, strict=False)
    wrong, problems = numbers.is_null() & ~missing, []
    for words, form in _WRONG.items():
        if wrong.any():  # never in a column of numbers
            found = wrong & cells.str.contains(form)
            problems += find(name, words, found.to_numpy(), rows)
            wrong &= ~found
    problems += find(name, "an empty cell", missing.to_numpy(), rows)
    values = np.array(numbers.fill_null(np.nan).to_numpy(), dtype=np.float64)
    infinite = np.isinf(values) | (np.isnan(values) & ~numbers.is_null().to_numpy())
    problems += find(name, "NaN or infinity", infinite, rows)
    values[infinite] = np.nan
    return values, problems


def dates_of(texts: pl.Series) -> tuple[pl.Series, bool]:
    """Return texts as dates, all in one form, null where there is none; and whether the day comes first.

    Read are dates such as 2020-12-31, and 31.12.2020, 31-12-2020 or 31/12/2020 where all texts are such, the
    last only if a day above 12 shows that the month does not come first. A time of midnight is left out.
    """
    texts = texts.str.replace(_MIDNIGHT, "")
    dated = texts.set(~texts.str.contains(_YEAR), None)  # 31.12.20 is of no century
    for form in ("%d.%m.%Y", "%d-%m-%Y", "%d/%m/%Y"):
        found = dated.str.to_date(form, strict=False)
        is_whole = found.null_count() == texts.null_count() < len(texts)
        if is_whole and texts.str.to_date("%m/%d/%Y", strict=False).null_count() > texts.null_count():
            return found, True
    return dated.str.to_date("%Y-%m-%d", strict=False), False


def number_column(table: pl.DataFrame, name: str, source: str | os.PathLike[str]) -> FloatArray:
    """Return a column as float64, refusing missing values and text; NaN and infinities pass."""
    column = table.get_column(name)
    if column.dtype.is_numeric() and column.null_count() == 0:
        return cast(FloatArray, np.ascontiguousarray(column.cast(pl.Float64).to_numpy(), dtype=np.float64))
    values, problems = numbers_of(table, name)
    refuse(table, source, problems)
    return values


def _numbering(table: pl.DataFrame, source: str | os.PathLike[str]) -> tuple[str, int]:
    """Return the word for a row's place, and what to add to its position."""
    kind = Path(source).suffix.lower()
    if kind in (".parquet", ".xlsx"):
        return "row", 1 if kind == ".parquet" else 2
    # Cells with line breaks in them: lines cannot be counted, rows can.
    texts = table.select(pl.col(pl.String))
    several = any(bool(column.str.contains("\n", literal=True).any()) for column in texts)
    return ("row", 1) if several else ("line", 2)
