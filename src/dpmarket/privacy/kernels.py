"""Chebyshev series over a long vector: its moments, and its values.

Both loops run over short blocks, degree outside (four at a time, to keep values in registers) and people
inside, so that the compiler turns the inner loop into vector instructions; numpy would need several passes
over memory per degree.
"""

from __future__ import annotations

import numba
import numpy as np

from dpmarket.arrays import FloatArray

_BLOCK = 512


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def chebyshev_moments(points: FloatArray, width: float, degree: int) -> FloatArray:
    """Return ``sum_i x_i * T_j(2 x_i / width - 1)`` for j = 0 .. degree, points in [0, width].

    ``degree`` is a multiple of 4.
    """
    moments = np.zeros(degree + 1)
    before = np.empty(_BLOCK)
    now = np.empty(_BLOCK)
    twice = np.empty(_BLOCK)
    for start in range(0, points.size, _BLOCK):
        count = min(_BLOCK, points.size - start)
        sum0 = 0.0
        for i in range(count):
            x = points[start + i]
            u2 = x * (4.0 / width) - 2.0
            before[i] = 0.5 * u2 * x  # T_{-1} = T_1
            now[i] = x
            twice[i] = u2
            sum0 += x
        moments[0] += sum0
        for j in range(1, degree, 4):
            sum1 = 0.0
            sum2 = 0.0
            sum3 = 0.0
            sum4 = 0.0
            for i in range(count):
                u2 = twice[i]
                t0 = now[i]
                t1 = u2 * t0 - before[i]
                t2 = u2 * t1 - t0
                t3 = u2 * t2 - t1
                t4 = u2 * t3 - t2
                sum1 += t1
                sum2 += t2
                sum3 += t3
                sum4 += t4
                before[i] = t3
                now[i] = t4
            moments[j] += sum1
            moments[j + 1] += sum2
            moments[j + 2] += sum3
            moments[j + 3] += sum4
    return moments


@numba.njit(cache=True, fastmath={"contract"})
def times_chebyshev_series(
    points: FloatArray, width: float, coefficients: FloatArray, out: FloatArray
) -> None:
    """Write ``x_i * sum_j coefficients_j T_j(2 x_i / width - 1)`` to ``out`` (Clenshaw's recurrence).

    The degree of the series is a multiple of 4.
    """
    after = np.empty(_BLOCK)
    now = np.empty(_BLOCK)
    twice = np.empty(_BLOCK)
    degree = coefficients.size - 1
    for start in range(0, points.size, _BLOCK):
        count = min(_BLOCK, points.size - start)
        for i in range(count):
            twice[i] = points[start + i] * (4.0 / width) - 2.0
            after[i] = 0.0
            now[i] = 0.0
        for j in range(degree, 0, -4):
            c0 = coefficients[j]
            c1 = coefficients[j - 1]
            c2 = coefficients[j - 2]
            c3 = coefficients[j - 3]
            for i in range(count):
                u2 = twice[i]
                b0 = u2 * now[i] + (c0 - after[i])
                b1 = u2 * b0 + (c1 - now[i])
                b2 = u2 * b1 + (c2 - b0)
                b3 = u2 * b2 + (c3 - b1)
                after[i] = b2
                now[i] = b3
        for i in range(count):
            value = 0.5 * twice[i] * now[i] + (coefficients[0] - after[i])
            out[start + i] = points[start + i] * value
