"""Turn the answers to many lies into the worst of them, and into a profile that can be drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.audit.answers import Asked

_BINS = 81


@dataclass(frozen=True)
class GainProfile:
    """Gains of lying against how far the lie is from the truth, over all sellers, in bins.

    Attributes
    ----------
    distances : report less cost, as a share of the support's length: the middle of each bin.
    largest, mean : the largest and the mean gain in each bin, relative to the money in play.
    """

    distances: tuple[float, ...]
    largest: tuple[float, ...]
    mean: tuple[float, ...]


class GainTally:
    """Adds up gains, lie by lie; a gain is compared to the money in play, payments and costs."""

    def __init__(self, extent: float, tolerance: float, minor_unit: float) -> None:
        self.tried = 0
        self.largest = -np.inf
        self._extent, self._tolerance, self._unit = extent, tolerance, minor_unit
        self._worst = -np.inf
        self._top = np.full(_BINS, -np.inf)
        self._sum, self._count = np.zeros(_BINS), np.zeros(_BINS)

    def add(self, cost: float, lies: FloatArray, asked: Asked) -> float | None:
        """Count the lies of one seller; return the worst lie of all if it is among them.

        ``asked`` holds the truth first and then an answer for every lie.
        """
        answered = asked.answered[1:]
        epsilons, payments = asked.epsilons[1:][answered], asked.payments[1:][answered]
        reports = lies[answered]
        self.tried += int(lies.size)
        if not reports.size:
            return None
        truth_epsilon, truth_payment = float(asked.epsilons[0]), float(asked.payments[0])
        gains = (payments - cost * epsilons) - (truth_payment - cost * truth_epsilon)
        money = payments + truth_payment + cost * (epsilons + truth_epsilon)
        relative = gains / np.maximum(money, 5e-324)
        self.largest = max(self.largest, float(gains.max()))
        bins = np.clip(((reports - cost) / self._extent + 1.0) / 2.0 * _BINS, 0, _BINS - 1).astype(np.int64)
        np.maximum.at(self._top, bins, relative)
        np.add.at(self._sum, bins, relative)
        np.add.at(self._count, bins, 1.0)
        # Beyond what is allowed for rounding to money; where nothing is allowed, the plain relative gain.
        excess = (gains - self._unit) / np.maximum(money, 5e-324)
        k = int(excess.argmax())
        if excess[k] <= self._worst:
            return None
        self._worst = float(excess[k])
        return float(reports[k])

    def profile(self) -> GainProfile:
        """Return the gains of all lies so far by their distance from the truth."""
        some = self._count > 0.0
        middles = (np.arange(_BINS) + 0.5) / _BINS * 2.0 - 1.0
        return GainProfile(
            tuple(middles[some].tolist()),
            tuple(self._top[some].tolist()),
            tuple((self._sum[some] / self._count[some]).tolist()),
        )
