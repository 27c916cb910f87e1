r"""Turn virtual costs, in order, into what all sellers together supply at many noise rates at once.

At a multiplier r everybody fills the chords of the promise's price one after the other
(:mod:`dpmarket.mechanisms.gaussian_objective`): the part of chord j that somebody with the virtual cost psi
uses is :math:`x = \mathrm{clip}((r - \gamma \psi q_j) / s - k_j,\, 0,\, l_j)`, with the chord's slope q,
first knot k and length l. In the order of psi those who use all of a chord come first, then those who use
part of it: how many there are, and the sums of psi and of its square over them, are all that a total needs.
A crowd of any size costs as much as its number of chords.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpmarket.arrays import FloatArray

if TYPE_CHECKING:
    from dpmarket.mechanisms.gaussian_objective import PromisePrice

_HALVINGS = 44
_STEPS = 4


@dataclass(frozen=True, eq=False)
class Crowd:
    """Virtual costs in order, all finite, with the sums up to each of them.

    Attributes
    ----------
    psi
        Rising, shape (sellers,).
    sums, squares
        Sums of psi and of its square over the first k sellers, shape (sellers + 1,).
    """

    psi: FloatArray
    sums: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, psi: FloatArray) -> Crowd:
        """Return the crowd of these sellers, in any order."""
        ordered = np.sort(psi)
        sums, squares = (np.append(0.0, np.cumsum(values)) for values in (ordered, ordered**2))
        return cls(ordered, sums, squares)

    def supply(
        self, price: PromisePrice, gamma: float, spreads: FloatArray, r: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sum of all mu, how fast it grows with r, and the sum of everybody's least cost.

        Elementwise over ``spreads`` (s of each noise rate) and ``r``.
        """
        chords = _Chords(self, price, gamma, spreads, r)
        return chords.total(), chords.growth(), chords.least()

    def multipliers(
        self, price: PromisePrice, gamma: float, spreads: FloatArray, etas: FloatArray
    ) -> FloatArray:
        """Return the r at which all mu add up to each of ``etas``; NaN where they cannot."""
        if not self.psi.size:
            return np.full(etas.size, np.nan)
        most = gamma * price.slopes[-1] * self.psi[-1] + spreads * price.knots[-1]
        low, high = np.zeros(etas.size), 1.001 * most
        reachable = _Chords(self, price, gamma, spreads, high).total() >= etas * (1.0 - 1e-12)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            short = _Chords(self, price, gamma, spreads, middle).total() < etas
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        r = high
        for _ in range(_STEPS):
            # Totals are linear between bends: a step or two hit the root to rounding.
            chords = _Chords(self, price, gamma, spreads, r)
            slope = chords.growth()
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.where(slope > 0.0, (etas - chords.total()) / slope, 0.0)
            r = np.clip(r + step, low, high)
        return np.where(reachable, r, np.nan)


class _Chords:
    """How much of every chord a crowd uses at each noise rate: rows are noise rates, columns chords."""

    def __init__(
        self, crowd: Crowd, price: PromisePrice, gamma: float, spreads: FloatArray, r: FloatArray
    ) -> None:
        self.crowd, self.spreads = crowd, spreads
        self.s, self.at = spreads[:, None], r[:, None]
        self.costs = gamma * price.slopes
        self.first, self.length = price.knots[:-1], price.lengths
        begun = (self.at - self.s * self.first) / self.costs
        ended = (self.at - self.s * price.knots[1:]) / self.costs
        self.some = np.searchsorted(crowd.psi, begun, side="left")
        self.whole = np.minimum(np.searchsorted(crowd.psi, ended, side="right"), self.some)
        self.parts = self.some - self.whole
        self.between = crowd.sums[self.some] - crowd.sums[self.whole]
        # x = q - p * psi for those who use part of a chord.
        self.q, self.p = self.at / self.s - self.first, self.costs / self.s

    def total(self) -> FloatArray:
        """Return the sum of all mu."""
        used = self.whole * self.length + self.parts * self.q - self.p * self.between
        return np.asarray(used.sum(axis=1))

    def growth(self) -> FloatArray:
        """Return how fast the sum of all mu grows with r."""
        return np.asarray(self.parts.sum(axis=1) / self.spreads)

    def least(self) -> FloatArray:
        """Return the sum of everybody's least cost."""
        s, q, p, sums, squares = self.s, self.q, self.p, self.crowd.sums, self.crowd.squares
        square = self.parts * q * q - 2.0 * q * p * self.between
        square += p * p * (squares[self.some] - squares[self.whole])
        margins = self.at - s * self.first - 0.5 * s * self.length
        full = self.length * (self.whole * margins - self.costs * sums[self.whole])
        return np.asarray((-full - 0.5 * s * np.maximum(square, 0.0)).sum(axis=1))
