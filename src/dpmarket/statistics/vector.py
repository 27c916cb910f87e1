"""The private mean of vectors of bounded length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.errors import InvalidInput, NotConverged
from dpmarket.privacy.exact import rounded_radial
from dpmarket.privacy.noise import Bits
from dpmarket.statistics.intervals import vector_radius
from dpmarket.statistics.release import StatisticError
from dpmarket.statistics.sample import RESOLUTION, WeightedSample
from dpmarket.statistics.statistic import Statistic, Values, check_range

_SHORTER = 1.0 - 2.0**-20  # for a row that rounding left longer than the bound


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
