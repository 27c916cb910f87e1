"""Turn a released model and public records into an error rate with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpmarket.campaign import ModelFile
from dpmarket.datasets import PublicData
from dpmarket.errors import InvalidInput

CONFIDENCE = 0.95


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


def score_model(model: ModelFile, data: PublicData) -> Score:
    """Count a model's mistakes on public records, with features as they stand in the file.

    Parameters
    ----------
    model
        A released model.
    data
        Public records with the model's features, in its order, none of which was trained on.

    Raises
    ------
    InvalidInput
        Records that are not public, or have other features or labels than the model.
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
    wrong, records = int(np.sum(told != truly)), len(data)
    interval = stats.binomtest(wrong, records).proportion_ci(CONFIDENCE, method="exact")
    return Score(
        data=data.name,
        records=records,
        wrong=wrong,
        error=wrong / records,
        low=float(interval.low),
        high=float(interval.high),
        confidence=CONFIDENCE,
        guessing=1.0 - float(confusion.sum(axis=1).max()) / records,
        labels=tuple(str(label) for label in model.labels),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )
