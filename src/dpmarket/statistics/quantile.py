"""A private quantile: report noisy max among public candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy.exact import report_noisy_max
from dpmarket.privacy.noise import Bits
from dpmarket.statistics.intervals import level_margin
from dpmarket.statistics.release import StatisticError
from dpmarket.statistics.sample import RESOLUTION, WeightedSample
from dpmarket.statistics.statistic import Statistic, Values, increasing


@dataclass(eq=False)
class PrivateQuantile(Statistic):
    r"""A quantile of a number, chosen among public candidates, with an epsilon for each person.

    The score of a candidate is by how much the weighted share of records below it exceeds the level, or that
    of records up to it falls short. The largest :math:`E_t - (\eta/2)\, score_t` wins, with independent
    exponentials :math:`E_t` (report noisy max).

    Parameters
    ----------
    level
        Strictly between 0 and 1; 0.5 is the median.
    candidates
        Increasing numbers, public, at least three. A record counts at the first candidate that is not below
        it; records beyond the last count there.
    interval_share
        Public share of every epsilon, from 0 and below 1, that pays for an interval, 0 for none: two more
        choices, at a lower and a higher level. Where these levels are not within 0 and 1, the interval ends
        where the candidates do, and the share goes to the quantile itself.
    confidence, epsilon, rows_per_person, noise_source, outside
        As in :class:`Statistic`. A person's records share the person's weight.

    Examples
    --------
    >>> incomes = np.random.default_rng(1).gamma(2.0, 20_000, 20_000)
    >>> median = PrivateQuantile(0.5, candidates=range(0, 200_000, 1_000), epsilon=1.0).fit(incomes)
    >>> median.interval_[0] < 33_600 < median.interval_[1], 25_000 < median.value_ < 43_000
    (True, True)
    """

    level: float
    candidates: Sequence[float]
    interval_share: float = 0.5
    kind: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.level = checks.strictly_between("level", self.level, 0.0, 1.0)
        self.candidates = increasing("candidates", self.candidates)
        self.interval_share = checks.non_negative("interval_share", self.interval_share)
        if self.interval_share >= 1.0:
            raise InvalidInput(f"expected interval_share below 1, got {self.interval_share}.")

    @property
    def error(self) -> StatisticError:
        """In squared levels: ``q (1 - q)``, and 8 where candidates lie closely, for the estimate's share."""
        spread = self.level * (1.0 - self.level)
        return StatisticError(spread, 8.0 / (1.0 - self.interval_share) ** 2, 1.0 / 12.0)

    def _read(self, records: Any) -> tuple[IntArray, BoolArray]:
        values, candidates = checks.finite_vector("records", records), np.array(self.candidates)
        places = np.minimum(np.searchsorted(candidates, values), len(candidates) - 1)
        return places.astype(np.int64), (values < candidates[0]) | (values > candidates[-1])

    def _draw(self, sample: WeightedSample, numbers: IntArray, stream: Bits) -> Values:
        candidates = np.array(self.candidates)
        last = len(candidates) - 1
        below_or_at = list(accumulate(sample.sums_at(numbers, last + 1)))

        def winner(level: Fraction, share: Fraction) -> int:
            # A weight of w changes scores by w * RESOLUTION * denominator: this costs share * w * unit.
            rate = share * sample.unit / (2 * level.denominator * RESOLUTION)
            return report_noisy_max(stream, scores(below_or_at, level), rate)

        part = Fraction(self.interval_share) / 2  # of every epsilon, for one end
        level, left = Fraction(self.level), Fraction(1)
        ends: list[int] = []
        if part > 0:
            rate = 0.5 * float(part) * sample.total_epsilon
            margin = level_margin(sample.norm, last + 1, rate, 0.5 * (1.0 - self.confidence))
            for end, known in ((level - Fraction(margin), 0), (level + Fraction(margin), last)):
                if 0 < end < 1:
                    left -= part
                    ends.append(winner(end, part))
                else:
                    ends.append(known)
        best = winner(level, left)
        # A record counts at the first candidate not below it: the quantile is above the one before.
        interval = candidates[[max(ends[0] - 1, 0), ends[1]]][None] if ends else None
        label = f"quantile {self.level:g}"
        return Values((label,), candidates[[best]], (best, *ends), 1, interval)


def scores(below_or_at: Sequence[int], level: Fraction) -> list[int]:
    """Return each candidate's score, in parts of weight times the level's denominator.

    ``below_or_at`` is the weight of the records up to each candidate; the last is all of it. A person with d
    parts of weight changes each score by at most d times the level's denominator.
    """
    wanted = level.numerator * below_or_at[-1]
    found = [number * level.denominator for number in below_or_at]
    return [max(0, before - wanted, wanted - at) for before, at in zip([0, *found[:-1]], found, strict=True)]
