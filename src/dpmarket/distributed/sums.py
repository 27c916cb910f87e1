"""Sums over records on many machines: :class:`~dpmarket.learning.sums.Sums` and whole gradients over parts.

Each part adds up its own records as in memory. Gradients arrive as pairs of floats and are added in the order
of the parts without loss, so that the released grid point is that of one machine; whole gradients and whole
weights are exact in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.distributed.cluster import Parts
from dpmarket.learning.rounding import CHUNK, sum_pairs
from dpmarket.learning.rows import NO_SCALES, Rows
from dpmarket.learning.sums import Errors, LocalSums
from dpmarket.privacy.loss import Loss
from dpmarket.privacy.release import Release


def split_by(values: Any, sizes: Sequence[int]) -> list[Any]:
    """Return consecutive pieces of an array, so many elements for each part."""
    return np.split(values, np.cumsum(sizes)[:-1])


@dataclass(frozen=True, eq=False)
class PartedRecords:
    """Checked records on workers, ready for training; all records of a person are in one part."""

    parts: Parts  # of :class:`~dpmarket.learning.records.Records`
    filled: Sequence[int]  # which parts of all these are; the others have no record to read
    sizes: Sequence[int]  # how many people each of all has
    n_features: int  # without the constant

    def _pieces(self, values: Any) -> list[Any]:
        pieces = split_by(values, self.sizes)
        return [pieces[k] for k in self.filled]

    def sums(self, release: Release, person_weights: FloatArray, *, clip: bool) -> PartedSums:
        """Return the loss's sums over these records; rows longer than 1 are shortened with ``clip``."""
        pieces = self._pieces(person_weights)
        sums = self.parts.map(lambda own, weights: own.sums(release, weights, clip=clip), pieces)
        counts = sums.get(attrgetter("errors.count"))
        filled = [one for one, count in zip(sums.futures, counts, strict=True) if count]
        return PartedSums(
            Parts(sums.client, filled), release.loss, sum(counts), release.norm.n_coefficients,
            release.norm.row_bound_2,
        )  # fmt: skip

    def people(self, whole: IntArray, constant: float | None) -> PartedPeople:
        """Return the records of people with a whole weight above 0, by person."""
        people = self.parts.map(lambda own, weights: own.people(weights, constant), self._pieces(whole))
        people.get(bool)  # what is wrong with records is said before anybody is charged
        return PartedPeople(people, int(whole.sum()), self.n_features + (constant is not None))


@dataclass(frozen=True, eq=False)
class PartedSums:
    """Sums over records of many parts; see :class:`~dpmarket.learning.sums.Sums`."""

    parts: Parts
    loss: Loss
    count: int
    n_coefficients: int
    row_bound: float

    def _each(self, name: str, *arguments: Any) -> list[Any]:
        return self.parts.get(methodcaller(name, *arguments))

    @cached_property
    def total(self) -> float:
        """The sum of the weights, rounded up."""
        totals = self.parts.get(attrgetter("errors.total"))
        return float(sum(totals) * (1.0 + len(totals) * 2.0**-52))

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the gradient as pairs of floats."""
        return sum_pairs(self._each("gradient", w))

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient at ``w + rest``, in pairs of floats throughout."""
        return sum_pairs(self._each("accurate_gradient", w, rest))

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        """Return the Hessian at ``w`` times ``v``."""
        return np.asarray(np.sum(self._each("product", w, v), axis=0))

    def hessian(self, w: FloatArray) -> FloatArray:
        """Return the lower triangle of the Hessian."""
        return np.asarray(np.sum(self._each("hessian", w), axis=0))

    def partial_traces(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Hessian's partial traces."""
        between, among = zip(*self._each("partial_traces", w), strict=True)
        return np.sum(between, axis=0), np.sum(among, axis=0)

    def sample(self, count: int) -> LocalSums:
        """Return the sums over about ``count`` evenly spaced records of every part, in memory."""
        share = count / self.count
        found: list[Rows] = self.parts.get(
            lambda sums: sums.rows.sample(max(1, round(share * sums.errors.count)))
        )
        scales = [rows.scales if rows.scales.size else np.ones(len(rows)) for rows in found]
        x, labels, weights = [
            np.concatenate([getattr(rows, name) for rows in found])
            for name in ("features", "labels", "weights")
        ]
        every = np.concatenate(scales)
        kept = every if bool((every != 1.0).any()) else NO_SCALES
        return LocalSums(Rows(x, labels, weights, kept, found[0].constant), self.loss, self.row_bound)

    @cached_property
    def errors(self) -> Errors:
        """The rounding bounds: as of so many records in memory, with a block more for every part."""
        count = self.count + 2 * CHUNK * len(self.parts.futures)
        return Errors(self.loss, count, self.n_coefficients, self.total, self.row_bound)


@dataclass(frozen=True, eq=False)
class PartedPeople:
    """Whole gradients of people in many parts; see :class:`~dpmarket.learning.descent.People`."""

    parts: Parts
    total: int
    n_coefficients: int

    def whole_gradient(self, loss: Loss, w: FloatArray, clip: float) -> FloatArray:
        """Return the sum of all whole gradients, exactly."""
        found = self.parts.get(methodcaller("whole_gradient", loss, w, clip))
        return np.asarray(np.sum(found, axis=0))
