"""The private share of people who answer yes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise import Bits
from dpmarket.statistics.release import StatisticError
from dpmarket.statistics.sample import RESOLUTION, WeightedSample
from dpmarket.statistics.statistic import Statistic, Values, noisy_shares


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
