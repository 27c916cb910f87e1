"""Gradients and Hessian products of the weighted softmax loss over a range of rows.

As in :mod:`dpmarket.learning.kernels`: loops over chunks of 64 rows that stay in cache, in an order fixed by
the range, in two accuracies, whose error bounds :mod:`dpmarket.learning.sums` states. A chunk is
turned first, features outside and rows inside, so that scores and exponentials of 64 rows become vector
instructions. Points are matrices with a row of coefficients per class, the constant's last; labels are the
numbers of the classes.
"""

from __future__ import annotations

import numba
import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.learning.exponentials import accurate_exponential, add, exponential, fma, times
from dpmarket.learning.kernels import CHUNK, accurate_scores, add_accurate_rows, turned
from dpmarket.numerics import fast_two_sum, two_sum


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _scores(columns: FloatArray, w: FloatArray, out: FloatArray) -> None:
    """Write ``w_k . x_i`` for a chunk; the number of columns is a multiple of 4."""
    for k in range(w.shape[0]):
        for i in range(CHUNK):
            out[k, i] = 0.0
        for j in range(0, w.shape[1], 4):
            a, b, c, d = w[k, j], w[k, j + 1], w[k, j + 2], w[k, j + 3]
            for i in range(CHUNK):
                out[k, i] += (a * columns[j, i] + b * columns[j + 1, i]) + (
                    c * columns[j + 2, i] + d * columns[j + 3, i]
                )


@numba.njit(cache=True, nogil=True)
def _probabilities(scores: FloatArray, classes: int, top: FloatArray, sums: FloatArray) -> None:
    """Turn the scores of a chunk into probabilities, in place."""
    for i in range(CHUNK):
        top[i] = scores[0, i]
        sums[i] = 0.0
    for k in range(1, classes):
        for i in range(CHUNK):
            top[i] = max(top[i], scores[k, i])
    for k in range(classes):
        for i in range(CHUNK):
            scores[k, i] = exponential(scores[k, i] - top[i])
            sums[i] += scores[k, i]
    for k in range(classes):
        for i in range(CHUNK):
            scores[k, i] /= sums[i]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _add_products(factors: FloatArray, columns: FloatArray, part: FloatArray) -> None:
    """Write ``sum_i factors_ki x_ij`` over a chunk; both numbers of rows are multiples of 2 and 4."""
    for k in range(0, factors.shape[0], 2):
        for j in range(0, columns.shape[0], 4):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
            for i in range(CHUNK):
                f, g = factors[k, i], factors[k + 1, i]
                p, q, r, s = columns[j, i], columns[j + 1, i], columns[j + 2, i], columns[j + 3, i]
                a0 += f * p
                a1 += f * q
                a2 += f * r
                a3 += f * s
                b0 += g * p
                b1 += g * q
                b2 += g * r
                b3 += g * s
            part[k, j], part[k, j + 1], part[k, j + 2], part[k, j + 3] = a0, a1, a2, a3
            part[k + 1, j], part[k + 1, j + 1], part[k + 1, j + 2], part[k + 1, j + 3] = b0, b1, b2, b3


@numba.njit(cache=True, nogil=True)
def _add_part(part: FloatArray, total: FloatArray) -> None:
    for k in range(total.shape[1]):
        for j in range(total.shape[2]):
            total[0, k, j], lost = two_sum(total[0, k, j], part[k, j])
            total[1, k, j] += lost


