"""Turn vectors of bounded length into a private mean vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.errors import InvalidInput, NotConverged
from dpmarket.privacy.noise import NoiseSource
from dpmarket.statistics.crowd import (
    RESOLUTION,
    Crowd,
    check_outside,
    check_terms,
    count_outside,
    kept,
    read_crowd,
    refuse_far_range,
)
from dpmarket.statistics.exact import random_bits, rounded_sphere
from dpmarket.statistics.intervals import vector_radius
from dpmarket.statistics.released import ReleasedStatistic, StatisticError, publish

_SHORTER = 1.0 - 2.0**-20  # for a row that rounding left longer than the bound


@dataclass(eq=False)
class PrivateVectorMean:
    r"""The mean of vectors no longer than a public bound R, with a promise (epsilon) to every person.

    The noise has a density proportional to :math:`e^{-\eta |b| / (2R)}`, for n coordinates together, as in
    the private estimator. For coordinates that each have bounds of their own, and for few of them, several
    means (:class:`SeveralStatistics`) may be better.

    Parameters
    ----------
    names
        A name for each coordinate.
    bound
        R > 0, public.
    confidence
        Probability, strictly between 0 and 1, with which the population's mean is within ``radius_``.
    epsilon, rows_per_person, noise_source
        As in :class:`PrivateMean`.
    outside
        What happens to vectors longer than the bound: "clip" shortens them to it and counts them, "refuse"
        refuses all of the records.

    Attributes
    ----------
    release_, epsilons_, people_, outside_
        As in :class:`PrivateMean`.
    mean_, radius_
        The mean, shape (n,), and the radius of a ball around it that holds the population's mean.

    Notes
    -----
    Guaranteed: as in :class:`PrivateMean`. The noise is rounded down to whole parts, exactly: what is
    released is the sum with real-valued noise, rounded, and no part of the promise goes into rounding.

    Examples
    --------
    >>> points = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 2))
    >>> mean = PrivateVectorMean(("east", "north"), bound=1.0, epsilon=1.0).fit(points)
    >>> float(np.linalg.norm(mean.mean_)) < mean.radius_
    True
    """

    names: Sequence[str]
    bound: float
    confidence: float = 0.95
    epsilon: float | None = None
    rows_per_person: int = 1
    noise_source: NoiseSource | None = None
    outside: Literal["clip", "refuse"] = "clip"
    kind: ClassVar[str] = "vector mean"

    def __post_init__(self) -> None:
        if isinstance(self.names, str) or not all(isinstance(name, str) for name in self.names):
            raise InvalidInput("expected names to be a text for each coordinate.")
        self.names = tuple(self.names)
        if not self.names or len(set(self.names)) < len(self.names):
            raise InvalidInput("expected names to be at least one, all different.")
        self.bound = checks.positive("bound", self.bound)
        refuse_far_range("bound", self.bound)
        check_outside(self.outside)
        check_terms(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings as plain data, for :func:`statistic_from_dict`."""
        return {
            "kind": self.kind,
            "names": list(self.names),
            "bound": self.bound,
            "confidence": self.confidence,
            "rows_per_person": self.rows_per_person,
        }

    @property
    def error(self) -> StatisticError:
        """``R^2 n / (n + 2)`` and ``4 n (n + 1) R^2``: what spread and noise cost."""
        n, squared = len(self.names), self.bound**2
        usual = squared * n / (n + 2.0)
        return StatisticError(usual, squared, 4.0 * n * (n + 1.0) * squared, usual)

    def fit(
        self,
        records: ArrayLike,
        epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None,
    ) -> Self:
        """Release the mean vector.

        Parameters
        ----------
        records
            Finite numbers, shape (records, n).
        epsilons, people
            As in :meth:`PrivateMean.fit`.

        Returns
        -------
        Self

        Raises
        ------
        InvalidInput, EntropyUnavailable
            As :meth:`PrivateMean.fit`.
        """
        rows = checks.finite_numbers("records", records)
        if rows.ndim != 2 or rows.shape[1] != len(self.names) or not len(rows):
            raise InvalidInput(
                f"expected records of shape (records, {len(self.names)}), got an array of shape {rows.shape}."
            )
        whole, beyond = whole_rows(rows, self.bound)
        count = count_outside(self.outside, beyond)
        crowd = read_crowd(self, records, len(rows), epsilons, people)
        release = _release(self, crowd, crowd.means(whole))
        self.outside_ = count
        self.release_, self.epsilons_, self.people_ = kept(crowd, release)
        return self

    @property
    def mean_(self) -> FloatArray:
        """The released mean vector."""
        return self.release_.values

    @property
    def radius_(self) -> float:
        """The radius of the ball around it."""
        assert self.release_.radius is not None
        return self.release_.radius


def whole_rows(rows: FloatArray, bound: float) -> tuple[IntArray, BoolArray]:
    """Return rows in whole parts of the bound, none longer than RESOLUTION, and which had to be shortened.

    Exactly, in whole numbers. What is too long by rounding only does not count as shortened.
    """
    # Divided by their largest element first, so that no square leaves the range of floats.
    peaks = np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(float).tiny)
    directions = rows / peaks
    lengths = np.maximum(np.sqrt((directions**2).sum(axis=1, keepdims=True)), 1.0)  # 0 only of empty rows
    with np.errstate(over="ignore"):
        sizes = np.minimum(peaks / bound, 1.0 / lengths)
        beyond = (peaks / bound * lengths)[:, 0] > 1.0 + 2.0**-40
    whole: IntArray = np.trunc(directions * sizes * RESOLUTION).astype(np.int64)
    long = (whole**2).sum(axis=1) > RESOLUTION**2
    whole[long] = np.trunc(whole[long] * _SHORTER).astype(np.int64)
    if ((whole**2).sum(axis=1) > RESOLUTION**2).any():
        raise NotConverged("a record could not be shortened to the public bound; nothing was released.")
    return whole, beyond


def _release(statistic: PrivateVectorMean, crowd: Crowd, rows: IntArray) -> ReleasedStatistic:
    stream = random_bits(statistic.noise_source)
    weights, bound, n = crowd.weights, statistic.bound, rows.shape[1]
    # Somebody's replaced row moves the sum by at most twice the weight times RESOLUTION.
    noise = rounded_sphere(stream, n, weights.unit / RESOLUTION)
    released = tuple(crowd.sum(rows[:, j]) + noise[j] for j in range(n))
    whole = weights.total * RESOLUTION
    mean = np.array([bound * (number / whole) for number in released])
    length = float(np.linalg.norm(mean))
    deviation = bound * math.sqrt(weights.squared_norm)
    radius = vector_radius(n, deviation, 2.0 * bound / weights.total_promise, 1.0 - statistic.confidence)
    # Rows and a person's mean are cut off by less than a part each, the noise by less than a unit.
    grid = bound * math.sqrt(n) * (2.0 / RESOLUTION + 1.0 / whole)
    return publish(
        statistic,
        weights,
        labels=tuple(statistic.names),
        values=mean * min(1.0, bound / length) if length > 0.0 else mean,
        radius=radius + grid,
        numerators=released,
        denominator=whole,
    )
