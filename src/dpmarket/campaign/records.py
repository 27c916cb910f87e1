"""Read the records of who sold, and refuse a file with all that is wrong with it, never with a value."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.features import (
    cells_of,
    columns_of_market,
    encoder_of,
    is_plain,
    kinds_of,
    plain_bounds,
)
from dpmarket.campaign.ids import id_problems, tidy_ids
from dpmarket.campaign.market_file import Market, label_of
from dpmarket.campaign.quotes import Quotes
from dpmarket.files import ColumnProblem, find, numbers_of, positions_in, read_table, refuse
from dpmarket.ledger.rounds import SELLER


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of who was promised something. Private.

    Attributes
    ----------
    owners
        Position of each row's owner among the people, shape (rows,).
    features, labels
        Numbers, shape (rows, features), or encoded rows, and the number of each row's label, from 0.
    clipped
        Counts, per feature, values outside their public bounds.
    """

    owners: IntArray
    features: Any
    labels: IntArray
    clipped: dict[str, int]


def read_records(
    market: Market, people: pl.DataFrame, promised: FloatArray, source: str | os.PathLike[str]
) -> Records:
    """Read the rows of everybody who was promised something, or refuse with all that is wrong.

    Parameters
    ----------
    market
        Which columns, bounds and labels to expect.
    people
        Everybody who was quoted, column seller.
    promised
        What they were promised, 0 for who withdrew, in the same order.
    source
        .csv or .parquet.

    Raises
    ------
    FileProblem
        ``details`` name lines and columns.
    """
    label = label_of(market)
    names = list(market.features)
    others, numbers = ([], names) if is_plain(market) else kinds_of(columns_of_market(market))
    found = owned_rows(market, people, promised, source, [label.column, *others], numbers)
    table, rows = found.table, found.rows
    read = _features if is_plain(market) else _encoded
    features, more, clipped = read(market, table, rows)
    labels, wrong = label_numbers(label.values, table, label.column, rows)
    refuse(table, source, [*found.problems, *more, *wrong])
    return Records(found.owners, features(), labels, clipped)


@dataclass(frozen=True, eq=False)
class OwnedRows:
    """A table, and which rows of it are whose. Private.

    Attributes
    ----------
    table
        As read.
    rows, owners
        Positions of the rows of who was promised something, and of their owners among the people.
    problems
        What is wrong with ids.
    """

    table: pl.DataFrame
    rows: IntArray
    owners: IntArray
    problems: list[ColumnProblem]


def owned_rows(
    market: Market,
    people: pl.DataFrame,
    promised: FloatArray,
    source: str | os.PathLike[str],
    texts: Sequence[str],
    numbers: Sequence[str],
) -> OwnedRows:
    """Read a file of records, and find the rows of everybody who was promised something.

    Parameters
    ----------
    market, people, promised, source
        As for :func:`read_records`.
    texts, numbers
        The columns that are read, beside the ids, as texts and as numbers.
    """
    id_column = market.sellers.id_column
    written = read_table(source, [id_column, *texts, *numbers], [id_column, *texts], numbers)
    table = tidy_ids(written, id_column)
    owners = positions_in(table, id_column, people, SELLER)
    problems = id_problems(table, id_column, market.sellers.rows_per_person)
    strangers = (owners < 0) & (table.get_column(id_column).fill_null("") != "").to_numpy()
    problems += find(id_column, "a seller without a quote", strangers)
    rows = np.flatnonzero((owners >= 0) & (promised[owners] > 0.0))
    return OwnedRows(table, rows, owners[rows], problems)


def label_numbers(
    values: Sequence[str] | Sequence[int], table: pl.DataFrame, column: str, rows: IntArray
) -> tuple[IntArray, list[ColumnProblem]]:
    """Return the number of each row's label, from 0, and rows that have none of the labels.

    Parameters
    ----------
    values
        The labels, all texts or all whole numbers.
    table
        With their column, read as text.
    column
        Its name.
    rows
        Positions of the rows to look at.
    """
    if isinstance(values[0], int):
        numbers, _ = numbers_of(table, column, rows)
        matches = [numbers == value for value in values]
    else:
        texts = table.get_column(column).gather(rows)
        matches = [(texts == value).fill_null(value=False).to_numpy() for value in values]
    places = np.full(rows.size, -1, dtype=np.int64)
    for number, here in enumerate(matches):
        places[here] = number
    words = "neither of the two labels" if len(values) == 2 else "none of the labels"
    return places, find(column, words, places < 0, rows)


def refuse_absent(
    market: Market,
    people: pl.DataFrame,
    promised: FloatArray,
    owners: IntArray,
    quotes: Sequence[tuple[Quotes, str | os.PathLike[str]]],
) -> None:
    """Refuse data that lack the row of somebody who was promised something, by their line in the quotes.

    Raises
    ------
    FileProblem
        Tells lines and what to do.
    """
    absent = promised > 0.0
    absent[owners] = False
    if not absent.any():
        return
    missing = people.filter(absent)
    words = (
        "a seller who has no row in the data (add it, or let them withdraw: dpmarket withdraw --absent-from)"
    )
    for quoted, source in quotes:
        rows = positions_in(quoted.table, SELLER, missing, SELLER) >= 0
        refuse(quoted.table, source, find(market.sellers.id_column, words, rows & (quoted.epsilons > 0.0)))


def _encoded(
    market: Market, table: pl.DataFrame, rows: IntArray
) -> tuple[Callable[[], Any], list[ColumnProblem], dict[str, int]]:
    """Return what encodes the rows once nothing is wrong, what is wrong, and what lies outside."""
    cells = cells_of(columns_of_market(market), market.training.outside_bounds, table, rows)
    return lambda: encoder_of(market).fit_transform(cells.values), cells.problems, cells.clipped


def _features(
    market: Market, table: pl.DataFrame, rows: IntArray
) -> tuple[Callable[[], FloatArray], list[ColumnProblem], dict[str, int]]:
    values = np.empty((rows.size, len(market.features)))
    problems: list[ColumnProblem] = []
    clipped = {}
    for position, (name, low, high) in enumerate(plain_bounds(market)):
        values[:, position], more = numbers_of(table, name, rows)
        problems += more
        outside = (values[:, position] < low) | (values[:, position] > high)
        if market.training.outside_bounds == "refuse":
            problems += find(name, "a value outside the public bounds", outside, rows)
        elif outside.any():
            clipped[name] = int(outside.sum())
    return lambda: values, problems, clipped