@numba.njit(cache=True, nogil=True)
def _padded(w: FloatArray) -> FloatArray:
    out = np.zeros((w.shape[0], (w.shape[1] + 3) // 4 * 4))
    out[:, : w.shape[1]] = w
    return out


@numba.njit(cache=True, nogil=True)
def gradient(
    x: FloatArray,
    w: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return the loss's gradient over rows start..stop, as pairs of floats of shape (2, K, coefficients).

    Rows are ``(scale * x, 1)``, or without the constant if ``w`` is as wide as a row; no scales means 1.
    """
    classes, n = w.shape
    point = _padded(w)
    total = np.zeros((2, classes, n))
    factors = np.zeros(((classes + 1) // 2 * 2, CHUNK))
    columns = np.zeros((point.shape[1], CHUNK))
    part = np.empty((factors.shape[0], point.shape[1]))
    top = np.empty(CHUNK)
    sums = np.empty(CHUNK)
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        turned(x, first, count, scales, columns)
        if n > x.shape[1]:
            columns[n - 1, :count] = 1.0
        _scores(columns, point, factors)
        _probabilities(factors, classes, top, sums)
        for i in range(count):
            factors[int(labels[first + i]), i] -= 1.0
            sums[i] = weights[first + i]
        sums[count:] = 0.0
        for k in range(classes):
            for i in range(CHUNK):
                factors[k, i] *= sums[i]
        _add_products(factors, columns, part)
        _add_part(part, total)
    return total


@numba.njit(cache=True, nogil=True)
def hessian_product(
    x: FloatArray,
    w: FloatArray,
    v: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return the loss's Hessian at ``w`` times ``v`` over rows start..stop, as pairs of floats."""
    classes, n = w.shape
    point, direction = _padded(w), _padded(v)
    total = np.zeros((2, classes, n))
    factors = np.zeros(((classes + 1) // 2 * 2, CHUNK))
    moves = np.zeros((classes, CHUNK))
    columns = np.zeros((point.shape[1], CHUNK))
    part = np.empty((factors.shape[0], point.shape[1]))
    top = np.empty(CHUNK)
    sums = np.empty(CHUNK)
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        turned(x, first, count, scales, columns)
        if n > x.shape[1]:
            columns[n - 1, :count] = 1.0
        _scores(columns, point, factors)
        _scores(columns, direction, moves)
        _probabilities(factors, classes, top, sums)
        top[:] = 0.0
        for k in range(classes):
            for i in range(CHUNK):
                top[i] += factors[k, i] * moves[k, i]
        sums[count:] = 0.0
        for i in range(count):
            sums[i] = weights[first + i]
        for k in range(classes):
            for i in range(CHUNK):
                factors[k, i] *= sums[i] * (moves[k, i] - top[i])
        _add_products(factors, columns, part)
        _add_part(part, total)
    return total


@numba.njit(cache=True, nogil=True)
def _accurate_probabilities(high: FloatArray, low: FloatArray) -> None:
    """Turn the scores of a chunk, pairs of floats, into probabilities, in place."""
    classes = high.shape[0]
    sums = np.zeros((2, CHUNK))
    top = high[0].copy()
    for k in range(1, classes):
        for i in range(CHUNK):
            top[i] = max(top[i], high[k, i])
    for k in range(classes):
        for i in range(CHUNK):
            h, rest = add(high[k, i], low[k, i], -top[i], 0.0)
            h, rest = accurate_exponential(h, rest)
            high[k, i], low[k, i] = h, rest
            sums[0, i], sums[1, i] = add(sums[0, i], sums[1, i], h, rest)
    for k in range(classes):
        for i in range(CHUNK):
            quotient = high[k, i] / sums[0, i]
            remainder = fma(-quotient, sums[0, i], high[k, i]) + (low[k, i] - quotient * sums[1, i])
            high[k, i], low[k, i] = fast_two_sum(quotient, remainder / sums[0, i])


@numba.njit(cache=True, nogil=True)
def accurate_gradient(
    x: FloatArray,
    w: FloatArray,
    rest_of_w: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return what :func:`gradient` returns at ``w + rest_of_w``, in pairs of floats throughout."""
    classes, n = w.shape
    features = x.shape[1]
    total = np.zeros((2, classes, n))
    columns = np.zeros((features, CHUNK))
    high = np.empty((classes, CHUNK))
    low = np.empty((classes, CHUNK))
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        for i in range(count):
            for j in range(features):
                columns[j, i] = x[first + i, j]
        for k in range(classes):
            accurate_scores(columns, w[k], rest_of_w[k], high[k], low[k])
            if scales.size > 0:
                for i in range(count):
                    high[k, i], low[k, i] = times(high[k, i], low[k, i], scales[first + i], 0.0)
            if n > features:
                for i in range(count):
                    high[k, i], low[k, i] = add(high[k, i], low[k, i], w[k, features], rest_of_w[k, features])
        _accurate_probabilities(high, low)
        for i in range(count):
            k = int(labels[first + i])
            high[k, i], low[k, i] = add(high[k, i], low[k, i], -1.0, 0.0)
        for k in range(classes):
            for i in range(count):
                high[k, i], low[k, i] = times(high[k, i], low[k, i], weights[first + i], 0.0)
            add_accurate_rows(x, first, count, high[k], low[k], scales, total[0, k], total[1, k])
    return total
