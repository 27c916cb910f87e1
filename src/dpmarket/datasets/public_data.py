"""Public records, as values that say so by their type, and public bounds from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput

SPREAD = 2.0  # standard deviations on either side; benchmarks/penalty.py compares others


@dataclass(frozen=True, eq=False)
class PublicData:
    """Records that are public, with the public bounds of their features.

    Parameters
    ----------
    features, feature_names
        Shape (records, features), finite; what each column is called, empty for nameless columns.
    labels, classes
        A label per record, and all labels, at least two; of two, the negative class first.
    low, high
        Public bounds of every feature in its own unit, low < high: records may lie outside.
    name, source
        What the set is called, and where it is from, so that another person can get it.

    Examples
    --------
    >>> data = PublicData([[0.5], [2.0]], [0, 1], (0, 1), low=0.0, high=2.0, name="two", source="made up")
    >>> len(data), data.n_features
    (2, 1)
    """

    features: FloatArray
    labels: np.ndarray[Any, Any]
    classes: tuple[Any, ...]
    low: FloatArray
    high: FloatArray
    name: str
    source: str
    feature_names: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        features = checks.finite_numbers("features", self.features).copy()
        if features.ndim != 2 or 0 in features.shape:
            raise InvalidInput(
                f"expected features of shape (records, features), none of them 0, got {features.shape}."
            )
        records, columns = features.shape
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise InvalidInput("expected two or more different classes, of two the negative one first.")
        object.__setattr__(self, "classes", tuple(self.classes))
        labels = np.array(self.labels)
        if labels.shape != (records,) or not bool(np.isin(labels, np.asarray(self.classes)).all()):
            raise InvalidInput(f"expected labels of {records} records, each one of classes.")
        object.__setattr__(self, "labels", read_only(labels))
        object.__setattr__(self, "features", read_only(features))
        for name in ("low", "high"):
            bound = checks.finite_numbers(name, getattr(self, name))
            if bound.shape not in ((), (columns,)):
                raise InvalidInput(f"expected {name} of {columns} features, got shape {bound.shape}.")
            object.__setattr__(self, name, read_only(np.broadcast_to(bound, (columns,)).copy()))
        if not bool((self.low < self.high).all()):
            raise InvalidInput("expected low < high for every feature.")
        if self.feature_names and len(self.feature_names) != columns:
            raise InvalidInput(f"expected {columns} feature_names, got {len(self.feature_names)}.")

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])

    @property
    def signs(self) -> FloatArray:
        """Labels of two classes as -1 and +1, as the paper writes them."""
        if len(self.classes) != 2:
            raise InvalidInput(f"expected records of two classes, got {len(self.classes)} classes.")
        return np.where(self.labels == self.classes[1], 1.0, -1.0)

    def take(self, records: IntArray) -> PublicData:
        """Return the records with these positions, in this order."""
        return replace(self, features=self.features[records], labels=self.labels[records])

    def split(self, share: float, rng: np.random.Generator) -> tuple[PublicData, PublicData]:
        """Return two parts at random, the first with about ``share`` of every class; neither may be empty."""
        share = checks.strictly_between("share", share, 0.0, 1.0)
        chosen = np.zeros(len(self), dtype=np.bool_)
        for label in self.classes:
            members = np.flatnonzero(self.labels == label)
            chosen[members[rng.permutation(members.size)[: round(share * members.size)]]] = True
        if not chosen.any() or chosen.all():
            raise InvalidInput(f"expected a share that leaves records on both sides of {len(self)}.")
        return self.take(np.flatnonzero(chosen)), self.take(np.flatnonzero(~chosen))


def standard_bounds(pilot: PublicData) -> tuple[FloatArray, FloatArray]:
    """Return mean -+ two standard deviations of every feature of a public pilot.

    Scaling with these bounds centres features and gives them a common spread, which makes better use of a
    row's length than the range from the smallest to the largest value does.

    Parameters
    ----------
    pilot
        Public records, none of which is trained on privately. A few hundred do.

    Returns
    -------
    low, high
        Shape (features,). A feature that is constant in the pilot gets bounds around that constant, so wide
        that a category which is absent from the pilot is mapped to 0, not to the edge.

    Examples
    --------
    >>> pilot = PublicData([[0.0], [2.0]], [0, 1], (0, 1), low=0.0, high=9.0, name="two", source="made up")
    >>> low, high = standard_bounds(pilot)
    >>> low.tolist(), high.tolist()
    ([-1.0], [3.0])
    """
    if not isinstance(pilot, PublicData):
        raise InvalidInput(f"expected PublicData, got {type(pilot).__name__}: bounds read from records leak.")
    centre, spreads = pilot.features.mean(axis=0), pilot.features.std(axis=0)
    reach = SPREAD * spreads
    usable = (centre - reach < centre + reach) & np.isfinite(2.0 * reach)
    declared = np.maximum(np.abs(pilot.high - centre), np.abs(centre - pilot.low))
    reach = np.where(usable, reach, declared)
    return read_only(centre - reach), read_only(centre + reach)
