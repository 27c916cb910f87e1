"""Loops over rows that the kernels of every loss share: scores, sums of rows, norms, dense blocks.

Short chunks of rows stay in cache, and the compiler turns them into vector instructions. The order of all
additions is fixed by the range, so that results do not depend on threads. Sums are kept as pairs of floats,
``accurate_*`` ones in pairs throughout, about 90 correct bits.

The error bounds that :mod:`dpmarket.learning.sums` states rest on this code; change both or none. Error-free
transformations need exactly rounded operations: no ``fastmath`` except in ``margins``, where any order of the
additions satisfies the bound.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.learning.exponentials import times, two_product
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
