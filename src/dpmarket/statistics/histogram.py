"""Turn answers with public categories, or numbers with public bins, into private shares of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise import NoiseSource
from dpmarket.statistics.crowd import (
    RESOLUTION,
    Crowd,
    check_terms,
    kept,
    read_crowd,
)
from dpmarket.statistics.exact import discrete_laplace, random_bits
from dpmarket.statistics.mean import share_interval
from dpmarket.statistics.released import ReleasedStatistic, StatisticError, publish


@dataclass(eq=False)
class PrivateHistogram:
    r"""The share of people in each of K public categories, with a privacy promise (epsilon) to every person.

    Somebody who moves from one category to another changes two weighted counts, so that each gets noise of
    scale :math:`2 / \eta`. With two categories only one count is released, with noise of scale
    :math:`1 / \eta`. The shares are the nearest ones that sum to 1, which never adds to the squared error.

    Parameters
    ----------
    categories
        At least two, all different: texts or whole numbers, from what was asked, never from these records.
    edges
        None, or increasing edges of bins for numbers, one more than categories: see :meth:`from_edges`.
    confidence
        Probability, strictly between 0 and 1, with which all intervals together hold the population's shares.
    epsilon, rows_per_person, noise_source
        As in :class:`PrivateMean`.

    Attributes
    ----------
    release_, epsilons_, people_
        As in :class:`PrivateMean`.
    shares_
        The share of each category, in their order; 1 in sum.

    Notes
    -----
    Guaranteed: as in :class:`PrivateMean`.

    Examples
    --------
    >>> answers = ["train"] * 300 + ["car"] * 150 + ["bicycle"] * 50
    >>> histogram = PrivateHistogram(("train", "car", "bicycle"), epsilon=1.0).fit(answers)
    >>> bool(abs(histogram.shares_ - [0.6, 0.3, 0.1]).max() < 0.2), round(float(histogram.shares_.sum()), 9)
    (True, 1.0)
    """

    categories: Sequence[Any]
    edges: Sequence[float] | None = None
    confidence: float = 0.95
    epsilon: float | None = None
    rows_per_person: int = 1
    noise_source: NoiseSource | None = None
    kind: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        self.categories = tuple(self.categories)
        if len(self.categories) < 2 or len(set(self.categories)) < len(self.categories):
            raise InvalidInput("expected categories to be at least two, all different.")
        if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in self.categories):
            raise InvalidInput("expected categories to be texts or whole numbers; PrivateShare counts yes.")
        if self.edges is not None:
            self.edges = increasing("edges", self.edges)
            if len(self.edges) != len(self.categories) + 1:
                raise InvalidInput("expected one more edge than categories.")
        check_terms(self)

    @classmethod
    def from_edges(cls, edges: Sequence[float], **terms: Any) -> PrivateHistogram:
        """Return the histogram of a number in bins ``[edge, next edge)``; values outside count at the ends.

        Parameters
        ----------
        edges
            Increasing numbers, public, at least three.
        **terms
            Confidence, epsilon, rows_per_person, noise_source.

        Examples
        --------
        >>> PrivateHistogram.from_edges([0, 10, 20]).categories
        ('0 to 10', '10 to 20')
        """
        checked = increasing("edges", edges)
        return cls(tuple(f"{low:g} to {high:g}" for low, high in pairwise(checked)), checked, **terms)

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings as plain data, for :func:`statistic_from_dict`."""
        data: dict[str, Any] = {
            "kind": self.kind,
            "categories": list(self.categories),
            "confidence": self.confidence,
            "rows_per_person": self.rows_per_person,
        }
        return data if self.edges is None else data | {"edges": list(self.edges)}

    @property
    def error(self) -> StatisticError:
        """``1 - 1/K`` and ``8 K`` (4 for two categories): what spread and noise cost."""
        k = len(self.categories)
        spread, noise = 1.0 - 1.0 / k, 8.0 * k if k > 2 else 4.0
        return StatisticError(spread, spread, noise, (k - 1.0) / (k * (k + 1.0)))

    def fit(
        self,
        records: ArrayLike,
        epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None,
    ) -> Self:
        """Release the shares.

        Parameters
        ----------
        records
            One category per record; numbers with ``edges``. A person's records share the person's weight.
        epsilons, people
            As in :meth:`PrivateMean.fit`.

        Returns
        -------
        Self

        Raises
        ------
        InvalidInput, EntropyUnavailable
            As :meth:`PrivateMean.fit`; also for a record in no category.
        """
        positions = self._positions(records)
        crowd = read_crowd(self, records, len(positions), epsilons, people)
        release = _release(self, crowd, crowd.sums_at(positions, len(self.categories)))
        self.release_, self.epsilons_, self.people_ = kept(crowd, release)
        return self

    @property
    def shares_(self) -> FloatArray:
        """The released shares."""
        return self.release_.values

    def _positions(self, records: ArrayLike) -> IntArray:
        if self.edges is not None:
            values = checks.finite_vector("records", records)
            return np.searchsorted(np.array(self.edges[1:-1]), values, side="right").astype(np.int64)
        place = {category: k for k, category in enumerate(self.categories)}
        given = records.tolist() if hasattr(records, "tolist") else list(records)  # type: ignore[arg-type]
        try:
            return np.array([place[record] for record in given], dtype=np.int64)
        except (KeyError, TypeError):
            raise InvalidInput("expected every record to be one of the categories; some are not.") from None


def increasing(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """Return at least three finite numbers, each above the one before."""
    numbers = checks.finite_vector(name, values)
    if numbers.size < 3 or not (np.diff(numbers) > 0.0).all():
        raise InvalidInput(f"expected {name} to be at least three increasing numbers.")
    return tuple(numbers.tolist())


def _release(statistic: PrivateHistogram, crowd: Crowd, counts: list[int]) -> ReleasedStatistic:
    stream = random_bits(statistic.noise_source)
    weights, whole = crowd.weights, crowd.weights.total * RESOLUTION
    # Two counts have a known sum, so that the second alone says all; else somebody changes two of them.
    told, changed = (counts[1:], 1) if len(counts) == 2 else (counts, 2)
    scale = changed * RESOLUTION / weights.unit
    released = tuple(count + discrete_laplace(stream, scale) for count in told)
    shares = np.array([float(Fraction(number, whole)) for number in released])
    noise_scale = changed / weights.total_promise
    ends = np.array(
        [
            share_interval(number, whole, weights.squared_norm, noise_scale, statistic, len(told))
            for number in released
        ]
    )
    if len(counts) == 2:
        shares = np.array([1.0 - shares[0], shares[0]])
        ends = np.array([1.0 - ends[0, ::-1], ends[0]])
    return publish(
        statistic,
        weights,
        labels=tuple(str(category) for category in statistic.categories),
        values=_nearest_shares(shares),
        intervals=(ends[:, 0].copy(), ends[:, 1].copy()),
        numerators=released,
        denominator=whole,
    )


def _nearest_shares(shares: FloatArray) -> FloatArray:
    if math.fsum(np.abs(shares)) == 1.0 and (shares >= 0.0).all():
        return shares.copy()
    return _project_to_simplex(shares)


def _project_to_simplex(point: FloatArray) -> FloatArray:
    """Return the shares nearest to a point that are at least 0 and 1 in sum: all less the same number."""
    falling = np.sort(point)[::-1]
    over = (np.cumsum(falling) - 1.0) / np.arange(1.0, point.size + 1.0)
    off = over[np.flatnonzero(falling > over)[-1]]
    return np.asarray(np.maximum(point - off, 0.0))
