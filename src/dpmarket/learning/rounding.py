"""What rigorous error bounds are written in, and vectors as unevaluated sums of two floats.

A sum of k products in any order is off by at most gamma(k) times the sum of the absolute products (Higham,
*Accuracy and Stability of Numerical Algorithms*, section 3.1); compensated, by gamma(k)^2 times it, if high
and low part are kept (Ogita, Rump and Oishi, *Accurate sum and dot product*, 2005).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.numerics import two_sum

UNIT = 2.0**-53
CHUNK = 64
"""So many rows are summed at once by compiled loops."""


def gamma(k: int) -> float:
    """Return k u / (1 - k u), rounded up."""
    return k * UNIT / (1.0 - k * UNIT) * (1.0 + 1e-15)


def add_pairs(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the sum of two arrays of pairs, shape (2, ...): about 106 bits."""
    high, lost = two_sum(a[0], b[0])
    low, more = two_sum(a[1], b[1])
    high, lost = two_sum(high, lost + low)
    high, lost = two_sum(high, lost + more)
    return np.stack([high, lost])


def sum_pairs(parts: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of arrays of pairs, two by two: the same however they were computed."""
    total = np.stack(list(parts), axis=1)
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        sums = add_pairs(total[:, :half], total[:, half : 2 * half])
        total = np.concatenate([sums, total[:, 2 * half :]], axis=1)
    return np.asarray(total[:, 0])


def product_rest(a: float, b: FloatArray, product: FloatArray) -> FloatArray:
    """Return ``a * b - product`` exactly (Dekker's product, with both factors split)."""
    split = 134217729.0
    a1 = split * a - (split * a - a)
    a2 = a - a1
    b1 = split * b - (split * b - b)
    b2 = b - b1
    return np.asarray(((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)


def norm_up(vector: FloatArray) -> float:
    """Return the Euclidean norm, rounded up, with room for the rounding of the vector itself."""
    return float(np.linalg.norm(vector)) * (1.0 + (vector.size + 8) * 2.0**-52) + 1e-300
