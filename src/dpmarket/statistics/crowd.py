"""Turn promises and owners into a crowd: whole-number weights, and who holds which record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.promises import Prepared, read_promises, refuse_other_index
from dpmarket.privacy.noise import NoiseSource
from dpmarket.statistics.released import ReleasedStatistic, StatisticError
from dpmarket.statistics.weights import IntegerWeights, integer_weights, weighted_sum

_LEAST_RANGE = 1e-60
RESOLUTION = 1 << 24
"""What one person contributes is counted in this many parts of the public range."""


class Terms(Protocol):
    """What every statistic is asked with, beside its own bounds or categories."""

    confidence: float
    epsilon: float | None
    rows_per_person: int
    noise_source: NoiseSource | None

    @property
    def error(self) -> StatisticError:
        """What spread and noise cost."""
        ...


@dataclass(frozen=True, eq=False)
class Crowd:
    """Who takes part in a release, with which weight and which records.

    Attributes
    ----------
    weights
        One whole number per person.
    owners
        The owner's position among the people, shape (records,).
    records_of
        How many records each person has, shape (people,).
    people
        Names in the order of the promises; None if people are numbered.
    """

    weights: IntegerWeights
    owners: IntArray
    records_of: IntArray
    people: tuple[Any, ...] | None

    def means(self, numbers: IntArray) -> IntArray:
        """Return the mean of each person's records, cut off towards 0: no larger than the largest."""
        if self.is_one_each:
            return numbers
        sums = np.zeros((self.records_of.size, *numbers.shape[1:]), dtype=np.int64)
        np.add.at(sums, self.owners, numbers)
        counts = np.maximum(self.records_of, 1).reshape(-1, *[1] * (numbers.ndim - 1))
        return np.asarray(np.sign(sums) * (np.abs(sums) // counts))

    def sum(self, numbers: IntArray) -> int:
        """Return the exact weighted sum of one whole number per person."""
        return weighted_sum(self.weights.counts, numbers)

    def sums_at(self, positions: IntArray, count: int) -> list[int]:
        """Return, per position, how much weight lies there, in parts of :data:`RESOLUTION`.

        A person's records share the weight: the first j of r records, in the order of their positions, have
        ``floor(RESOLUTION * j / r)`` parts of it, so that all of them have all of it.
        """
        order = np.lexsort((positions, self.owners))
        owners = self.owners[order]
        starts = np.concatenate(([0], np.cumsum(self.records_of)[:-1]))
        before = np.arange(owners.size) - starts[owners]
        held = self.records_of[owners]
        parts = RESOLUTION * (before + 1) // held - RESOLUTION * before // held
        places = positions[order]
        by_place = np.argsort(places, kind="stable")
        edges = np.searchsorted(places[by_place], np.arange(count + 1))
        counts = self.weights.counts[owners]
        return [
            weighted_sum(counts[chosen], parts[chosen])
            for chosen in (by_place[edges[k] : edges[k + 1]] for k in range(count))
        ]

    @property
    def is_one_each(self) -> bool:
        """Whether record i is person i's, and nobody has another."""
        return np.array_equal(self.owners, np.arange(self.records_of.size))


def read_crowd(terms: Terms, records: Any, n_records: int, epsilons: Any, people: Any) -> Crowd:
    """Return who takes part, with which weight; arguments and refusals as in the private estimator.

    Raises
    ------
    InvalidInput
        Also if somebody with a promise above 0 has no record, or pandas objects have different indices.
    """
    refuse_other_index(records, epsilons, people)
    if isinstance(epsilons, Prepared):
        raise InvalidInput("expected epsilons to be promises, got the weights of a model.")
    promises, holding = read_promises(terms.epsilon, epsilons, people, n_records, terms.rows_per_person)
    assert isinstance(promises, np.ndarray)
    owners = holding.owners if holding.owners is not None else np.arange(holding.n_people)
    records_of = np.bincount(owners, minlength=holding.n_people).astype(np.int64)
    absent = int(((records_of == 0) & (promises > 0.0)).sum())
    if absent:
        raise InvalidInput(
            f"expected a record of everybody with an epsilon above 0, found {absent} people without; leave "
            "them out, or give them an epsilon of 0."
        )
    weights = integer_weights(promises)
    _refuse_no_error(terms, weights)
    return Crowd(weights, owners, records_of, holding.people)


def _refuse_no_error(terms: Terms, weights: IntegerWeights) -> None:
    """Refuse what could not be told afterwards: noise that was drawn is spent, whatever comes of it."""
    try:
        root = terms.error.largest_root(weights.squared_norm, weights.total_promise)
    except (OverflowError, ZeroDivisionError):
        root = math.inf
    if not 0.0 < root < math.inf:
        raise InvalidInput("expected bounds and promises whose error is a number, got such as have none.")


def kept(
    crowd: Crowd, release: ReleasedStatistic
) -> tuple[ReleasedStatistic, FloatArray, tuple[Any, ...] | None]:
    """Return what a statistic holds after its release: it, what was spent on each person, and their names."""
    return release, read_only(crowd.weights.spent), crowd.people


def check_terms(terms: Any) -> None:
    """Check what every statistic is asked with."""
    terms.confidence = checks.strictly_between("confidence", terms.confidence, 0.0, 1.0)
    if terms.epsilon is not None:
        terms.epsilon = checks.positive("epsilon", terms.epsilon)
    terms.rows_per_person = checks.whole("rows_per_person", terms.rows_per_person, minimum=1)


def refuse_far_range(name: str, size: float) -> None:
    """Refuse a public range whose square leaves the range of floats.

    Raises
    ------
    InvalidInput
        It is not between 1e-60 and 1e60.
    """
    if not _LEAST_RANGE <= size <= 1.0 / _LEAST_RANGE:
        raise InvalidInput(f"expected {name} between {_LEAST_RANGE:g} and {1.0 / _LEAST_RANGE:g}.")


def on_grid(values: FloatArray, low: float, high: float) -> IntArray:
    """Return numbers as whole parts of the public range, cut off at its ends: from 0 to RESOLUTION."""
    half = 0.5 * high - 0.5 * low  # the range itself may be too large for a float
    shares = np.clip((0.5 * np.clip(values, low, high) - 0.5 * low) / half, 0.0, 1.0)
    return np.rint(shares * RESOLUTION).astype(np.int64)


def check_outside(outside: str) -> None:
    """Check what a statistic does with records outside its public bounds."""
    if outside not in ("clip", "refuse"):
        raise InvalidInput("expected outside to be 'clip' or 'refuse'.")


def count_outside(outside: str, beyond: BoolArray) -> int:
    """Return how many records lie outside the public bounds.

    Raises
    ------
    InvalidInput
        There are any, and they are to be refused.
    """
    count = int(beyond.sum())
    if count and outside == "refuse":
        raise InvalidInput(f"expected every record within the public bounds, found {count} outside.")
    return count
