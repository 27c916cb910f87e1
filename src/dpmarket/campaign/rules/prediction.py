"""Predictions of a released model for the rows of a table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.campaign.rules.columns import (
    feature_fields,
    number_columns,
    records_of,
    text_columns,
)
from dpmarket.campaign.rules.contradictions import probability_columns
from dpmarket.campaign.rules.released import ModelFile
from dpmarket.files import ColumnProblem, read_table, refuse, refuse_same, write_table


@dataclass(frozen=True)
class Predictions:
    """How many rows were predicted, how many got which label, and how many values were clipped.

    Attributes
    ----------
    rows
        Rows of the table.
    counts
        For every label of a classifier how many rows it is likeliest for; empty for a regression.
    mean
        Of a regression's predictions; None for a classifier.
    clipped
        Values outside of what is declared, over all features.
    """

    rows: int
    counts: tuple[int, ...]
    mean: float | None
    clipped: int


def read_features(
    model: ModelFile, source: str | os.PathLike[str], more: tuple[str, ...] = ()
) -> tuple[pl.DataFrame, dict[str, Any], int]:
    """Return a table, its features as the model's encoder takes them, and how many values are outside.

    ``more`` are columns that are read as texts if they are there, such as ids and labels.
    """
    fields = feature_fields(model.public_encoder.columns, model.outside_bounds)
    texts, numbers = text_columns(fields), number_columns(fields)
    extra = [name for name in dict.fromkeys(more) if name not in (*texts, *numbers)]
    table = read_table(source, [*extra, *texts, *numbers], [*extra, *texts], numbers, if_there=extra)
    rows = np.arange(table.height)
    codes = np.empty((rows.size, len(fields)))
    problems: list[ColumnProblem] = []
    for place, field in enumerate(fields):
        codes[:, place], found = field.read(table, rows)
        problems += found
    refuse(table, source, problems)
    records = records_of(fields, codes, rows)
    return table, records.columns, sum(records.clipped.values())


def predict_file(
    model: ModelFile,
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> Predictions:
    """Write a prediction for every row of a table.

    Of two labels the probability of the second one and the likelier label; of more a column for each,
    ``probability_LABEL``, and the likeliest; of a regression a number. The id column comes along if the table
    has it; otherwise rows are numbered from 1.

    Parameters
    ----------
    model
        What :func:`~dpmarket.campaign.rules.released.read_model` gave.
    data
        .csv or .parquet with a column for every feature of the model.
    output
        .csv or .parquet.
    overwrite
        Whether an existing output may be replaced.

    Raises
    ------
    FileProblem
        A column is missing, or cells are not what is declared; by line and column, never by value.
    """
    refuse_same(output, data)
    table, features, clipped = read_features(model, data, (model.id_column,))
    first: dict[str, Any] = {"row": np.arange(1, table.height + 1)}
    if model.id_column in table.columns:
        first = {model.id_column: table.get_column(model.id_column)}
    if not model.labels:
        numbers = model.numbers(features)
        write_table(output, pl.DataFrame({**first, "prediction": numbers}), overwrite=overwrite)
        return Predictions(table.height, (), float(numbers.mean()) if numbers.size else 0.0, clipped)
    probabilities = model.probabilities(features)
    places = model.likeliest(probabilities)
    columns = {"probability": probabilities[:, 1]}
    if len(model.labels) > 2:
        columns = dict(zip(probability_columns(model.labels), probabilities.T, strict=True))
    labels = [model.labels[place] for place in places.tolist()]
    write_table(output, pl.DataFrame({**first, **columns, "prediction": labels}), overwrite=overwrite)
    counts = np.bincount(places, minlength=len(model.labels))
    return Predictions(table.height, tuple(counts.tolist()), None, clipped)
