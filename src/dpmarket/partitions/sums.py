"""Turn numbers into exact sums per bucket, which do not depend on how the numbers were divided or ordered.

A bucket holds all floats with the same exponent and the same 12 leading bits of the mantissa. What is left of
a number are 40 trailing bits: a whole number, of which a bucket keeps the sum and the sum of squares, in
whole numbers of two limbs each, and the least and the largest. So every sum is exact, and adding the sums of
partitions is associative and commutative to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.partitions import kernels

_CHUNK = 1 << 22
_LIMB = 32
_LEAST = -1074  # the exponent of the least float


@dataclass(frozen=True, eq=False)
class BucketSums:
    """Exact sums of numbers of at least 0, bucket by bucket.

    Attributes
    ----------
    buckets
        The numbers of the buckets that hold anything, increasing; shape (n,).
    limbs
        Six whole numbers for each, ``limbs[..., 0] * 2**32 + limbs[..., 1]``: how many there are, the sums of
        the high and of the low 20 of the trailing bits, and of their squares and products.
    extremes
        The least and the largest trailing bits of each; shape (n, 2).

    Examples
    --------
    >>> one, other = BucketSums.of(np.array([1.5, 2.0])), BucketSums.of(np.array([1.5]))
    >>> merged([one, other]) == merged([other, one]) == BucketSums.of(np.array([1.5, 2.0, 1.5]))
    True
    >>> merged([one, other]).counts.tolist()
    [2, 1]
    """

    buckets: IntArray
    limbs: IntArray
    extremes: IntArray

    @classmethod
    def of(cls, values: FloatArray) -> BucketSums:
        """Return the sums of finite numbers, none below 0."""
        bits = np.ascontiguousarray(values).view(np.int64)
        parts = []
        for first in range(0, max(bits.size, 1), _CHUNK):
            part = bits[first : first + _CHUNK]
            pages, count = kernels.pages_of(part)
            sums = np.zeros((count * 4096, kernels.QUANTITIES), dtype=np.int64)
            extremes = np.tile([1 << 40, -1], (count * 4096, 1))
            kernels.add_to_buckets(part, pages, sums, extremes)
            rows = np.flatnonzero(sums[:, 0])
            exponents = np.flatnonzero(pages >= 0)
            buckets = exponents[rows // 4096] * 4096 + rows % 4096
            parts.append(cls(buckets, _with_limbs(sums[rows]), extremes[rows]))
        return parts[0] if len(parts) == 1 else merged(parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BucketSums):
            return NotImplemented
        return all(
            np.array_equal(one, another) for one, another in zip(self._parts, other._parts, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def _parts(self) -> tuple[IntArray, ...]:
        return self.buckets, self.limbs, self.extremes

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The least and the largest number in each bucket."""
        bits = (self.buckets[:, None] << 40) + self.extremes
        low, high = np.ascontiguousarray(bits.T).view(np.float64)
        return low, high

    @property
    def counts(self) -> IntArray:
        """How many numbers each bucket holds."""
        counts: IntArray = (self.limbs[:, 0, 0] << _LIMB) + self.limbs[:, 0, 1]
        return counts

    @property
    def unit(self) -> int:
        """The exponent of the power of two of which all numbers here are whole multiples."""
        exponents = self.buckets >> 12
        return int(np.maximum(exponents.min(initial=2046), 1)) - 1075

    def moments(self, unit: int) -> tuple[list[int], list[int]]:
        """Return each bucket's sum and sum of squares, exactly: in 2**unit and in its square."""
        fits = int(self.limbs[..., 0].max(initial=0)) >> (62 - _LIMB) == 0
        wide = self.limbs if fits else self.limbs.astype(object)
        # Column by column: a tuple for each bucket would take longer than its numbers.
        counts, *parts = ((wide[..., 0] << _LIMB) + wide[..., 1]).T.tolist()
        bases, shifts = leading(self.buckets, unit)
        trailing = [(high << 20) + low for high, low in zip(parts[0], parts[1], strict=True)]
        own = [(a << 40) + (b << 21) + c for a, b, c in zip(*parts[2:], strict=True)]
        rows = zip(counts, bases, shifts, trailing, strict=True)
        sums = [(n * base + rest) << shift for n, base, shift, rest in rows]
        rows = zip(counts, bases, shifts, trailing, strict=True)
        squares = [
            (base * (n * base + 2 * rest) + square) << (2 * shift)
            for (n, base, shift, rest), square in zip(rows, own, strict=True)
        ]
        return sums, squares


