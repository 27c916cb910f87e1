"""Turn records that everybody may see into a value that says so by its type.

Tuning a setting or scoring a model on private records is a release that no promise covers. Functions that do
so take :class:`PublicData` and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class PublicData:
    """Records that are public, with the public bounds of their features.

    Parameters
    ----------
    features
        Shape (records, features), finite.
    labels
        One of ``classes`` per record.
    classes
        The labels, at least two; of two, the negative class first.
    low, high
        Public bounds of every feature in its own unit, low < high. Records may lie outside: bounds are what
        is declared about a feature, and scaling limits to them.
    name
        What the set is called.
    source
        Where it is from, so that another person can get it.
    people
        Whose record each one is, or None for one person per record.
    feature_names
        What each column is called; empty for nameless columns.

    Examples
    --------
    >>> data = PublicData([[0.5], [2.0]], [0, 1], classes=(0, 1), low=[0.0], high=[2.0],
    ...                   name="two", source="made up")
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
    people: np.ndarray[Any, Any] | None = None
    feature_names: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        features = checks.finite_numbers("features", self.features).copy()
        if features.ndim != 2 or 0 in features.shape:
            raise InvalidInput(
                f"expected features of shape (records, features), none of them 0, got {features.shape}."
            )
        records, columns = features.shape
        labels = np.array(self.labels)
        if labels.shape != (records,):
            raise InvalidInput(f"expected one label per record ({records}), got shape {labels.shape}.")
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise InvalidInput("expected two or more different classes, of two the negative one first.")
        if not bool(np.isin(labels, np.asarray(self.classes)).all()):
            raise InvalidInput("expected every label to be one of classes.")
        low, high = (self._bound(name, columns) for name in ("low", "high"))
        if not bool((low < high).all()):
            raise InvalidInput("expected low < high for every feature.")
        people = None if self.people is None else np.array(self.people)
        if people is not None and people.shape != (records,):
            raise InvalidInput(f"expected one person per record ({records}), got shape {people.shape}.")
        if self.feature_names and len(self.feature_names) != columns:
            raise InvalidInput(f"expected {columns} feature_names, got {len(self.feature_names)}.")
        for name, value in (("features", features), ("labels", labels), ("low", low), ("high", high)):
            object.__setattr__(self, name, read_only(value))
        object.__setattr__(self, "people", None if people is None else read_only(people))
        object.__setattr__(self, "classes", tuple(self.classes))

    def _bound(self, name: str, columns: int) -> FloatArray:
        bound = checks.finite_numbers(name, getattr(self, name))
        if bound.shape not in ((), (columns,)):
            raise InvalidInput(
                f"expected {name} to be one number per feature ({columns}), got {bound.shape}."
            )
        return np.broadcast_to(bound, (columns,)).copy()

    def __len__(self) -> int:
        return len(self.features)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.features.shape[1])

    @property
    def n_people(self) -> int:
        """Number of different people."""
        return len(self) if self.people is None else len(np.unique(self.people))

    @property
    def signs(self) -> FloatArray:
        """Labels as -1 and +1, as the paper writes them.

        Raises
        ------
        InvalidInput
            There are more than two classes.
        """
        if len(self.classes) != 2:
            raise InvalidInput(f"expected records of two classes, got {len(self.classes)} classes.")
        return np.where(self.labels == self.classes[1], 1.0, -1.0)

    def take(self, records: IntArray) -> PublicData:
        """Return the records with these positions, in this order."""
        return replace(
            self,
            features=self.features[records],
            labels=self.labels[records],
            people=None if self.people is None else self.people[records],
        )

    def with_bounds(self, low: ArrayLike, high: ArrayLike) -> PublicData:
        """Return the same records with other public bounds."""
        return replace(self, low=np.asarray(low), high=np.asarray(high))

    def split(self, share: float, rng: np.random.Generator) -> tuple[PublicData, PublicData]:
        """Return two parts at random, the first with about ``share`` of the people.

        All records of one person go into the same part, and both classes into both parts in about the same
        proportion where every person has one record.

        Parameters
        ----------
        share
            Share of the first part, strictly between 0 and 1.
        rng
            Source of randomness.

        Raises
        ------
        InvalidInput
            If a part would be empty.
        """
        share = checks.strictly_between("share", share, 0.0, 1.0)
        if self.people is None:
            chosen = np.zeros(len(self), dtype=bool)
            for label in self.classes:
                members = rng.permutation(np.flatnonzero(self.labels == label))
                chosen[members[: round(share * members.size)]] = True
        else:
            names, owner = np.unique(self.people, return_inverse=True)
            picked = np.zeros(names.size, dtype=bool)
            picked[rng.permutation(names.size)[: round(share * names.size)]] = True
            chosen = picked[owner]
        if not chosen.any() or chosen.all():
            raise InvalidInput(f"expected a share that leaves records on both sides of {len(self)}.")
        return self.take(np.flatnonzero(chosen)), self.take(np.flatnonzero(~chosen))
