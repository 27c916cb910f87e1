"""Read the records that a statistic is asked of, and refuse a file with all that is wrong with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.features import FALSE, TRUE
from dpmarket.campaign.market_file import Market, questions_of
from dpmarket.campaign.questions import Question
from dpmarket.campaign.records import owned_rows
from dpmarket.files import ColumnProblem, find, numbers_of, refuse


@dataclass(frozen=True, eq=False)
class StatisticRecords:
    """The records of who was promised something, one array for every statistic. Private.

    Attributes
    ----------
    owners
        Position of each row's owner among the people, shape (rows,).
    columns
        Per statistic what its ``fit`` takes, in the order of the rows.
    clipped
        Counts, per column, values outside their public bounds.
    """

    owners: IntArray
    columns: dict[str, Any]
    clipped: dict[str, int]


def read_statistic_records(
    market: Market, people: pl.DataFrame, promised: FloatArray, source: str | os.PathLike[str]
) -> StatisticRecords:
    """Read what a market asks about, of all who were promised something, or refuse with all that is wrong.

    Parameters
    ----------
    market
        A market that asks for statistics.
    people, promised, source
        As for :func:`~dpmarket.campaign.records.read_records`.

    Raises
    ------
    FileProblem
        ``details`` name lines and columns, never a value.
    """
    asked = questions_of(market)
    texts = dict.fromkeys(name for one in asked.values() if not one.has_numbers for name in one.names)
    numbers = dict.fromkeys(name for one in asked.values() if one.has_numbers for name in one.names)
    found = owned_rows(market, people, promised, source, list(texts), list(numbers))
    problems = list(found.problems)
    values: dict[str, FloatArray] = {}
    for name in numbers:
        values[name], more = numbers_of(found.table, name, found.rows)
        problems += more
    columns: dict[str, Any] = {}
    clipped: dict[str, int] = {}
    for name, question in asked.items():
        if question.has_numbers:
            columns[name] = _stacked(question, values)
            beyond = _outside(question, columns[name])
            column = question.names[0]
            if market.training.outside_bounds == "refuse":
                problems += find(column, "a value outside the public bounds", beyond, found.rows)
            elif beyond.any():
                clipped[" and ".join(question.names)] = int(beyond.sum())
        else:
            columns[name], more = _words(question, found.table, found.rows)
            problems += more
    refuse(found.table, source, problems)
    return StatisticRecords(found.owners, columns, clipped)


def _stacked(question: Question, values: dict[str, FloatArray]) -> FloatArray:
    if question.kind == "vector_mean":
        return np.column_stack([values[name] for name in question.names])
    return values[question.column]


def _outside(question: Question, values: FloatArray) -> Any:
    """Return which rows lie outside of what the statistic takes as it is."""
    if question.kind == "mean":
        assert question.low is not None
        assert question.high is not None
        return (values < question.low) | (values > question.high)
    if question.kind == "vector_mean":
        assert question.bound is not None
        return np.linalg.norm(values, axis=1) > question.bound * (1.0 + 2.0**-40)
    return np.zeros(len(values), dtype=bool)  # the outer bins and candidates hold what lies beyond


def _words(question: Question, table: pl.DataFrame, rows: IntArray) -> tuple[list[Any], list[ColumnProblem]]:
    """Return yes and no as truth values, or categories as texts, and what is neither."""
    cells = table.get_column(question.column).gather(rows).str.strip_chars()
    texts = [text or "" for text in cells.to_list()]
    if question.kind == "share":
        known: dict[str, Any] = dict.fromkeys(TRUE, True) | dict.fromkeys(FALSE, False)
        found = [known.get(text.lower()) for text in texts]
        words = "neither true nor false (yes or no, 1 or 0)"
    else:
        levels = {str(category) for category in question.categories or ()}
        found = [text if text in levels else None for text in texts]
        words = "none of the public categories"
    wrong = np.array([value is None for value in found], dtype=bool)
    return found, find(question.column, words, wrong, rows)
