"""Turn numbers within public bounds, and yes-or-no answers, into a private mean or share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise import NoiseSource
from dpmarket.statistics.crowd import (
    RESOLUTION,
    Crowd,
    Terms,
    check_outside,
    check_terms,
    count_outside,
    kept,
    on_grid,
    read_crowd,
    refuse_far_range,
)
from dpmarket.statistics.exact import discrete_laplace, random_bits
from dpmarket.statistics.intervals import mean_interval
from dpmarket.statistics.released import ReleasedStatistic, StatisticError, publish


@dataclass(eq=False)
class PrivateMean:
    r"""The mean of a number with public bounds, with a privacy promise (epsilon) to every person.

    .. math:: low + (high - low) \sum_i a_i x_i + Laplace((high - low) / \eta),
       \quad a_i = \epsilon_i / \eta, \quad \eta = \sum_i \epsilon_i

    Parameters
    ----------
    low, high
        Public bounds, from what the number means, never from these records.
    confidence
        Probability, strictly between 0 and 1, with which the interval holds the population's mean.
    epsilon
        The common promise, > 0, used where ``fit`` is given no ``epsilons``.
    rows_per_person
        Public upper bound on the number of records of one person, used with ``people``. More are refused.
    noise_source
        Where the noise comes from; None means :class:`~dpmarket.privacy.SecureNoise`.
    outside
        What happens to values outside of the bounds: "clip" moves them to the nearer bound and counts them,
        "refuse" refuses all of the records.

    Attributes
    ----------
    release_
        The :class:`ReleasedStatistic`: the only thing to publish.
    mean_, interval_
        The mean, and the ends of its interval.
    epsilons_
        What was spent on each person, exactly; never above the promise. In the order of the records or, with
        ``people``, of the promises. Read-only.
    people_
        The people of ``epsilons_`` if they have names, or None.
    outside_
        How many values were moved to a bound. A fact about private records: for the data holder's eyes.

    Notes
    -----
    Guaranteed:

    * Replacing everything that one person contributed changes the probability of no set of releases by more
      than the factor ``exp(epsilon)`` of that person: for the whole numbers really computed. Weights are
      whole numbers, rounded down; records are whole parts of the range; the noise is a discrete Laplace
      number made from random bits without any rounding.
    * Records of people whose promise is 0 have no influence.
    * The interval uses public bounds, promises and the released number only. It covers sampling and noise for
      any number of people if records are independent draws that do not depend on the weights.

    Not promised: how long it takes, and what error messages tell; they are for the data holder. Nor does the
    interval cover self-selection: see ``release_.caution``.

    Examples
    --------
    >>> ages = np.random.default_rng(0).uniform(20, 60, 500)
    >>> mean = PrivateMean(low=18, high=90).fit(ages, epsilons=np.full(500, 1.2))
    >>> mean.interval_[0] < 40 < mean.interval_[1], float(mean.epsilons_.max()) <= 1.2
    (True, True)
    """

    low: float
    high: float
    confidence: float = 0.95
    epsilon: float | None = None
    rows_per_person: int = 1
    noise_source: NoiseSource | None = None
    outside: Literal["clip", "refuse"] = "clip"
    kind: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        self.low, self.high = (checks.finite(name, getattr(self, name)) for name in ("low", "high"))
        if not self.low < self.high or not np.isfinite(self.high - self.low):
            raise InvalidInput(f"expected low < high, got low={self.low}, high={self.high}.")
        refuse_far_range("high - low", self.high - self.low)
        check_outside(self.outside)
        check_terms(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings as plain data, for :func:`statistic_from_dict`."""
        return {
            "kind": self.kind,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "rows_per_person": self.rows_per_person,
        }

    @property
    def error(self) -> StatisticError:
        """A twelfth of the squared range, twice the squared range: what spread and noise cost."""
        squared = (self.high - self.low) ** 2
        return StatisticError(squared / 12.0, squared / 4.0, 2.0 * squared, squared / 12.0)

    def fit(
        self,
        records: ArrayLike,
        epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None,
    ) -> Self:
        """Release the mean.

        Parameters
        ----------
        records
            Finite numbers, shape (records,).
        epsilons
            The promises: one per record; or, with ``people``, a mapping from owner to promise, or an array
            per person that ``people`` numbers from 0. None means the constructor's ``epsilon`` for everybody.
        people
            Owner of each record, shape (records,). What counts is the mean of each person's records.

        Returns
        -------
        Self

        Raises
        ------
        InvalidInput
            For records or promises that are not as described, values outside where they are refused, more
            records of a person than ``rows_per_person``, or somebody with a promise and no record. All before
            noise is drawn.
        EntropyUnavailable
            If the operating system gives no random bits.
        """
        values = checks.finite_vector("records", records)
        beyond = count_outside(self.outside, (values < self.low) | (values > self.high))
        crowd = read_crowd(self, records, len(values), epsilons, people)
        parts = crowd.means(on_grid(values, self.low, self.high))
        release = _release(self, crowd, parts, self.low, self.high, self.kind)
        self.outside_ = beyond
        self.release_, self.epsilons_, self.people_ = kept(crowd, release)
        return self

    @property
    def mean_(self) -> float:
        """The released mean."""
        return float(self.release_.values[0])

    @property
    def interval_(self) -> tuple[float, float]:
        """The ends of the interval."""
        return interval_of(self.release_)


