"""Gradients and Hessian products of sigmoid losses over a range of rows.

The loss of one output is given by its ``family``: scale, slope, two numbers of the shift and two of the
target (:class:`~dpmarket.privacy.loss.SigmoidLoss`). As in :mod:`dpmarket.learning.kernels`: loops over
chunks of 64 rows, in an order fixed by the range, in two accuracies whose error bounds
:mod:`dpmarket.learning.sums` states; change both or none.
"""

from __future__ import annotations

import numba
import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.learning.exponentials import accurate_sigmoid, add, sigmoid, times
from dpmarket.learning.kernels import CHUNK, accurate_scores, add_accurate_rows, add_rows, margins


@numba.njit(cache=True, nogil=True)
def _outputs(
    x: FloatArray, first: int, count: int, w: FloatArray, scales: FloatArray, out: FloatArray
) -> None:
    """Write ``scale * x . w + constant`` for a chunk of rows."""
    n = x.shape[1]
    if scales.size == 0:
        margins(x, first, count, w, out)
    else:
        margins(x, first, count, w[:n], out)
        constant = w[n] if w.size > n else 0.0
        for i in range(count):
            out[i] = out[i] * scales[first + i] + constant


@numba.njit(cache=True, nogil=True)
def gradient(
    x: FloatArray,
    w: FloatArray,
    family: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return the loss's gradient over rows start..stop, as pairs of floats of shape (2, coefficients).

    Rows are ``(scale * x, 1)``, or without the constant if ``w`` is as long as a row; no scales means 1.
    """
    scale, slope = family[0], family[1]
    total = np.zeros((2, w.size))
    part = np.empty(w.size)
    factors = np.empty(CHUNK)
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        _outputs(x, first, count, w, scales, factors)
        for i in range(count):
            label = labels[first + i]
            z = slope * factors[i] + (family[2] + family[3] * label)
            target = family[4] + family[5] * label
            factors[i] = weights[first + i] * (scale * (sigmoid(-z) - target))
        add_rows(x, first, count, factors, scales, part, total)
    return total


@numba.njit(cache=True, nogil=True)
def hessian_product(
    x: FloatArray,
    w: FloatArray,
    v: FloatArray,
    family: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return the loss's Hessian at ``w`` times ``v`` over rows start..stop, as pairs of floats."""
    slope, kappa = family[1], family[0] * family[1]
    total = np.zeros((2, w.size))
    part = np.empty(w.size)
    outputs = np.empty(CHUNK)
    factors = np.empty(CHUNK)
    for first in range(start, stop, CHUNK):
        count = min(CHUNK, stop - first)
        _outputs(x, first, count, w, scales, outputs)
        _outputs(x, first, count, v, scales, factors)
        for i in range(count):
            s = sigmoid(-(slope * outputs[i] + (family[2] + family[3] * labels[first + i])))
            factors[i] *= weights[first + i] * (kappa * (s * (1.0 - s)))
        add_rows(x, first, count, factors, scales, part, total)
    return total


@numba.njit(cache=True, nogil=True)
def accurate_gradient(
    x: FloatArray,
    w: FloatArray,
    rest_of_w: FloatArray,
    family: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    start: int,
    stop: int,
) -> FloatArray:
    """Return what :func:`gradient` returns at ``w + rest_of_w``, in pairs of floats throughout."""
    n = x.shape[1]
    scale, slope = float(family[0]), float(family[1])
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
            label = labels[first + i]
            h, rest = add(high[i], low[i], constant, rest_of_constant)
            h, rest = times(h, rest, slope, 0.0)
            h, rest = add(h, rest, family[2] + family[3] * label, 0.0)
            h, rest = accurate_sigmoid(-h, -rest)
            h, rest = add(h, rest, -(family[4] + family[5] * label), 0.0)
            h, rest = times(h, rest, scale, 0.0)
            high[i], low[i] = times(h, rest, weights[first + i], 0.0)
        add_accurate_rows(x, first, count, high, low, scales, total[0], total[1])
    return total
