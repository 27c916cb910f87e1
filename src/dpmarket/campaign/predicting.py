"""Turn a model file and a table of features into predictions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.campaign.contradictions import probability_columns
from dpmarket.campaign.features import cells_of, kinds_of
from dpmarket.campaign.model_file import ModelFile
from dpmarket.files import find, numbers_of, read_table, refuse, refuse_same, write_table
from dpmarket.learning.columns import column_from


@dataclass(frozen=True)
class Predictions:
    """How many rows were predicted, how many got which label, and how many values were clipped.

    Attributes
    ----------
    rows
        Rows of the table.
    counts
        For every label of the model how many rows it is likeliest for.
    clipped
        Values outside their public bounds, over all features.
    """

    rows: int
    counts: tuple[int, ...]
    clipped: int

    @property
    def positive(self) -> int:
        """How many rows got the second label."""
        return self.counts[1]


def predict_file(
    model: ModelFile,
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> Predictions:
    """Write, for every row of a table, the probability of the second label and the likelier label.

    With more than two labels a column for each, ``probability_LABEL``, and the likeliest.

    The id column comes along if the table has it; otherwise rows are numbered from 1. Features outside their
    public bounds are clipped, as in training, or refused if the model's market refuses them.

    Parameters
    ----------
    model
        What :func:`~dpmarket.campaign.model_file.read_model` gave.
    data
        .csv or .parquet with a column for every feature of the model.
    output
        .csv or .parquet: id or row, probability (or several), prediction.
    overwrite
        Whether an existing output may be replaced.

    Raises
    ------
    FileProblem
        A column is missing, or cells hold no numbers; by line and column, never by value.
    """
    refuse_same(output, data)
    read = _scaled_features if model.encoder is None else _encoded_features
    table, values, clipped = read(model, data)
    probabilities = model.label_probabilities(values)
    places = model.likeliest(probabilities)
    labels = [model.labels[place] for place in places.tolist()]
    first: dict[str, Any] = {"row": np.arange(1, table.height + 1)}
    if model.id_column in table.columns:
        first = {model.id_column: table.get_column(model.id_column)}
    predicted = pl.DataFrame({**first, **_columns(model, probabilities), "prediction": labels})
    write_table(output, predicted, overwrite=overwrite)
    counts = np.bincount(places, minlength=len(model.labels))
    return Predictions(table.height, tuple(counts.tolist()), clipped)


def _columns(model: ModelFile, probabilities: FloatArray) -> dict[str, FloatArray]:
    """Return the columns of probabilities: the second of two labels', or one for every label."""
    if not model.has_many_labels:
        return {"probability": probabilities[:, 1]}
    names = probability_columns(model.labels)
    return dict(zip(names, probabilities.T, strict=True))


def _scaled_features(model: ModelFile, data: str | os.PathLike[str]) -> tuple[pl.DataFrame, FloatArray, int]:
    """Return the table, its features, and how many of their values lie outside their bounds."""
    names = [feature.name for feature in model.features]
    wanted = [model.id_column, *names]
    table = read_table(data, wanted, [model.id_column], names, if_there=[model.id_column])
    values = np.empty((table.height, len(names)))
    problems = []
    clipped = 0
    for position, feature in enumerate(model.features):
        values[:, position], more = numbers_of(table, feature.name)
        problems += more
        outside = (values[:, position] < feature.low) | (values[:, position] > feature.high)
        clipped += int(outside.sum())
        if model.outside_bounds == "refuse":
            problems += find(feature.name, "a value outside the public bounds", outside)
    refuse(table, data, problems)
    return table, values, clipped


def _encoded_features(
    model: ModelFile, data: str | os.PathLike[str]
) -> tuple[pl.DataFrame, dict[str, list[Any]], int]:
    """Return the table, what its encoder takes, and how many values lie outside what is declared."""
    encoder = model.public_encoder()
    columns = {name: column_from(name, declared) for name, declared in encoder.columns.items()}
    texts, numbers = kinds_of(columns)
    wanted = [model.id_column, *columns]
    table = read_table(data, wanted, [model.id_column, *texts], numbers, if_there=[model.id_column])
    cells = cells_of(columns, model.outside_bounds, table)
    refuse(table, data, cells.problems)
    return table, cells.values, sum(cells.clipped.values())
