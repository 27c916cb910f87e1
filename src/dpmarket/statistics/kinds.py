"""The five kinds of statistics: mean, share, histogram, quantile, vector mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.errors import InvalidInput, NotConverged
from dpmarket.numerics import project_to_capped_simplex
from dpmarket.privacy.noise import Bits, report_noisy_max, rounded_radial
from dpmarket.statistics.intervals import level_margin, vector_radius
from dpmarket.statistics.release import StatisticError
from dpmarket.statistics.sample import RESOLUTION, WeightedSample
from dpmarket.statistics.statistic import Statistic, Values, check_range, increasing, noisy_shares

_SHORTER = 1.0 - 2.0**-20  # for a row that rounding left longer than the bound


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
        """What spread and noise cost."""
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


@dataclass(eq=False)
class PrivateHistogram(Statistic):
    r"""The share of people in each of K public categories, with an epsilon for each person.

    A person who moves from one category to another changes two weighted counts, so that each gets noise of
    scale :math:`2 / \eta`; of two categories only one is counted, with noise of scale :math:`1 / \eta`. The
    shares are the nearest ones that sum to 1.

    Parameters
    ----------
    categories, edges
        At least two texts or whole numbers, all different, from what was asked, never from these records; and
        None, or increasing edges of bins for numbers, one more than categories: see :meth:`from_edges`.
    confidence, epsilon, rows_per_person, noise_source, outside
        As in :class:`Statistic`. A person's records share the person's weight.

    Examples
    --------
    >>> histogram = PrivateHistogram(("train", "car"), epsilon=1.0).fit(["train"] * 300 + ["car"] * 100)
    >>> bool(abs(histogram.value_ - [0.75, 0.25]).max() < 0.2), round(float(histogram.value_.sum()), 9)
    (True, 1.0)
    >>> PrivateHistogram.from_edges([0, 10, 20]).categories
    ('0 to 10', '10 to 20')
    """

    categories: Sequence[Any]
    edges: Sequence[float] | None = None
    kind: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.categories = tuple(self.categories)
        if len(self.categories) < 2 or len(set(self.categories)) < len(self.categories):
            raise InvalidInput("expected categories to be at least two, all different.")
        if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in self.categories):
            raise InvalidInput("expected categories to be texts or whole numbers; PrivateShare counts yes.")
        if self.edges is not None:
            self.edges = increasing("edges", self.edges)
            if len(self.edges) != len(self.categories) + 1:
                raise InvalidInput("expected one more edge than categories.")

    @classmethod
    def from_edges(cls, edges: Sequence[float], **settings: Any) -> PrivateHistogram:
        """Return the histogram of a number in bins ``[edge, next edge)``; values outside count at an end."""
        checked = increasing("edges", edges)
        return cls(tuple(f"{low:g} to {high:g}" for low, high in pairwise(checked)), checked, **settings)

    @property
    def error(self) -> StatisticError:
        """``1 - 1/K`` and ``8 K`` (4 for two categories): what spread and noise cost."""
        k = len(self.categories)
        spread, noise = 1.0 - 1.0 / k, 8.0 * k if k > 2 else 4.0
        return StatisticError(spread, noise, (k - 1.0) / (k * (k + 1.0)))

    def _read(self, records: Any) -> tuple[IntArray, BoolArray]:
        if self.edges is not None:
            values = checks.finite_vector("records", records)
            bins = np.searchsorted(np.array(self.edges[1:-1]), values, side="right")
            return bins.astype(np.int64), (values < self.edges[0]) | (values > self.edges[-1])
        place = {category: k for k, category in enumerate(self.categories)}
        given = records.tolist() if hasattr(records, "tolist") else list(records)
        try:
            positions = np.array([place[record] for record in given], dtype=np.int64)
        except (KeyError, TypeError):
            raise InvalidInput("expected every record to be one of the categories; some are not.") from None
        return positions, np.zeros(positions.size, dtype=bool)

    def _draw(self, sample: WeightedSample, numbers: IntArray, stream: Bits) -> Values:
        counts = sample.sums_at(numbers, len(self.categories))
        # Two counts have a known sum, so that the second alone says all; else a person changes two of them.
        told, changed = (counts[1:], 1) if len(counts) == 2 else (counts, 2)
        labels = tuple(str(category) for category in self.categories)
        found = noisy_shares(labels, sample, told, changed, self.confidence, stream)
        shares, ends = found.values, found.intervals
        if len(counts) == 2:
            shares = np.array([1.0 - shares[0], shares[0]])
            ends = np.array([1.0 - ends[0, ::-1], ends[0]])
        return found._replace(values=project_to_capped_simplex(shares), intervals=ends)


@dataclass(eq=False)
class PrivateQuantile(Statistic):
    r"""A quantile of a number, chosen among public candidates, with an epsilon for each person.

    The score of a candidate is by how much the weighted share of records below it exceeds the level, or that
    of records up to it falls short; :func:`~dpmarket.privacy.noise.report_noisy_max` chooses.

    Parameters
    ----------
    level, candidates
        Strictly between 0 and 1; and at least three increasing numbers, public. A record counts at the first
        candidate that is not below it; records beyond the last count there.
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
    """Return each candidate's score, in parts of weight times the level's denominator."""
    wanted = level.numerator * below_or_at[-1]
    found = [number * level.denominator for number in below_or_at]
    return [max(0, before - wanted, wanted - at) for before, at in zip([0, *found[:-1]], found, strict=True)]


