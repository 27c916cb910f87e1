"""How well a released model does on public records: error rate or R squared, against a constant guess."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.campaign.rules.columns import OUTCOME, Field
from dpmarket.campaign.rules.prediction import read_features
from dpmarket.campaign.rules.released import ModelFile
from dpmarket.campaign.rules.rules_file import Target
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import refuse

CONFIDENCE = 0.95
_MOST_GROUPS = 20


@dataclass(frozen=True)
class GroupScore:
    """How often a model is wrong on one group of public test data; values as in :class:`Score`."""

    name: str
    records: int
    wrong: int
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """How often a classifier is wrong on public test data."""

    data: str
    records: int
    wrong: int
    error: float
    low: float  # ends of the exact (Clopper-Pearson) interval for the true error rate
    high: float
    confidence: float
    guessing: float  # the error of always saying the commonest label
    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]  # of each label, how many records are taken for which
    by: str = ""  # the column whose values the groups are
    groups: tuple[GroupScore, ...] = ()
    kind: str = "classes"

    @property
    def is_better_than_guessing(self) -> bool:
        """Whether the test data shows it, with the interval's confidence."""
        return self.high < self.guessing


@dataclass(frozen=True)
class NumberScore:
    """How well a regression predicts on public test data; errors are in the target's units."""

    data: str
    records: int
    r_squared: float  # share of the spread that is explained: 0 is no better than the mean
    error: float  # mean absolute
    guessing: float  # the same, of always predicting the median
    by: str = ""  # the column whose values the groups are
    groups: tuple[tuple[str, int, float], ...] = ()  # name, records and error
    kind: str = "number"

    @property
    def is_better_than_guessing(self) -> bool:
        """Whether the model explains anything of the spread."""
        return self.r_squared > 0.0


def score_file(
    model: ModelFile, source: str | os.PathLike[str], groups: str | None = None
) -> Score | NumberScore:
    """Score a model on a file of public records; ``groups`` is a column with at most 20 values."""
    predicts = model.predicts
    wanted = (predicts.column, *([] if groups is None else [groups]))
    table, features, _ = read_features(model, source, wanted)
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise FileProblem(f"cannot use {source}: expected the column {missing[0]!r} for the score.")
    if isinstance(predicts, Target):
        field = Field(OUTCOME, predicts.column, "number", predicts.low, predicts.high, outside="take")
    else:
        levels = tuple(predicts.values)
        field = Field(OUTCOME, predicts.column, "choice", 0.0, len(levels) - 1.0, levels)
    truth, problems = field.read(table, np.arange(table.height))
    refuse(table, source, problems)
    if table.height == 0:
        raise FileProblem(f"cannot use {source}: it has no records.")
    name, by = os.path.basename(os.fspath(source)), groups or ""
    places = {} if groups is None else _places(table.get_column(groups))
    if isinstance(predicts, Target):
        return score_numbers(name, model.numbers(features), truth, by, places)
    predicted = model.probabilities(features).argmax(axis=1)
    return score_labels(name, model.labels, predicted, truth.astype(np.int64), by, places)


def _places(column: pl.Series) -> dict[str, BoolArray]:
    """Return which records are in each group that a column names."""
    texts = column.cast(pl.String).fill_null("(none)")
    names = sorted(texts.unique().to_list())
    if len(names) > _MOST_GROUPS:
        raise InvalidInput(
            f"expected at most {_MOST_GROUPS} groups in the column {column.name!r}, got {len(names)}."
        )
    return {name: (texts == name).to_numpy() for name in names}


def score_labels(
    name: str, labels: Sequence[Any], predicted: IntArray, truth: IntArray, by: str = "",
    groups: Mapping[str, BoolArray] | None = None,
) -> Score:  # fmt: skip
    """Count a classifier's mistakes, by the numbers of labels."""
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    mistaken = predicted != truth
    return Score(
        name,
        *_error_rate(mistaken),
        confidence=CONFIDENCE,
        guessing=1.0 - float(confusion.sum(axis=1).max()) / truth.size,
        labels=tuple(map(str, labels)),
        confusion=tuple(map(tuple, confusion.tolist())),
        by=by,
        groups=tuple(GroupScore(one, *_error_rate(mistaken[own])) for one, own in (groups or {}).items()),
    )


def _error_rate(mistaken: BoolArray) -> tuple[int, int, float, float, float]:
    """Return how many records, how many mistakes, their rate, and the ends of its exact interval."""
    wrong, records = int(np.sum(mistaken)), int(mistaken.size)
    interval = stats.binomtest(wrong, records).proportion_ci(CONFIDENCE, method="exact")
    return records, wrong, wrong / records, float(interval.low), float(interval.high)


def score_numbers(
    name: str, predicted: FloatArray, truth: FloatArray, by: str = "",
    groups: Mapping[str, BoolArray] | None = None,
) -> NumberScore:  # fmt: skip
    """Compare a regression's predictions with the truth."""
    errors, spread = np.abs(predicted - truth), float(((truth - truth.mean()) ** 2).sum())
    return NumberScore(
        data=name,
        records=truth.size,
        r_squared=1.0 - float((errors**2).sum()) / spread if spread > 0.0 else 0.0,
        error=float(errors.mean()),
        guessing=float(np.abs(truth - np.median(truth)).mean()),
        by=by,
        groups=tuple((one, int(own.sum()), float(errors[own].mean())) for one, own in (groups or {}).items()),
    )
