"""Gradients and Hessian products of the weighted logistic loss over a range of rows.

Loops over short chunks of rows that stay in cache and that the compiler turns into vector instructions. The
order of all additions is fixed by the range, so that results do not depend on threads. Two accuracies:

* ``gradient``: float64, with chunk sums kept as unevaluated pairs of floats;
* ``accurate_gradient``: pairs of floats ("double-double") throughout, about 90 correct bits.

The error bounds that :mod:`dpmarket.learning.rounding` states are those of this code; change both or none.
Error-free transformations need exactly rounded operations: no ``fastmath`` except in ``margins``, where any
order of the additions satisfies the bound.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.learning.exponentials import accurate_sigmoid, add, sigmoid, times, two_product
from dpmarket.numerics import two_sum

CHUNK = 64


def thread_count() -> int:
    """Return how many threads numba would use: what NUMBA_NUM_THREADS says, or the number of processors."""
    return int(numba.get_num_threads())


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def margins(x: FloatArray, first: int, count: int, w: FloatArray, out: FloatArray) -> None:
    """Write ``x . w + constant`` for a chunk of rows."""
    n = x.shape[1]
    constant = w[n] if w.size > n else 0.0
    for i in range(count):
        total = 0.0
        for j in range(n):
            total += x[first + i, j] * w[j]
        out[i] = total
    if w.size > n:
        for i in range(count):
            out[i] += constant


@numba.njit(cache=True, nogil=True)
def _signed_margins(
    x: FloatArray,
    first: int,
    count: int,
    w: FloatArray,
    signs: FloatArray,
    scales: FloatArray,
    out: FloatArray,
) -> None:
    """Write ``sign * (scale * x . w + constant)`` for a chunk of rows."""
    n = x.shape[1]
    if scales.size == 0:
        margins(x, first, count, w, out)
        for i in range(count):
            out[i] *= signs[first + i]
    else:
        margins(x, first, count, w[:n], out)
        constant = w[n] if w.size > n else 0.0
        for i in range(count):
            out[i] = signs[first + i] * (out[i] * scales[first + i] + constant)


@numba.njit(cache=True, nogil=True)
def add_rows(
    x: FloatArray,
    first: int,
    count: int,
    factors: FloatArray,
    scales: FloatArray,
    part: FloatArray,
    total: FloatArray,
) -> None:
    """Add ``sum factor * (scale * x, 1)`` over a chunk to the pairs in ``total``, shape (2, coefficients)."""
    n = x.shape[1]
    part[:] = 0.0
    if part.size > n:
        for i in range(count):
            part[n] += factors[i]
    if scales.size > 0:
        for i in range(count):
            factors[i] *= scales[first + i]
    for i in range(count):
        factor = factors[i]
        for j in range(n):
            part[j] += factor * x[first + i, j]
    for j in range(part.size):
        total[0, j], lost = two_sum(total[0, j], part[j])
        total[1, j] += lost


@numba.njit(cache=True, nogil=True)
def gradient(
    x: FloatArray,
    w: FloatArray,
    signs: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return the loss's gradient over rows start..stop, as pairs of floats of shape (2, coefficients).

    Rows are ``(scale * x, 1)``, or without the constant if ``w`` is as long as a row; no scales means 1.
    """
    total = np.zeros((2, w.size))
    part = np.empty(w.size)
    margins = np.empty(CHUNK)
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        _signed_margins(x, first, count, w, signs, scales, margins)
        for i in range(count):
            margins[i] = -signs[first + i] * weights[first + i] * sigmoid(margins[i])
        add_rows(x, first, count, margins, scales, part, total)
    return total


