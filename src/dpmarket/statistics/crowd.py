"""Turn promises and owners into a crowd: whole-number weights, and who holds which record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.promises import Prepared, read_promises
from dpmarket.privacy.noise import NoiseSource, SecureNoise
from dpmarket.statistics.weights import IntegerWeights, integer_weights, weighted_sum

RESOLUTION = 1 << 24
"""What one person contributes is counted in this many parts of the public range."""


class Terms(Protocol):
    """What every statistic is asked with, beside its own bounds or categories."""

    confidence: float
    epsilon: float | None
    rows_per_person: int
    noise_source: NoiseSource | None


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


def read_crowd(terms: Terms, n_records: int, epsilons: Any, people: Any) -> tuple[Crowd, FloatArray]:
    """Return the crowd and its promises; arguments and refusals as in the private estimator.

    Raises
    ------
    InvalidInput
        Also if somebody with a promise above 0 has no record.
    """
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
    return Crowd(integer_weights(promises), owners, records_of, holding.people), promises


def check_terms(terms: Any) -> None:
    """Check what every statistic is asked with."""
    terms.confidence = checks.strictly_between("confidence", terms.confidence, 0.0, 1.0)
    if terms.epsilon is not None:
        terms.epsilon = checks.positive("epsilon", terms.epsilon)
    terms.rows_per_person = checks.whole("rows_per_person", terms.rows_per_person, minimum=1)


def source_of(terms: Terms) -> NoiseSource:
    """Return the noise source: secure unless another one was given."""
    return SecureNoise() if terms.noise_source is None else terms.noise_source


def is_certifiable(source: NoiseSource) -> bool:
    """Tell whether nobody can know or repeat the noise."""
    return isinstance(source, SecureNoise) and bool(source.certifiable)


def on_grid(values: FloatArray, low: float, high: float) -> IntArray:
    """Return numbers as whole parts of the public range, cut off at its ends: from 0 to RESOLUTION."""
    half = 0.5 * high - 0.5 * low  # the range itself may be too large for a float
    shares = np.clip((0.5 * np.clip(values, low, high) - 0.5 * low) / half, 0.0, 1.0)
    return np.rint(shares * RESOLUTION).astype(np.int64)


def spent_by(crowd: Crowd) -> FloatArray:
    """Return what each person spends, read-only."""
    spent: FloatArray = read_only(crowd.weights.spent)
    return spent