@dataclass(eq=False)
class PrivateVectorMean(Statistic):
    r"""The mean of vectors no longer than a public bound R, with an epsilon for each person.

    The noise has a density proportional to :math:`e^{-\eta |b| / (2R)}`, for n coordinates together, and is
    rounded down to whole parts, exactly: no part of an epsilon pays for rounding.

    Parameters
    ----------
    names, bound
        A name for each coordinate; and R > 0, public. Longer vectors lie outside and are shortened.
    confidence, epsilon, rows_per_person, noise_source, outside
        As in :class:`Statistic`. What counts is the mean of each person's records; ``release_.radius`` is
        that of a ball around it that holds the population's mean.

    Examples
    --------
    >>> points = np.random.default_rng(0).uniform(-0.5, 0.5, (400, 2))
    >>> mean = PrivateVectorMean(("east", "north"), bound=1.0, epsilon=1.0).fit(points)
    >>> float(np.linalg.norm(mean.value_)) < mean.release_.radius
    True
    """

    names: Sequence[str]
    bound: float
    kind: ClassVar[str] = "vector mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.names = () if isinstance(self.names, str) else tuple(self.names)
        texts = all(isinstance(name, str) for name in self.names)
        if not texts or not self.names or len(set(self.names)) < len(self.names):
            raise InvalidInput("expected names to be a text for each coordinate, all different.")
        self.bound = checks.positive("bound", self.bound)
        check_range("bound", self.bound)

    @property
    def error(self) -> StatisticError:
        """``R^2 n / (n + 2)`` and ``4 n (n + 1) R^2``: what spread and noise cost."""
        n, squared = len(self.names), self.bound**2
        usual = squared * n / (n + 2.0)
        return StatisticError(usual, 4.0 * n * (n + 1.0) * squared, usual)

    def _read(self, records: Any) -> tuple[IntArray, BoolArray]:
        rows = checks.finite_numbers("records", records)
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            raise InvalidInput(
                f"expected records of shape (records, {len(self.names)}), got an array of shape {rows.shape}."
            )
        return whole_rows(rows, self.bound)

    def _draw(self, sample: WeightedSample, numbers: IntArray, stream: Bits) -> Values:
        n, bound, whole = numbers.shape[1], self.bound, sample.total * RESOLUTION
        # A replaced row moves the sum by at most twice the weight times RESOLUTION.
        noise = rounded_radial(stream, n, sample.unit / RESOLUTION)
        released = tuple(sample.sum_of_means(numbers[:, j]) + noise[j] for j in range(n))
        mean = np.array([bound * (number / whole) for number in released])
        length = float(np.linalg.norm(mean))
        deviation = bound * sample.norm
        radius = vector_radius(n, deviation, 2.0 * bound / sample.total_epsilon, 1.0 - self.confidence)
        # Rows and a person's mean are cut off by less than a part each, the noise by less than a unit.
        radius += bound * math.sqrt(n) * (2.0 / RESOLUTION + 1.0 / whole)
        inside = mean * min(1.0, bound / length) if length > 0.0 else mean
        return Values(tuple(self.names), inside, released, whole, radius=radius)


def whole_rows(rows: FloatArray, bound: float) -> tuple[IntArray, BoolArray]:
    """Return rows in whole parts of the bound, none longer than RESOLUTION, and which had to be shortened."""
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


KINDS = (PrivateMean, PrivateShare, PrivateHistogram, PrivateQuantile, PrivateVectorMean)


def statistic_from_dict(question: Mapping[str, Any]) -> Statistic:
    """Return the statistic whose ``to_dict()`` gave this data.

    Parameters
    ----------
    question
        Its ``kind`` and its public settings by name. Other settings are refused.

    Returns
    -------
    Statistic

    Examples
    --------
    >>> statistic_from_dict({"kind": "mean", "low": 0, "high": 120}).high
    120.0
    """
    settings = dict(question) if isinstance(question, Mapping) else {}
    kind = settings.pop("kind", None)
    made = next((each for each in KINDS if each.kind == kind), None)
    if made is None:
        raise InvalidInput(f"expected a statistic's kind: {', '.join(each.kind for each in KINDS)}.")
    unknown = set(settings) - {each.name for each in fields(made)} | ({"noise_source"} & set(settings))
    if unknown:
        raise InvalidInput(f"expected settings of a {kind}, got {', '.join(sorted(map(str, unknown)))}.")
    try:
        return made(**settings)
    except TypeError:
        raise InvalidInput(f"expected all settings of a {kind}: one is missing or of a wrong type.") from None
