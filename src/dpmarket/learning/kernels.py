"""Gradients in pairs of floats over a range of rows: the compiled loops of training.

A pair ``high + low`` of floats holds about 106 bits. Loops run over chunks of 64 rows, features outside and
rows inside, so that they stay in cache and become vector instructions; the order of all additions is fixed by
the range, so that results do not depend on threads. The error bounds that :mod:`dpmarket.learning.sums`
states rest on this code; change both or none. Error-free transformations need exactly rounded operations: no
``fastmath``.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from dpmarket import numerics
from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled
from dpmarket.learning.rounding import CHUNK

_LOG2_E = 1.4426950408889634
_MAGIC = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
_FARTHEST = 700.0

# ln 2 in three parts, the first two with 32 bits each: their products with |k| <= 2**11 are exact.
_LN2_1 = float.fromhex("0x1.62e42fee00000p-1")
_LN2_2 = float.fromhex("0x1.a39ef35600000p-33")
_LN2_3 = float.fromhex("0x1.93c7673007e5fp-65")
_SIXTH = (float.fromhex("0x1.5555555555555p-3"), float.fromhex("0x1.5555555555555p-57"))
_24TH = (float.fromhex("0x1.5555555555555p-5"), float.fromhex("0x1.5555555555555p-59"))


def _typed_fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


def _typed_power(typingctx: Any, shifted: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(64))
        bits = builder.shl(builder.add(bits, ir.IntType(64)(1023)), ir.IntType(64)(52))
        return builder.bitcast(bits, ir.DoubleType())

    return types.float64(types.float64), codegen


# a * b + c rounded once, and 2**k of the integer in the low bits of a float: a few instructions each.
_fma: Any = intrinsic(_typed_fma)
_power: Any = intrinsic(_typed_power)
_two_sum = compiled(forceinline=True)(numerics.two_sum)


@compiled(forceinline=True)
def _fast_two_sum(a: float, b: float) -> tuple[float, float]:
    """Return the rounded sum and what rounding lost, for ``|a| >= |b|`` only (Dekker)."""
    total = a + b
    return total, b - (total - a)


@compiled(forceinline=True)
def _two_product(a: float, b: float) -> tuple[float, float]:
    """Return the rounded product and what rounding lost, exactly."""
    product = a * b
    return product, _fma(a, b, -product)


@compiled(forceinline=True)
def _add(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """Return the sum of two pairs."""
    total, rest = _two_sum(ah, bh)
    low, lost = _two_sum(al, bl)
    total, rest = _fast_two_sum(total, rest + low)
    return _fast_two_sum(total, rest + lost)


@compiled(forceinline=True)
def _times(ah: float, al: float, bh: float, bl: float) -> tuple[float, float]:
    """Return the product of two pairs."""
    product, rest = _two_product(ah, bh)
    return _fast_two_sum(product, _fma(al, bh, _fma(ah, bl, rest)))


@compiled(forceinline=True)
def _exponential(high: float, low: float) -> tuple[float, float]:
    """Return exp(high + low), within -700 .. 700, as a pair, off by at most 2**-87, relatively, or 1e-300."""
    z = min(max(high, -_FARTHEST), _FARTHEST)
    rest = low if z == high else 0.0
    shifted = z * _LOG2_E + _MAGIC
    k = shifted - _MAGIC
    rh, rl = _two_sum(z, -k * _LN2_1)
    rh, more = _two_sum(rh, -k * _LN2_2)
    rh, rl = _two_sum(rh, rl + more + rest - k * _LN2_3)
    rh *= 0.015625
    rl *= 0.015625
    # exp(r) - 1 for |r| < 0.0055: the series' tail needs no more than a float.
    tail = 1.0 / 362880.0
    tail = tail * rh + 1.0 / 40320.0
    tail = tail * rh + 1.0 / 5040.0
    tail = tail * rh + 1.0 / 720.0
    tail = tail * rh + 1.0 / 120.0
    ph, pl = _two_product(tail, rh)
    ph, pl = _add(_24TH[0], _24TH[1], ph, pl)
    ph, pl = _times(ph, pl, rh, rl)
    ph, pl = _add(_SIXTH[0], _SIXTH[1], ph, pl)
    ph, pl = _times(ph, pl, rh, rl)
    ph, pl = _add(0.5, 0.0, ph, pl)
    ph, pl = _times(ph, pl, rh, rl)
    ph, pl = _add(1.0, 0.0, ph, pl)
    eh, el = _times(ph, pl, rh, rl)
    for _ in range(6):  # exp(2r) - 1 = 2 e + e^2
        sh, sl = _times(eh, el, eh, el)
        eh, el = _add(2.0 * eh, 2.0 * el, sh, sl)
    eh, el = _add(1.0, 0.0, eh, el)
    power = _power(shifted)
    return eh * power, el * power


@compiled(nogil=True)
def _scores(
    columns: FloatArray, w: FloatArray, rest_of_w: FloatArray, high: FloatArray, low: FloatArray
) -> None:
    """Write ``(w + rest_of_w) . x_i`` of a chunk's columns as pairs."""
    high[:] = 0.0
    low[:] = 0.0
    for j in range(columns.shape[0]):
        wj, rj = w[j], rest_of_w[j]
        column = columns[j]
        for i in range(CHUNK):
            product, rest = _two_product(column[i], wj)
            high[i], lost = _two_sum(high[i], product)
            low[i] += lost + (rest + column[i] * rj)
    for i in range(CHUNK):
        high[i], low[i] = _two_sum(high[i], low[i])