@dataclass(eq=False)
class PrivateShare:
    """The share of people who say yes, with a privacy promise (epsilon) to every person.

    The mean of answers, 1 for yes and 0 for no: all that is said of :class:`PrivateMean` holds.

    Parameters
    ----------
    confidence, epsilon, rows_per_person, noise_source
        As in :class:`PrivateMean`.

    Attributes
    ----------
    release_, epsilons_, people_
        As in :class:`PrivateMean`.
    share_, interval_
        The share, and the ends of its interval.

    Examples
    --------
    >>> share = PrivateShare(epsilon=1.0).fit([True, False] * 200)
    >>> share.interval_[0] < 0.5 < share.interval_[1], share.release_.effective_people
    (True, 400.0)
    """

    confidence: float = 0.95
    epsilon: float | None = None
    rows_per_person: int = 1
    noise_source: NoiseSource | None = None
    kind: ClassVar[str] = "share"

    def __post_init__(self) -> None:
        check_terms(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings as plain data, for :func:`statistic_from_dict`."""
        return {"kind": self.kind, "confidence": self.confidence, "rows_per_person": self.rows_per_person}

    @property
    def error(self) -> StatisticError:
        """A quarter and two: what spread and noise cost."""
        return StatisticError(0.25, 0.25, 2.0, 1.0 / 12.0)

    def fit(
        self,
        records: ArrayLike,
        epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None,
    ) -> Self:
        """Release the share.

        Parameters
        ----------
        records
            True and False, or 1 and 0, shape (records,).
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
        answers = _answers(records)
        crowd = read_crowd(self, records, len(answers), epsilons, people)
        parts = crowd.means(answers.astype(np.int64) * RESOLUTION)
        release = _release(self, crowd, parts, 0.0, 1.0, "yes")
        self.release_, self.epsilons_, self.people_ = kept(crowd, release)
        return self

    @property
    def share_(self) -> float:
        """The released share."""
        return float(self.release_.values[0])

    @property
    def interval_(self) -> tuple[float, float]:
        """The ends of the interval."""
        return interval_of(self.release_)


def _answers(records: ArrayLike) -> FloatArray:
    given = np.asarray(records)
    answers = checks.finite_vector("records", given.astype(np.float64) if given.dtype == bool else given)
    if not np.isin(answers, (0.0, 1.0)).all():
        raise InvalidInput("expected every record to be True or False, or 1 or 0; some are not.")
    return answers


def interval_of(released: ReleasedStatistic) -> tuple[float, float]:
    """Return the ends of the only interval."""
    assert released.lows is not None
    assert released.highs is not None
    return float(released.lows[0]), float(released.highs[0])


def _release(
    statistic: PrivateMean | PrivateShare, crowd: Crowd, parts: IntArray, low: float, high: float, label: str
) -> ReleasedStatistic:
    """Add noise to the weighted sum of parts from 0 to RESOLUTION, and bring it back into the range."""
    stream = random_bits(statistic.noise_source)
    weights = crowd.weights
    released = crowd.sum(parts) + discrete_laplace(stream, RESOLUTION / weights.unit)
    whole = weights.total * RESOLUTION
    share = float(Fraction(released, whole))
    ends = share_interval(released, whole, weights.squared_norm, 1.0 / weights.total_promise, statistic)
    value, start, end = (float(np.clip(low + (high - low) * number, low, high)) for number in (share, *ends))
    return publish(
        statistic,
        weights,
        labels=(label,),
        values=np.array([value]),
        intervals=(np.array([start]), np.array([end])),
        numerators=(released,),
        denominator=whole,
    )


def share_interval(
    released: int, whole: int, squared_norm: float, noise_scale: float, terms: Terms, together: int = 1
) -> tuple[float, float]:
    """Return the interval for a number within [0, 1], or for one of several whose intervals hold together.

    Records, and a person's mean of them, are rounded by half a part and by less than a part; the discrete
    noise is within one unit of a Laplace number. All of it is added to what was released.
    """
    share, grid = released / whole, 1.5 / RESOLUTION + 1.0 / whole
    risk = (1.0 - terms.confidence) / together
    return mean_interval(share - grid, share + grid, squared_norm**0.5, noise_scale, risk)