def merged(parts: Iterable[BucketSums]) -> BucketSums:
    """Return the sums over several parts, the same bits in whatever order they come."""
    known = list(parts)
    first = known[0].buckets
    if all(np.array_equal(part.buckets, first) for part in known[1:]):  # as a rule, where sellers are many
        buckets, limbs, extremes = first, known[0].limbs.copy(), known[0].extremes.copy()
        everywhere: slice | IntArray = slice(None)
        rest = [(everywhere, part) for part in known[1:]]
    else:
        buckets = np.unique(np.concatenate([part.buckets for part in known]))
        limbs = np.zeros((buckets.size, kernels.QUANTITIES, 2), dtype=np.int64)
        extremes = np.tile([1 << 40, -1], (buckets.size, 1))
        rest = [(np.searchsorted(buckets, part.buckets), part) for part in known]
    for where, part in rest:
        limbs[where] += part.limbs
        extremes[where, 0] = np.minimum(extremes[where, 0], part.extremes[:, 0])
        extremes[where, 1] = np.maximum(extremes[where, 1], part.extremes[:, 1])
    carry = limbs[..., 1] >> _LIMB  # fewer than 2**31 parts: no limb has overflowed
    limbs[..., 0] += carry
    limbs[..., 1] -= carry << _LIMB
    return BucketSums(buckets, limbs, extremes)


def whole_sum(values: FloatArray) -> int:
    """Return the sum of finite numbers, none below 0, as a multiple of the least float; see :func:`total_of`.

    Examples
    --------
    >>> total_of([whole_sum(np.array([1e16, 1.0])), whole_sum(np.array([1.0]))])
    1.0000000000000002e+16
    """
    partial = np.zeros((4, 2048, 2), dtype=np.int64)
    kernels.add_to_exponents(np.ascontiguousarray(values).view(np.int64), partial)
    sums = partial.sum(axis=0)
    there = np.flatnonzero(sums.any(axis=1)).tolist()
    parts = zip(there, sums[there].tolist(), strict=True)
    return sum(((high << 26) + low) << max(exponent - 1, 0) for exponent, (high, low) in parts)


def total_of(parts: Iterable[int]) -> float:
    """Return the sum of what :func:`whole_sum` gave for several parts, rounded once."""
    return as_float(sum(parts), _LEAST)


def as_float(whole: int, unit: int) -> float:
    """Return ``whole * 2**unit``, rounded to the nearest float."""
    return whole * 2.0**unit if whole.bit_length() <= 53 and unit > -1000 else _ratio(whole, unit)


def _ratio(whole: int, unit: int) -> float:
    return float(whole << unit) if unit >= 0 else whole / (1 << -unit)


def leading(buckets: IntArray, unit: int) -> tuple[list[int], list[int]]:
    """Return the least numbers of buckets, whole ones, and how far to shift each for units of 2**unit."""
    exponents, mantissas = buckets >> 12, (buckets & 4095) << 40
    whole = np.where(exponents > 0, (1 << 52) + mantissas, mantissas)
    return whole.tolist(), (np.maximum(exponents, 1) - 1075 - unit).tolist()


def _with_limbs(sums: IntArray) -> IntArray:
    limbs = np.empty((*sums.shape, 2), dtype=np.int64)
    limbs[..., 0] = sums >> _LIMB
    limbs[..., 1] = sums & ((1 << _LIMB) - 1)
    return limbs