@numba.njit(cache=True, nogil=True)
def hessian_product(
    x: FloatArray,
    w: FloatArray,
    v: FloatArray,
    signs: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return the loss's Hessian at ``w`` times ``v`` over rows start..stop, as pairs of floats."""
    total = np.zeros((2, w.size))
    part = np.empty(w.size)
    margins = np.empty(CHUNK)
    factors = np.empty(CHUNK)
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        _signed_margins(x, first, count, w, signs, scales, margins)
        _signed_margins(x, first, count, v, signs, scales, factors)
        for i in range(count):
            s = sigmoid(margins[i])
            factors[i] *= signs[first + i] * weights[first + i] * (s * (1.0 - s))
        add_rows(x, first, count, factors, scales, part, total)
    return total


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _add_outer_products(rows: FloatArray, scaled: FloatArray, out: FloatArray) -> None:
    """Add ``sum scaled_j * rows_k`` over a chunk to ``out[j, k]``, k up to the block of j; both by column."""
    n = rows.shape[0]
    for j in range(0, n, 4):
        for k in range(0, j + 4, 2):
            a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = 0.0
            for i in range(CHUNK):
                r0, r1 = rows[k, i], rows[k + 1, i]
                a, b, c, d = scaled[j, i], scaled[j + 1, i], scaled[j + 2, i], scaled[j + 3, i]
                a0 += a * r0
                a1 += a * r1
                b0 += b * r0
                b1 += b * r1
                c0 += c * r0
                c1 += c * r1
                d0 += d * r0
                d1 += d * r1
            out[j, k] += a0
            out[j, k + 1] += a1
            out[j + 1, k] += b0
            out[j + 1, k + 1] += b1
            out[j + 2, k] += c0
            out[j + 2, k + 1] += c1
            out[j + 3, k] += d0
            out[j + 3, k + 1] += d1


@numba.njit(cache=True, nogil=True)
def turned(x: FloatArray, first: int, count: int, scales: FloatArray, columns: FloatArray) -> None:
    """Write the rows ``scale * x`` of a chunk as columns; padding stays 0."""
    n = x.shape[1]
    if count < CHUNK:
        columns[:] = 0.0
    for i in range(count):
        scale = scales[first + i] if scales.size > 0 else 1.0
        for j in range(n):
            columns[j, i] = scale * x[first + i, j]


@numba.njit(cache=True, nogil=True)
def hessian(
    x: FloatArray,
    w: FloatArray,
    signs: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return the loss's Hessian at ``w`` over rows start..stop; only the lower triangle is right."""
    n = x.shape[1]
    padded = (w.size + 3) // 4 * 4
    out = np.zeros((padded, padded))
    rows = np.zeros((padded, CHUNK))
    scaled = np.zeros((padded, CHUNK))
    margins = np.empty(CHUNK)
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        _signed_margins(x, first, count, w, signs, scales, margins)
        margins[count:] = 0.0
        for i in range(count):
            s = sigmoid(margins[i])
            margins[i] = weights[first + i] * (s * (1.0 - s))
        turned(x, first, count, scales, rows)
        if w.size > n:
            rows[n, :count] = 1.0
        for j in range(w.size):
            for i in range(CHUNK):
                scaled[j, i] = margins[i] * rows[j, i]
        _add_outer_products(rows, scaled, out)
    return out[: w.size, : w.size]


@numba.njit(cache=True, nogil=True)
def add_accurate_rows(
    x: FloatArray,
    first: int,
    count: int,
    high: FloatArray,
    low: FloatArray,
    scales: FloatArray,
    top: FloatArray,
    bottom: FloatArray,
) -> None:
    """Add ``sum factor * (scale * x, 1)`` over a chunk to the pairs of sums ``top`` and ``bottom``."""
    n = x.shape[1]
    part = np.zeros((2, top.size))
    if top.size > n:
        for i in range(count):
            part[0, n], lost = two_sum(part[0, n], high[i])
            part[1, n] += lost + low[i]
    if scales.size > 0:
        for i in range(count):
            high[i], low[i] = times(high[i], low[i], scales[first + i], 0.0)
    over, under = part[0], part[1]
    for i in range(count):
        h, rest = high[i], low[i]
        row = x[first + i]
        for j in range(n):
            product, more = two_product(h, row[j])
            over[j], lost = two_sum(over[j], product)
            under[j] += lost + (more + rest * row[j])
    for j in range(top.size):
        top[j], lost = two_sum(top[j], over[j])
        bottom[j] += lost + under[j]


@numba.njit(cache=True, nogil=True)
def accurate_scores(
    columns: FloatArray, w: FloatArray, rest_of_w: FloatArray, high: FloatArray, low: FloatArray
) -> None:
    """Write ``(w + rest_of_w) . x_i`` of a chunk's columns as pairs of floats, without a constant."""
    high[:] = 0.0
    low[:] = 0.0
    for j in range(columns.shape[0]):
        wj, rj = w[j], rest_of_w[j]
        column = columns[j]
        for i in range(CHUNK):
            product, rest = two_product(column[i], wj)
            high[i], lost = two_sum(high[i], product)
            low[i] += lost + (rest + column[i] * rj)
    for i in range(CHUNK):
        high[i], low[i] = two_sum(high[i], low[i])


@numba.njit(cache=True, nogil=True)
def accurate_gradient(
    x: FloatArray,
    w: FloatArray,
    rest_of_w: FloatArray,
    signs: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return what :func:`gradient` returns at ``w + rest_of_w``, in pairs of floats throughout."""
    n = x.shape[1]
    constant = float(w[n]) if w.size > n else 0.0
    rest_of_constant = float(rest_of_w[n]) if w.size > n else 0.0
    total = np.zeros((2, w.size))
    columns = np.zeros((n, CHUNK))
    high = np.empty(CHUNK)
    low = np.empty(CHUNK)
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        for i in range(count):
            for j in range(n):
                columns[j, i] = x[first + i, j]
        accurate_scores(columns, w, rest_of_w, high, low)
        if scales.size > 0:
            for i in range(count):
                high[i], low[i] = times(high[i], low[i], scales[first + i], 0.0)
        for i in range(count):
            sign = signs[first + i]
            h, rest = add(high[i], low[i], constant, rest_of_constant)
            h, rest = accurate_sigmoid(sign * h, sign * rest)
            high[i], low[i] = times(h, rest, -sign * weights[first + i], 0.0)
        add_accurate_rows(x, first, count, high, low, scales, total[0], total[1])
    return total


@numba.njit(cache=True, nogil=True)
def squared_norms(x: FloatArray) -> FloatArray:
    """Return the squared norm of every row as a pair of floats, shape (2, rows)."""
    out = np.zeros((2, x.shape[0]))
    for i in range(x.shape[0]):
        high, low = 0.0, 0.0
        for j in range(x.shape[1]):
            product, rest = two_product(x[i, j], x[i, j])
            high, lost = two_sum(high, product)
            low += lost + rest
        out[0, i], out[1, i] = two_sum(high, low)
    return out


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def rough_squared_norms(x: FloatArray) -> FloatArray:
    """Return the squared norm of every row in float64."""
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j] * x[i, j]
        out[i] = total
    return out


@numba.njit(cache=True, nogil=True)
def dense_rows(data: Any, indices: Any, pointers: Any, start: int, stop: int, n: int) -> FloatArray:
    """Return rows start..stop of a CSR matrix as an array; entries of one place add up."""
    out = np.zeros((stop - start, n))
    for i in range(start, stop):
        for k in range(pointers[i], pointers[i + 1]):
            out[i - start, indices[k]] += data[k]
    return out
