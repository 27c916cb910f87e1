"""Decide, with rounding counted, whether rows keep the two bounds of a noise norm, and shrink the others.

As in :mod:`dpmarket.learning.row_bounds`: float64 settles what is clear, rational arithmetic the rest, so
that ``N(x) <= 1`` and ``|x|_2 <= E`` are facts about the numbers in the matrix.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.learning import rounding
from dpmarket.privacy.noise_norm import NoiseNorm


def longer_in_shape(x: FloatArray, shape: NoiseNorm) -> tuple[BoolArray, FloatArray]:
    """Return which rows of a dense block break a bound, and by which factor, to rounding, each is too long.

    A factor above 1 by rounding only may belong to a row that keeps its bounds; the first array is exact.
    """
    mask = shape.mask
    factors = _rough_factors(x, mask, shape.euclidean_bound)
    margin = 4.0 * rounding.gamma(x.shape[1] + 8)
    longer = ~(factors <= 1.0 + margin)
    for k in np.flatnonzero((factors > 1.0 - margin) & ~longer):
        longer[k] = not _within(x[k], mask, shape.euclidean_bound)
    return longer, factors


def _rough_factors(x: FloatArray, mask: BoolArray, euclidean_bound: float) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        squares = x * x
        lengths = np.sqrt(squares @ (~mask).astype(np.float64)) + np.abs(x) @ mask.astype(np.float64)
        if euclidean_bound < 1.0:
            lengths = np.maximum(lengths, np.sqrt(squares.sum(axis=1)) / euclidean_bound)
    return np.asarray(np.where(np.isnan(lengths), np.inf, lengths))


def _within(row: FloatArray, mask: BoolArray, euclidean_bound: float) -> bool:
    """Tell exactly whether a row keeps both bounds."""
    joint = sum(Fraction(value) ** 2 for value in row[~mask].tolist() if value)
    alone = [abs(Fraction(value)) for value in row[mask].tolist() if value]
    room = 1 - sum(alone)
    if room < 0 or joint > room**2:
        return False
    return bool(joint + sum(value**2 for value in alone) <= Fraction(euclidean_bound) ** 2)
