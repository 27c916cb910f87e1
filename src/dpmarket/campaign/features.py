"""Turn what a market file declares about features into an encoder, and cells of a table into its values.

A market whose features are all plain numbers between two bounds is scaled as ever; as soon as one is a
category, a date, true or false, or may have gaps, all of them go through the public encoder. Files have texts
where programs have values: categories are compared as the text that stands in the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.market_file import Market, label_of
from dpmarket.errors import FileProblem
from dpmarket.files import ColumnProblem, find, numbers_of, read_table
from dpmarket.learning.columns import Categories, Column, Dates, Numbers, YesNo, column_from

if TYPE_CHECKING:
    from dpmarket.learning import PublicEncoder
    from dpmarket.privacy import Loss, NoiseNorm

TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")
_OUTSIDE = {
    Numbers: "a value outside the public bounds",
    Dates: "a date outside the public bounds",
    Categories: "none of the public categories",
}


@dataclass(frozen=True, eq=False)
class Cells:
    """The features of some rows, as an encoder takes them. Private.

    Attributes
    ----------
    values
        Per feature a list of values, None for gaps.
    problems
        What cannot be used.
    clipped
        Counts, per feature, values outside of what is declared.
    """

    values: dict[str, list[Any]]
    problems: list[ColumnProblem]
    clipped: dict[str, int]


def is_plain(market: Market) -> bool:
    """Whether all features are numbers between two bounds, without gaps: no encoder is needed."""
    return all(set(part.declared()) == {"low", "high"} for part in market.features.values())


def plain_bounds(market: Market) -> list[tuple[str, float, float]]:
    """Return name, low and high of every feature of a plain market."""
    return [(name, float(part.low or 0.0), float(part.high or 0.0)) for name, part in market.features.items()]


def columns_of_market(market: Market) -> dict[str, Column]:
    """Return what is declared about each feature, with categories as texts."""
    return {name: _as_text(column_from(name, part.declared())) for name, part in market.features.items()}


def encoder_of(market: Market) -> PublicEncoder:
    """Return the encoder of a market's features."""
    from dpmarket.learning import PublicEncoder  # takes scikit-learn along, which most commands do not need

    return PublicEncoder(
        columns_of_market(market), outside=market.training.outside_bounds, radius=market.training.radius
    )


def norm_of_market(market: Market) -> NoiseNorm:
    """Return the noise norm, the bounds on rows and the constant column of a market's model."""
    from dpmarket.privacy.noise_norm import NoiseNorm, suggested_constant

    if is_plain(market):
        return NoiseNorm.euclidean(len(market.features), suggested_constant([False] * len(market.features)))
    norm = encoder_of(market).noise_norm()
    return NoiseNorm(
        norm.separate, norm.euclidean_bound, suggested_constant(norm.separate, norm.euclidean_bound)
    )


def loss_of_market(market: Market) -> Loss:
    """Return the loss of a market's model: logistic, or softmax for more than two labels."""
    from dpmarket.privacy import Softmax, logistic_loss

    classes = len(label_of(market).values)
    return logistic_loss() if classes == 2 else Softmax(classes)


def declared_by(
    sample: str | os.PathLike[str], left_out: Sequence[str] = (), most_categories: int = 50
) -> dict[str, dict[str, Any]]:
    """Return declarations for the columns of a public sample: a first version, to be read over.

    Parameters
    ----------
    sample
        .csv or .parquet with public records, none of them a seller's.
    left_out
        Columns that are no features, such as ids and labels.
    most_categories
        A column of texts with more levels than this keeps the most common ones; the rest are "other".

    Returns
    -------
    dict
        Plain data per column, as the market file has it, numbers rounded to four digits.

    Raises
    ------
    FileProblem
        The file cannot be read, or no column is left.
    """
    from dpmarket.learning.tables import declared_from

    table = read_table(sample)
    table = table.drop([name for name in left_out if name in table.columns])
    table = table.drop(
        [name for name in table.columns if table.get_column(name).null_count() == table.height]
    )
    if not table.columns:
        raise FileProblem(f"cannot use {sample}: expected a column that is no id and no label.")
    found = {}
    for name, column in declared_from(_with_dates(table), most_categories).items():
        plain = column.to_dict()
        found[name] = {
            key: _rounded(value) if isinstance(value, float) else value for key, value in plain.items()
        }
    return found


