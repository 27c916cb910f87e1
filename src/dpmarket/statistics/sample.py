"""Weighted samples: whole-number weights from epsilons, rounded down, and exact sums over people.

A weight of one is worth ``unit`` of epsilon, a power of two. A person of weight ``floor(epsilon / unit)``
spends ``weight * unit``, which a float holds exactly. If replaced records change a sum by at most ``change``
per unit of weight, discrete Laplace noise of scale ``change / unit`` costs exactly that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.people import Holding, read_budgets, refuse_other_index

RESOLUTION = 1 << 24
"""What one person contributes is counted in this many parts of the public range."""
_BITS = 40  # of the largest weight: rounding down loses at most 2**-39 of the largest epsilon
_SMALLEST = 1e-50  # squares of smaller epsilons leave the range of floats
_LARGEST = 1e6  # nobody's epsilon: it says that nothing is protected


@dataclass(frozen=True, eq=False)
class WeightedSample:
    """The people of a release, their whole weights, and the owner of each record that is read."""

    weights: IntArray  # one whole number per person, below 2**40
    unit_exponent: int  # a weight of one spends an epsilon of 2 to this power
    rows: IntArray  # positions of the records whose owners have a weight above 0: no other is read
    owners: IntArray  # of these records: positions among the people
    people: tuple[Any, ...] | None  # names in the order of the epsilons; None if numbered from 0

    @property
    def unit(self) -> Fraction:
        """Epsilon per unit of weight."""
        return Fraction(2) ** self.unit_exponent

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return sum(self.weights.tolist())

    @property
    def total_epsilon(self) -> float:
        """The sum of all epsilons that are spent."""
        return float(self.total * self.unit)

    @property
    def effective_people(self) -> float:
        """As many people with equal weights would have weights of the same norm."""
        relative = self.weights / float(self.weights.max())
        return float(relative.sum()) ** 2 / float(relative @ relative)

    @property
    def norm(self) -> float:
        """The norm of the weights, after they are divided by their sum."""
        return float((1.0 / self.effective_people) ** 0.5)

    @property
    def spent(self) -> FloatArray:
        """The epsilon that each person spends, exactly."""
        return read_only(np.ldexp(self.weights.astype(np.float64), self.unit_exponent))

    def sum_of_means(self, numbers: IntArray) -> int:
        """Return the weighted sum of each person's mean record, cut off towards 0."""
        counts = np.bincount(self.owners, minlength=self.weights.size)
        sums = np.zeros(self.weights.size, dtype=np.int64)
        np.add.at(sums, self.owners, numbers)
        means = np.sign(sums) * (np.abs(sums) // np.maximum(counts, 1))
        return sum(a * b for a, b in zip(self.weights.tolist(), means.tolist(), strict=True))

    def sums_at(self, positions: IntArray, count: int) -> list[int]:
        """Return each position's weight in parts of :data:`RESOLUTION`; a person's records share theirs."""
        order = np.lexsort((positions, self.owners))
        owners = self.owners[order]
        counts = np.bincount(owners, minlength=self.weights.size)
        held, before = counts[owners], np.arange(owners.size) - (np.cumsum(counts) - counts)[owners]
        parts = RESOLUTION * (before + 1) // held - RESOLUTION * before // held
        sums = [0] * count
        columns = (positions[order], self.weights[owners], parts)
        for place, weight, part in zip(*(column.tolist() for column in columns), strict=True):
            sums[place] += weight * part
        return sums


def read_sample(
    records: Any, epsilon: float | None, epsilons: Any, people: Any, rows_per_person: int
) -> WeightedSample:
    """Return who takes part, with which weight; records are counted, and no record is looked at."""
    budgets, holding = read_epsilons([records], epsilon, epsilons, people, rows_per_person)
    owners = np.arange(budgets.size) if holding.owners is None else holding.owners
    without = int(((np.bincount(owners, minlength=budgets.size) == 0) & (budgets > 0.0)).sum())
    if without:
        raise InvalidInput(
            f"expected a record of everybody with an epsilon above 0, found {without} people without; leave "
            "them out, or give them an epsilon of 0."
        )
    weights, unit_exponent = whole_weights(budgets)
    rows = np.flatnonzero(weights[owners])
    return WeightedSample(read_only(weights), unit_exponent, rows, owners[rows], holding.people)


def read_epsilons(
    columns: Sequence[Any], epsilon: float | None, epsilons: Any, people: Any, rows_per_person: int
) -> tuple[FloatArray, Holding]:
    """Return one epsilon per person, and who holds which record of some columns of the same records."""
    sizes = set()
    for records in columns:
        refuse_other_index(records, epsilons, people, records=columns[0])
        known = isinstance(records, Sized) and np.iterable(records) and not isinstance(records, Mapping)
        sizes.add(len(records) if known else 0)
    if 0 in sizes or len(sizes) > 1:
        raise InvalidInput("expected at least one record, and as many for one statistic as for the others.")
    return read_budgets(epsilon, epsilons, people, sizes.pop(), rows_per_person)


def whole_weights(epsilons: FloatArray) -> tuple[IntArray, int]:
    """Return the weights that spend as much of the epsilons as whole numbers can, and the unit's exponent."""
    largest = float(epsilons.max())
    if largest == 0.0:
        raise InvalidInput("expected at least one epsilon above 0, got none.")
    if not _SMALLEST <= largest <= _LARGEST:
        raise InvalidInput(f"expected the largest epsilon to be between {_SMALLEST} and {_LARGEST:g}.")
    exponent = math.frexp(largest)[1] - _BITS
    # Both steps are exact in floats: a shift of the exponent, and the whole part.
    return np.floor(np.ldexp(epsilons, -exponent)).astype(np.int64), exponent


def records_at(records: Any, rows: IntArray) -> Any:
    """Return the records at these positions; the others are not looked at."""
    if len(rows) == len(records):
        return records
    chosen = records.to_numpy() if hasattr(records, "to_numpy") else records
    if not isinstance(chosen, np.ndarray):
        return [chosen[row] for row in rows.tolist()]
    chosen = chosen[rows]
    # What made this an array of objects may have stood in a record that is not read.
    return chosen.tolist() if chosen.dtype == object else chosen
