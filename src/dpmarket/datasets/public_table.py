"""Turn records with text columns and gaps that everybody may see into a value that says so by its type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class PublicTable:
    """Records that are public, as a table: numbers, texts and gaps.

    Parameters
    ----------
    frame
        One row per record; a column of texts is a category.
    labels
        One of ``classes`` per record.
    classes
        The two labels, negative class first.
    name
        What the set is called.
    source
        Where it is from, so that another person can get it.
    people
        Whose record each one is, or None for one person per record.

    Examples
    --------
    >>> table = PublicTable(pl.DataFrame({"job": ["baker", None]}), ["no", "yes"], classes=("no", "yes"),
    ...                     name="two", source="made up")
    >>> len(table), table.signs.tolist()
    (2, [-1.0, 1.0])
    """

    frame: pl.DataFrame
    labels: np.ndarray[Any, Any]
    classes: tuple[Any, Any]
    name: str
    source: str
    people: np.ndarray[Any, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.frame, pl.DataFrame) or 0 in self.frame.shape:
            raise InvalidInput("expected a polars frame with records and columns.")
        labels = np.array(self.labels)
        if labels.shape != (self.frame.height,):
            raise InvalidInput(f"expected one label per record, got shape {labels.shape}.")
        if len(self.classes) != 2 or self.classes[0] == self.classes[1]:
            raise InvalidInput("expected two different classes, the negative one first.")
        if not bool(np.isin(labels, np.asarray(self.classes)).all()):
            raise InvalidInput("expected every label to be one of classes.")
        people = None if self.people is None else np.array(self.people)
        if people is not None and people.shape != labels.shape:
            raise InvalidInput(f"expected one person per record, got shape {people.shape}.")
        object.__setattr__(self, "labels", read_only(labels))
        object.__setattr__(self, "people", None if people is None else read_only(people))
        object.__setattr__(self, "classes", tuple(self.classes))

    def __len__(self) -> int:
        return int(self.frame.height)

    @property
    def signs(self) -> FloatArray:
        """Labels as -1 and +1, as the paper writes them."""
        return np.where(self.labels == self.classes[1], 1.0, -1.0)

    def take(self, records: IntArray) -> PublicTable:
        """Return the records with these positions, in this order."""
        return replace(
            self,
            frame=self.frame[records],
            labels=self.labels[records],
            people=None if self.people is None else self.people[records],
        )

    def split(self, share: float, rng: np.random.Generator) -> tuple[PublicTable, PublicTable]:
        """Return two parts at random, the first with about ``share`` of the people.

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
        owners = (
            np.arange(len(self)) if self.people is None else np.unique(self.people, return_inverse=True)[1]
        )
        count = int(owners.max()) + 1
        picked = np.zeros(count, dtype=bool)
        picked[rng.permutation(count)[: round(share * count)]] = True
        chosen = picked[owners]
        if not chosen.any() or chosen.all():
            raise InvalidInput(f"expected a share that leaves records on both sides of {len(self)}.")
        return self.take(np.flatnonzero(chosen)), self.take(np.flatnonzero(~chosen))
