r"""Turn promises into whole-number weights, rounded down, and into the noise that they need.

A weight of one is worth ``unit`` of epsilon, a power of two: person i has the weight
``floor(epsilon_i / unit)`` and spends ``weight * unit``, which a float holds exactly and which is never above
the promise. If a statistic changes by at most ``change`` per unit of weight when somebody's records are
replaced, discrete Laplace noise of scale ``change / unit`` costs that person exactly ``weight * unit``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput

_BITS = 40  # of the largest weight: what rounding down loses of an epsilon is 2**-40 of the largest
_LIMB = 20
_SMALLEST = 1e-50  # nobody's promise either: squares of such numbers leave the range of floats
_LARGEST = 1e6  # nobody's promise: it says that nothing is protected


@dataclass(frozen=True, eq=False)
class IntegerWeights:
    """One whole number per person, and what a weight of one spends.

    Attributes
    ----------
    counts
        The weights, shape (people,), below 2**40, read-only.
    unit_exponent
        A weight of one spends an epsilon of 2 to this power.
    """

    counts: IntArray
    unit_exponent: int

    def __post_init__(self) -> None:
        read_only(self.counts)

    @property
    def unit(self) -> Fraction:
        """Epsilon per unit of weight."""
        return Fraction(2) ** self.unit_exponent

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return weighted_sum(self.counts, np.ones(self.counts.size, dtype=np.int64))

    @property
    def total_promise(self) -> float:
        """All epsilons that are spent, in sum: the noise rate (eta) of a statistic with range 1."""
        return float(self.total * self.unit)

    @property
    def effective_people(self) -> float:
        """As many people with equal weights would have weights of the same norm."""
        relative = self.counts / float(self.counts.max())
        return float(relative.sum()) ** 2 / float(relative @ relative)

    @property
    def squared_norm(self) -> float:
        """The sum of the squares of the weights, divided so that they sum to 1."""
        return 1.0 / self.effective_people

    @property
    def spent(self) -> FloatArray:
        """What each person spends, exactly."""
        return np.ldexp(self.counts.astype(np.float64), self.unit_exponent)


def integer_weights(epsilons: FloatArray) -> IntegerWeights:
    """Return the weights that spend as much of the promises as whole numbers can.

    Raises
    ------
    InvalidInput
        If all promises are 0, or the largest is not between 1e-50 and 1e6.
    """
    largest = float(epsilons.max())
    if largest == 0.0:
        raise InvalidInput("expected at least one epsilon above 0, got none.")
    if not _SMALLEST <= largest <= _LARGEST:
        raise InvalidInput(f"expected the largest epsilon to be between {_SMALLEST} and {_LARGEST:g}.")
    exponent = math.frexp(largest)[1] - _BITS
    # Both steps are exact in floats: a shift of the exponent, and the whole part.
    return IntegerWeights(np.floor(np.ldexp(epsilons, -exponent)).astype(np.int64), exponent)


def weighted_sum(counts: IntArray, numbers: IntArray) -> int:
    """Return the exact sum of products of weights below 2**40 and whole numbers up to 2**24 in size.

    The two halves of the weights are multiplied apart, and added in blocks, so that 64 bits are enough.
    """
    high = (counts >> _LIMB) * numbers
    low = (counts & ((1 << _LIMB) - 1)) * numbers
    return (_total(high) << _LIMB) + _total(low)


def _total(products: IntArray) -> int:
    """Add numbers below 2**44 in size in blocks whose sums stay within 64 bits."""
    block = 1 << 18
    return sum(int(products[start : start + block].sum()) for start in range(0, products.size, block))
