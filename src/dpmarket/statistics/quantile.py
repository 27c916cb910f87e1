"""Turn numbers into a private quantile: a race among public candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise import NoiseSource
from dpmarket.statistics.crowd import (
    RESOLUTION,
    Crowd,
    check_terms,
    kept,
    read_crowd,
)
from dpmarket.statistics.exact import race, random_bits
from dpmarket.statistics.histogram import increasing
from dpmarket.statistics.intervals import level_margin
from dpmarket.statistics.mean import interval_of
from dpmarket.statistics.released import ReleasedStatistic, StatisticError, publish


@dataclass(eq=False)
class PrivateQuantile:
    r"""A quantile of a number, chosen among public candidates, with a promise (epsilon) to every person.

    Every candidate t has a score, by how much the weighted share of records below it is above the level, or
    that of records up to it below: 0 for the weighted quantile itself. The candidate with the largest
    :math:`E_t - (\eta/2)\, score_t` wins, :math:`E_t` independent exponentials. That keeps the promise
    :math:`\epsilon_i = a_i \eta` as the exponential mechanism does, with an expected score that is never
    larger.

    Parameters
    ----------
    level
        Strictly between 0 and 1; 0.5 is the median.
    candidates
        Increasing numbers, public, at least three. A record counts at the first candidate that is not below
        it; records beyond the last count there.
    interval_share
        Public share of every promise, from 0 and below 1, that pays for an interval: two more races, for a
        lower and a higher level. 0 means that there is no interval. Where so little was promised that an end
        would be known without a race, its part goes to the quantile itself.
    confidence
        Probability, strictly between 0 and 1, with which the interval holds the population's quantile.
    epsilon, rows_per_person, noise_source
        As in :class:`PrivateMean`.

    Attributes
    ----------
    release_, epsilons_, people_
        As in :class:`PrivateMean`.
    quantile_, interval_
        The winning candidate; and the ends of the interval, or None.

    Notes
    -----
    Guaranteed: as in :class:`PrivateMean`. The error in the number itself depends on the data: where few
    records lie, a small error of the level is a large one of the number.

    Examples
    --------
    >>> incomes = np.random.default_rng(1).gamma(2.0, 20_000, 20_000)
    >>> median = PrivateQuantile(0.5, candidates=range(0, 200_000, 1_000), epsilon=1.0).fit(incomes)
    >>> median.interval_[0] < 33_600 < median.interval_[1], 25_000 < median.quantile_ < 43_000
    (True, True)
    """

    level: float
    candidates: Sequence[float]
    interval_share: float = 0.5
    confidence: float = 0.95
    epsilon: float | None = None
    rows_per_person: int = 1
    noise_source: NoiseSource | None = None
    kind: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        self.level = checks.strictly_between("level", self.level, 0.0, 1.0)
        self.candidates = increasing("candidates", self.candidates)
        self.interval_share = checks.non_negative("interval_share", self.interval_share)
        if self.interval_share >= 1.0:
            raise InvalidInput(f"expected interval_share below 1, got {self.interval_share}.")
        check_terms(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings as plain data, for :func:`statistic_from_dict`."""
        return {
            "kind": self.kind,
            "level": self.level,
            "candidates": list(self.candidates),
            "interval_share": self.interval_share,
            "confidence": self.confidence,
            "rows_per_person": self.rows_per_person,
        }

    @property
    def error(self) -> StatisticError:
        """In squared levels: ``q (1 - q)``, and 8 where candidates lie closely, for the estimate's share."""
        kept = 1.0 - self.interval_share
        spread = self.level * (1.0 - self.level)
        return StatisticError(spread, spread, 8.0 / kept**2, 1.0 / 12.0)

    def fit(
        self,
        records: ArrayLike,
        epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None,
    ) -> Self:
        """Release the quantile.

        Parameters
        ----------
        records
            Finite numbers, shape (records,). A person's records share the person's weight.
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
        values = checks.finite_vector("records", records)
        crowd = read_crowd(self, records, len(values), epsilons, people)
        last = len(self.candidates) - 1
        places = np.minimum(np.searchsorted(np.array(self.candidates), values), last).astype(np.int64)
        below_or_at = list(accumulate(crowd.sums_at(places, last + 1)))
        self.release_, self.epsilons_, self.people_ = kept(crowd, _release(self, crowd, below_or_at))
        return self

    @property
    def quantile_(self) -> float:
        """The released quantile."""
        return float(self.release_.values[0])

    @property
    def interval_(self) -> tuple[float, float] | None:
        """The ends of the interval; None if no share of the promises pays for one."""
        return None if self.release_.lows is None else interval_of(self.release_)


def scores(below_or_at: Sequence[int], level: Fraction) -> list[int]:
    """Return each candidate's score, in parts of weight times the level's denominator.

    Parameters
    ----------
    below_or_at
        Weight of the records up to each candidate; the last is all of it.
    level
        Which quantile.

    Returns
    -------
    list of int
        0 for the weighted quantile; somebody with d parts of weight changes each by at most d times the
        level's denominator.
    """
    wanted = level.numerator * below_or_at[-1]
    found = [number * level.denominator for number in below_or_at]
    return [max(0, before - wanted, wanted - at) for before, at in zip([0, *found[:-1]], found, strict=True)]


def _release(statistic: PrivateQuantile, crowd: Crowd, below_or_at: list[int]) -> ReleasedStatistic:
    stream = random_bits(statistic.noise_source)
    weights, last = crowd.weights, len(statistic.candidates) - 1
    part = Fraction(statistic.interval_share) / 2  # of every promise, for one end

    def winner(level: Fraction, share: Fraction) -> int:
        # Two changes of d parts cost share * (d / RESOLUTION) * unit.
        rate = share * weights.unit / (2 * level.denominator * RESOLUTION)
        return race(stream, scores(below_or_at, level), rate)

    level, kept = Fraction(statistic.level), Fraction(1)
    ends: list[int] = []
    if part > 0:
        rate = 0.5 * float(part) * weights.total_promise
        risk = 0.5 * (1.0 - statistic.confidence)
        margin = level_margin(weights.squared_norm**0.5, last + 1, rate, risk)
        for end, known in ((level - Fraction(margin), 0), (level + Fraction(margin), last)):
            if 0 < end < 1:
                kept -= part
                ends.append(winner(end, part))
            else:
                ends.append(known)
    best = winner(level, kept)
    numbers = np.array(statistic.candidates)
    intervals = None
    if ends:
        # A record counts at the first candidate not below it: the quantile is above the one before.
        intervals = (numbers[[max(ends[0] - 1, 0)]], numbers[[ends[1]]])
    return publish(
        statistic,
        weights,
        labels=(f"quantile {statistic.level:g}",),
        values=numbers[[best]],
        intervals=intervals,
        numerators=(best, *ends),
        denominator=1,
    )
