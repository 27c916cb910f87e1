"""Turn a released model and public records into an error rate with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from dpmarket.arrays import BoolArray
from dpmarket.campaign import ModelFile
from dpmarket.datasets import PublicData
from dpmarket.errors import InvalidInput

CONFIDENCE = 0.95
_MOST_GROUPS = 20


class Groups(NamedTuple):
    """The column that public records are grouped by, and each record's group."""

    by: str
    names: Sequence[str]


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
    """How often a model is wrong on public test data.

    Attributes
    ----------
    data
        What the test data is called.
    records, wrong
        How many records, and how many of them the model gets wrong.
    error
        The share that is wrong.
    low, high
        The exact (Clopper-Pearson) interval that covers the true error rate with this confidence.
    confidence
        Probability that the interval covers it, at least.
    guessing
        The error of always saying the commonest label.
    labels, confusion
        The labels, and for each of them how many of its records the model takes for which label, in their
        order.
    by, groups
        The column that the test data was grouped by, and each group's error; empty if it was not.
    """

    data: str
    records: int
    wrong: int
    error: float
    low: float
    high: float
    confidence: float
    guessing: float
    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    by: str = ""
    groups: tuple[GroupScore, ...] = ()


def score_model(model: ModelFile, data: PublicData, groups: Groups | None = None) -> Score:
    """Count a model's mistakes on public records, with features as they stand in the file.

    Parameters
    ----------
    model
        A released model.
    data
        Public records with the model's features, in its order, none of which was trained on.
    groups
        Which group every record belongs to, to count the mistakes of each as well.

    Raises
    ------
    InvalidInput
        Records that are not public, or have other features or labels than the model; more than 20 groups.
    """
    if not isinstance(data, PublicData):
        raise InvalidInput(
            f"expected PublicData, got {type(data).__name__}: an error rate on private records is a release "
            "that no promise covers."
        )
    if data.n_features != len(model.features) or tuple(data.classes) != tuple(model.labels):
        raise InvalidInput("expected test data with the features and labels of the model.")
    labels = len(model.labels)
    told = model.likeliest(model.label_probabilities(data.features))
    truly = np.array([data.classes.index(label) for label in data.labels.tolist()])
    confusion = np.bincount(truly * labels + told, minlength=labels * labels).reshape(labels, labels)
    mistaken = told != truly
    every = _counted("", mistaken)
    return Score(
        data=data.name,
        records=every.records,
        wrong=every.wrong,
        error=every.error,
        low=every.low,
        high=every.high,
        confidence=CONFIDENCE,
        guessing=1.0 - float(confusion.sum(axis=1).max()) / every.records,
        labels=tuple(str(label) for label in model.labels),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        by="" if groups is None else groups.by,
        groups=() if groups is None else _by_group(mistaken, groups),
    )


def _by_group(mistaken: BoolArray, groups: Groups) -> tuple[GroupScore, ...]:
    names = sorted(set(groups.names))
    if len(groups.names) != mistaken.size or len(names) > _MOST_GROUPS:
        raise InvalidInput(
            f"expected one group for each record and at most {_MOST_GROUPS} different ones, got "
            f"{len(groups.names)} for {mistaken.size} records, {len(names)} different ones."
        )
    named = np.array(groups.names)
    return tuple(_counted(name, mistaken[named == name]) for name in names)


def _counted(name: str, mistaken: BoolArray) -> GroupScore:
    wrong, records = int(np.sum(mistaken)), int(mistaken.size)
    interval = stats.binomtest(wrong, records).proportion_ci(CONFIDENCE, method="exact")
    return GroupScore(name, records, wrong, wrong / records, float(interval.low), float(interval.high))