def _with_dates(table: pl.DataFrame) -> pl.DataFrame:
    """Turn columns of texts that are all dates into dates, and all true or false into truths."""
    changed = []
    for column in table.iter_columns():
        if column.dtype != pl.String:
            continue
        known = column.drop_nulls()
        dates = known.str.to_date("%Y-%m-%d", strict=False)
        if not dates.has_nulls():
            changed.append(column.str.to_date("%Y-%m-%d", strict=False))
        elif known.str.to_lowercase().is_in(["true", "false"]).all():
            changed.append(column.str.to_lowercase() == "true")
    return table.with_columns(changed)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def kinds_of(columns: Mapping[str, Column]) -> tuple[list[str], list[str]]:
    """Return which columns of a file are read as texts, and which as numbers."""
    numbers = [name for name, column in columns.items() if isinstance(column, Numbers)]
    return [name for name in columns if name not in numbers], numbers


def cells_of(
    columns: Mapping[str, Column], outside: str, table: pl.DataFrame, rows: IntArray | None = None
) -> Cells:
    """Read the features of some rows, and find all that is wrong with them.

    Parameters
    ----------
    columns
        What is declared, per feature.
    outside
        "clip" counts values outside, "refuse" makes a problem of them.
    table
        With these columns, read as :func:`kinds_of` says.
    rows
        Positions of the rows to look at; None: all.
    """
    places = np.arange(table.height) if rows is None else rows
    values: dict[str, list[Any]] = {}
    problems: list[ColumnProblem] = []
    clipped: dict[str, int] = {}
    for name, column in columns.items():
        found, gaps, beyond, more = _READERS[type(column)](column, name, table, places)
        values[name] = found
        problems += more
        if column.missing is None and not column.missing_category:
            problems += find(name, "an empty cell", gaps, places)
        if outside == "refuse":
            problems += find(name, _OUTSIDE.get(type(column), ""), beyond, places)
        elif beyond.any():
            clipped[name] = int(beyond.sum())
    return Cells(values, problems, clipped)


def _numbers(column: Numbers, name: str, table: pl.DataFrame, rows: IntArray) -> Any:
    cells = table.get_column(name).gather(rows)
    gaps = cells.is_null().to_numpy()
    if cells.dtype == pl.String:
        gaps = (cells.is_null() | (cells.str.strip_chars() == "")).fill_null(value=True).to_numpy()
    numbers: FloatArray = np.full(rows.size, np.nan)
    numbers[~gaps], problems = numbers_of(table, name, rows[~gaps])
    beyond = (numbers < column.low) | (numbers > column.high)
    missing = gaps | np.isnan(numbers)
    found = [None if gap else value for value, gap in zip(numbers.tolist(), missing, strict=True)]
    return found, gaps, beyond, problems


def _texts(name: str, table: pl.DataFrame, rows: IntArray) -> tuple[list[Any], BoolArray]:
    cells = table.get_column(name).gather(rows).str.strip_chars()
    gaps = (cells.is_null() | (cells == "")).fill_null(value=True).to_numpy()
    return [None if gap else text for text, gap in zip(cells.to_list(), gaps, strict=True)], gaps


def _categories(column: Categories, name: str, table: pl.DataFrame, rows: IntArray) -> Any:
    found, gaps = _texts(name, table, rows)
    known = set(column.categories)
    beyond = np.array([text is not None and text not in known for text in found], dtype=bool)
    return found, gaps, beyond & (not column.other), []


def _truths(column: YesNo, name: str, table: pl.DataFrame, rows: IntArray) -> Any:
    texts, gaps = _texts(name, table, rows)
    words = dict.fromkeys(TRUE, True) | dict.fromkeys(FALSE, False)
    found = [None if text is None else words.get(text.lower()) for text in texts]
    wrong = np.array([value is None for value in found], dtype=bool) & ~gaps
    problems = find(name, "neither true nor false (yes or no, 1 or 0)", wrong, rows)
    return found, gaps, np.zeros(rows.size, dtype=bool), problems


def _dates(column: Dates, name: str, table: pl.DataFrame, rows: IntArray) -> Any:
    texts, gaps = _texts(name, table, rows)
    dates = pl.Series(texts, dtype=pl.String).str.to_date("%Y-%m-%d", strict=False)
    wrong = dates.is_null().to_numpy() & ~gaps
    beyond = ((dates < column.first) | (dates > column.last)).fill_null(value=False).to_numpy()
    return dates.to_list(), gaps, beyond, find(name, "no date such as 2020-12-31", wrong, rows)


_READERS: dict[type[Any], Any] = {
    Numbers: _numbers,
    Categories: _categories,
    YesNo: _truths,
    Dates: _dates,
}


def _as_text(column: Column) -> Column:
    if not isinstance(column, Categories):
        return column
    missing = None if column.missing is None else str(column.missing)
    return Categories(
        tuple(str(value) for value in column.categories), column.other, missing, column.missing_category
    )
