"""Vectors as unevaluated sums of two floats per coordinate: about 106 bits, added without loss."""

from __future__ import annotations

import numpy as np

from dpmarket.arrays import FloatArray


def add_pairs(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the sum of two vectors of pairs, shape (2, coordinates)."""
    high, lost = two_sum(a[0], b[0])
    low, more = two_sum(a[1], b[1])
    high, lost = two_sum(high, lost + low)
    high, lost = two_sum(high, lost + more)
    return np.stack([high, lost])


def two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rounded sum and what rounding lost, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


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
