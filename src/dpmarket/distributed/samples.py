"""Weighted samples over records on many machines: what a statistic needs, exact in any order of the parts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.distributed.cluster import Parts
from dpmarket.distributed.sums import split_by
from dpmarket.statistics.sample import WeightedSample, whole_weights
from dpmarket.statistics.statistic import Prepared, Statistic


@dataclass(frozen=True, eq=False)
class PartedColumn:
    """Records of a statistic on workers, as its ``fit`` takes them: one element stands for one person."""

    parts: Parts  # of pairs: records, and the place of each record's owner among the part's people
    sizes: Sequence[int]  # how many people each part has

    def __len__(self) -> int:
        return sum(self.sizes)

    def __iter__(self) -> Any:
        return iter(range(len(self)))

    def prepared(self, statistic: Statistic, epsilons: FloatArray) -> Prepared:
        """Return what a release needs, with records read by the workers."""
        weights, exponent = whole_weights(np.asarray(epsilons))
        bare = copy.copy(statistic)
        bare.noise_source = None  # workers read records, and draw nothing
        pieces = split_by(weights, self.sizes)
        parts = self.parts.map(_prepared, pieces, statistic=bare, exponent=exponent)
        found = parts.get(lambda own: (own.outside, own.numbers.shape[1:]))
        width = max((shape[0] for _, shape in found if shape), default=0)
        none = np.zeros(0, dtype=np.int64)
        numbers: Any = PartedNumbers(parts, width)
        outside = sum(number for number, _ in found)
        return Prepared(PartedSample(weights, exponent, none, none, None), numbers, outside)


def _prepared(own: tuple[Any, IntArray], weights: IntArray, statistic: Statistic, exponent: int) -> Prepared:
    records, owners = own
    rows = np.flatnonzero(weights[owners])
    return statistic.read(records, WeightedSample(weights, exponent, rows, owners[rows], None))


@dataclass(frozen=True, eq=False)
class PartedNumbers:
    """Whole numbers of records on workers; of vectors one column can be chosen."""

    parts: Parts
    width: int
    column: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """As of an array; the number of rows is nobody's business."""
        return (-1, self.width)

    def __getitem__(self, place: tuple[slice, int]) -> PartedNumbers:
        return PartedNumbers(self.parts, self.width, place[1])


@dataclass(frozen=True, eq=False)
class PartedSample(WeightedSample):
    """A weighted sample whose records are on workers: weights are here, sums are exact in any order."""

    def sum_of_means(self, numbers: Any) -> int:
        """Return the weighted sum of each person's mean record, cut off towards 0."""
        column = ... if numbers.column is None else (slice(None), numbers.column)
        return sum(numbers.parts.get(lambda own: own.sample.sum_of_means(own.numbers[column])))

    def sums_at(self, positions: Any, count: int) -> list[int]:
        """Return the weight at each of ``count`` positions."""
        found = positions.parts.get(lambda own: own.sample.sums_at(own.numbers, count))
        return [sum(each) for each in zip(*found, strict=True)]
