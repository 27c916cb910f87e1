"""Predictions of a released model for the rows of a table."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.campaign.rules.columns import columns_by_type, feature_fields, read_codes, records_of
from dpmarket.campaign.rules.contradictions import probability_columns
from dpmarket.campaign.rules.released import ModelFile
from dpmarket.campaign.rules.rules_file import Target
from dpmarket.files import read_table, refuse, refuse_same, write_table

Source = str | os.PathLike[str]


@dataclass(frozen=True)
class Predictions:
    """Rows, for how many of them each label is likeliest or their mean, and how many values were clipped."""

    rows: int
    counts: tuple[int, ...]
    mean: float | None
    clipped: int


def read_features(
    model: ModelFile, source: Source, more: tuple[str, ...] = ()
) -> tuple[pl.DataFrame, dict[str, Any], int]:
    """Return a table with ``more`` texts if there, its features for the encoder, and how many lie outside."""
    fields = feature_fields(model.public_encoder.columns, model.outside_bounds)
    texts, numbers = columns_by_type(fields)
    extra = [name for name in dict.fromkeys(more) if name not in (*texts, *numbers)]
    is_number = isinstance(model.predicts, Target)
    figures = [*numbers, *(name for name in extra if is_number and name == model.predicts.column)]
    texts = [name for name in (*extra, *texts) if name not in figures]
    table = read_table(source, [*texts, *figures], texts, figures, if_there=extra)
    rows = np.arange(table.height)
    codes, problems = read_codes(fields, table, rows)
    refuse(table, source, problems)
    records = records_of(fields, codes, rows)
    return table, records.columns, sum(records.clipped.values())


def predict_file(
    model: ModelFile, data: Source, output: Source, *, interval: float | None = None, overwrite: bool = False
) -> Predictions:
    """Write a prediction for every row of a table; cells that are not as declared are refused.

    Of two labels the probability of the second one and the likelier label; of more a column for each,
    ``probability_LABEL``, and the likeliest; of a regression a number. Rows have their ids, or numbers from
    1. With ``interval``, a level such as 0.9, columns ``interval_low`` and ``interval_high`` have its ends.
    """
    refuse_same(output, data)
    table, features, clipped = read_features(model, data, (model.id_column,))
    columns: dict[str, Any] = {"row": np.arange(1, table.height + 1)}
    if model.id_column in table.columns:
        columns = {model.id_column: table.get_column(model.id_column)}
    counts: tuple[int, ...] = ()
    mean = None
    if model.labels:
        probabilities = model.probabilities(features)
        places = probabilities.argmax(axis=1)
        if len(model.labels) > 2:
            columns |= zip(probability_columns(model.labels), probabilities.T, strict=True)
        else:
            columns["probability"] = probabilities[:, 1]
        columns["prediction"] = [model.labels[place] for place in places.tolist()]
        counts = tuple(np.bincount(places, minlength=len(model.labels)).tolist())
    else:
        columns["prediction"] = numbers = model.numbers(features)
        mean = float(numbers.mean())
    if interval is not None:
        ends = model.interval(features, interval)
        for name, values in (("interval_low", ends.low), ("interval_high", ends.high)):
            if len(model.labels) > 2:
                columns |= zip([f"{name}_{label}" for label in model.labels], values.T, strict=True)
            else:
                columns[name] = values[:, 1] if model.labels else values
    write_table(output, pl.DataFrame(columns), overwrite=overwrite)
    return Predictions(table.height, counts, mean, clipped)
