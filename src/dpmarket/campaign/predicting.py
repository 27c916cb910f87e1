"""Turn a model file and a table of features into predictions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.campaign.model_file import ModelFile
from dpmarket.files import find, numbers_of, read_table, refuse, refuse_same, write_table


@dataclass(frozen=True)
class Predictions:
    """How many rows were predicted, how many got the second label, and how many values were clipped.

    Attributes
    ----------
    rows, positive
        Rows of the table, and those whose likelier label is the second one.
    clipped
        Values outside their public bounds, over all features.
    """

    rows: int
    positive: int
    clipped: int


def predict_file(
    model: ModelFile,
    data: str | os.PathLike[str],
    output: str | os.PathLike[str],
    overwrite: bool = False,
) -> Predictions:
    """Write, for every row of a table, the probability of the second label and the likelier label.

    The id column comes along if the table has it; otherwise rows are numbered from 1. Features outside their
    public bounds are clipped, as in training, or refused if the model's market refuses them.

    Parameters
    ----------
    model
        What :func:`~dpmarket.campaign.model_file.read_model` gave.
    data
        .csv or .parquet with a column for every feature of the model.
    output
        .csv or .parquet: id or row, probability, prediction.
    overwrite
        Whether an existing output may be replaced.

    Raises
    ------
    FileProblem
        A column is missing, or cells hold no numbers; by line and column, never by value.
    """
    refuse_same(output, data)
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
    probabilities = model.probabilities(values)
    positive = probabilities > 0.5
    labels = [model.labels[int(second)] for second in positive]
    first: dict[str, Any] = {"row": np.arange(1, table.height + 1)}
    if model.id_column in table.columns:
        first = {model.id_column: table.get_column(model.id_column)}
    predicted = pl.DataFrame({**first, "probability": probabilities, "prediction": labels})
    write_table(output, predicted, overwrite=overwrite)
    return Predictions(table.height, int(positive.sum()), clipped)