@compiled(nogil=True)
def _sigmoid_derivatives(high: FloatArray, low: FloatArray, labels: FloatArray, family: FloatArray) -> None:
    """Turn the outputs of a chunk into ``scale * (sigmoid(slope * z + shift) - target)``, in place."""
    scale, slope, shift, shift_by, target, target_by = family
    for i in range(CHUNK):
        h, rest = _times(high[i], low[i], slope, 0.0)
        h, rest = _add(h, rest, shift + shift_by * labels[i], 0.0)
        eh, el = _exponential(-h, -rest)
        dh, dl = _add(1.0, 0.0, eh, el)
        quotient = 1.0 / dh
        remainder = _fma(-quotient, dh, 1.0) - quotient * dl
        h, rest = _fast_two_sum(quotient, quotient * remainder)
        h, rest = _add(h, rest, -(target + target_by * labels[i]), 0.0)
        high[i], low[i] = _times(h, rest, scale, 0.0)


@compiled(nogil=True)
def _softmax_derivatives(high: FloatArray, low: FloatArray, labels: FloatArray) -> None:
    """Turn the outputs of a chunk into probabilities, less 1 for the right class, in place."""
    sums = np.zeros((2, CHUNK))
    top = high[0].copy()
    for k in range(1, high.shape[0]):
        for i in range(CHUNK):
            top[i] = max(top[i], high[k, i])
    for k in range(high.shape[0]):
        for i in range(CHUNK):
            h, rest = _add(high[k, i], low[k, i], -top[i], 0.0)
            h, rest = _exponential(h, rest)
            high[k, i], low[k, i] = h, rest
            sums[0, i], sums[1, i] = _add(sums[0, i], sums[1, i], h, rest)
    for k in range(high.shape[0]):
        for i in range(CHUNK):
            quotient = high[k, i] / sums[0, i]
            remainder = _fma(-quotient, sums[0, i], high[k, i]) + (low[k, i] - quotient * sums[1, i])
            high[k, i], low[k, i] = _fast_two_sum(quotient, remainder / sums[0, i])
    for i in range(CHUNK):
        k = int(labels[i])
        high[k, i], low[k, i] = _add(high[k, i], low[k, i], -1.0, 0.0)


@compiled(nogil=True)
def _add_rows(
    rows: FloatArray, high: FloatArray, low: FloatArray, top: FloatArray, bottom: FloatArray
) -> None:
    """Add ``sum factor * row`` over a chunk to the pairs of sums ``top`` and ``bottom``."""
    part = np.zeros((2, rows.shape[1]))
    over, under = part[0], part[1]
    for i in range(rows.shape[0]):
        h, rest = high[i], low[i]
        row = rows[i]
        for j in range(rows.shape[1]):
            product, more = _two_product(h, row[j])
            over[j], lost = _two_sum(over[j], product)
            under[j] += lost + (more + rest * row[j])
    for j in range(rows.shape[1]):
        top[j], lost = _two_sum(top[j], over[j])
        bottom[j] += lost + under[j]


@compiled(nogil=True)
def accurate_gradient(
    x: FloatArray, w: FloatArray, rest_of_w: FloatArray, family: FloatArray | None, labels: FloatArray,
    weights: FloatArray, scales: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return the gradient at ``w + rest_of_w`` over a block of rows as pairs, shape (2, outputs, n).

    Rows are ``(scale * x, 1)``, or without the constant if ``w`` is as wide as a row; no scales means 1. The
    loss is softmax if ``family`` (:attr:`~dpmarket.privacy.loss.SigmoidLoss.family`) is None.
    """
    outputs, n = w.shape
    features = x.shape[1]
    total = np.zeros((2, outputs, n))
    columns = np.zeros((features, CHUNK))
    high, low = np.zeros((outputs, CHUNK)), np.zeros((outputs, CHUNK))
    chunk = np.zeros((3, CHUNK))  # labels, weights, scales
    for first in range(0, len(x), CHUNK):
        count = min(CHUNK, len(x) - first)
        chunk[:, count:] = 0.0
        for i in range(count):
            chunk[0, i] = labels[first + i]
            chunk[1, i] = weights[first + i]
            chunk[2, i] = scales[first + i] if scales.size > 0 else 1.0
            for j in range(features):
                columns[j, i] = x[first + i, j]
        for k in range(outputs):
            _scores(columns, w[k], rest_of_w[k], high[k], low[k])
            constant, rest_of_constant = 0.0, 0.0
            if n > features:
                constant, rest_of_constant = w[k, features], rest_of_w[k, features]
            for i in range(CHUNK):
                h, rest = _times(high[k, i], low[k, i], chunk[2, i], 0.0)
                high[k, i], low[k, i] = _add(h, rest, constant, rest_of_constant)
        if family is None:  # decided when compiling: a fit compiles the derivatives of its own loss alone
            _softmax_derivatives(high, low, chunk[0])
        else:
            _sigmoid_derivatives(high[0], low[0], chunk[0], family)
        for k in range(outputs):
            constant, rest_of_constant = 0.0, 0.0
            for i in range(count):
                h, rest = _times(high[k, i], low[k, i], chunk[1, i], 0.0)
                constant, lost = _two_sum(constant, h)
                rest_of_constant += lost + rest
                high[k, i], low[k, i] = _times(h, rest, chunk[2, i], 0.0)
            over, under = total[0, k], total[1, k]
            if n > features:
                over[features], lost = _two_sum(over[features], constant)
                under[features] += lost + rest_of_constant
            _add_rows(x[first : first + count], high[k], low[k], over[:features], under[:features])
    return total


def thread_count() -> int:
    """Return how many threads numba would use: what NUMBA_NUM_THREADS says, or the number of processors."""
    return int(numba.get_num_threads())
