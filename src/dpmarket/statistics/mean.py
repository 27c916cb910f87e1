"""The private mean of a number with public bounds, and the share of people who answer yes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise import Bits
from dpmarket.statistics.release import StatisticError
from dpmarket.statistics.sample import RESOLUTION, WeightedSample
from dpmarket.statistics.statistic import Statistic, Values, check_range, noisy_shares


@dataclass(eq=False)
class PrivateMean(Statistic):
    r"""The mean of a number with public bounds, with an epsilon for each person.

    .. math:: low + (high - low) \sum_i a_i x_i + Laplace((high - low) / \eta),
       \quad a_i = \epsilon_i / \eta, \quad \eta = \sum_i \epsilon_i

    Parameters
    ----------
    low, high
        Public bounds, from what the number means, never from these records.
    confidence, epsilon, rows_per_person, noise_source, outside
        As in :class:`Statistic`. What counts is the mean of each person's records.

    Examples
    --------
    >>> mean = PrivateMean(low=18, high=90).fit(np.linspace(20, 60, 500), epsilons=np.full(500, 1.2))
    >>> mean.interval_[0] < 40 < mean.interval_[1], float(mean.epsilons_.max()) <= 1.2
    (True, True)
    """

    low: float
    high: float
    kind: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.low, self.high = (checks.finite(name, getattr(self, name)) for name in ("low", "high"))
        if not self.low < self.high:
            raise InvalidInput(f"expected low < high, got low={self.low}, high={self.high}.")
        check_range("high - low", self.high - self.low)

    @property
    def error(self) -> StatisticError:
        """A twelfth of the squared range, twice the squared range: what spread and noise cost."""
        squared = (self.high - self.low) ** 2
        return StatisticError(squared / 12.0, 2.0 * squared, squared / 12.0)

    def _read(self, records: Any) -> tuple[IntArray, BoolArray]:
        values = checks.finite_vector("records", records)
        half = 0.5 * self.high - 0.5 * self.low
        shares = (0.5 * np.clip(values, self.low, self.high) - 0.5 * self.low) / half
        parts = np.rint(np.clip(shares, 0.0, 1.0) * RESOLUTION)
        return parts.astype(np.int64), (values < self.low) | (values > self.high)

    def _draw(self, sample: WeightedSample, numbers: IntArray, stream: Bits) -> Values:
        # A person's mean moves by at most RESOLUTION parts, the weighted sum by that times the weight.
        found = noisy_shares((self.kind,), sample, [sample.sum_of_means(numbers)], 1, self.confidence, stream)
        return found._replace(values=self._in_range(found.values), intervals=self._in_range(found.intervals))

    def _in_range(self, shares: FloatArray) -> FloatArray:
        return np.clip(self.low + (self.high - self.low) * shares, self.low, self.high)


@dataclass(eq=False)
class PrivateShare(Statistic):
    """The share of people who answer yes, with an epsilon for each person: the mean of 1 and 0.

    Parameters
    ----------
    confidence, epsilon, rows_per_person, noise_source, outside
        As in :class:`Statistic`. Records are True and False, or 1 and 0.

    Examples
    --------
    >>> share = PrivateShare(epsilon=1.0).fit([True, False] * 200)
    >>> share.interval_[0] < 0.5 < share.interval_[1], share.release_.effective_people
    (True, 400.0)
    """

    kind: ClassVar[str] = "share"

    @property
    def error(self) -> StatisticError:
        """A quarter and two: what spread and noise cost."""
        return StatisticError(0.25, 2.0, 1.0 / 12.0)

    def _read(self, records: Any) -> tuple[IntArray, BoolArray]:
        given = np.asarray(records)
        answers = checks.finite_vector("records", given.astype(np.float64) if given.dtype == bool else given)
        if not np.isin(answers, (0.0, 1.0)).all():
            raise InvalidInput("expected every record to be True or False, or 1 or 0; some are not.")
        return answers.astype(np.int64) * RESOLUTION, np.zeros(answers.size, dtype=bool)

    def _draw(self, sample: WeightedSample, numbers: IntArray, stream: Bits) -> Values:
        found = noisy_shares(("yes",), sample, [sample.sum_of_means(numbers)], 1, self.confidence, stream)
        return found._replace(values=np.clip(found.values, 0.0, 1.0))
