"""Loops over people for :mod:`dpmarket.privacy.softmax_curve`, whose notation they use."""

from __future__ import annotations

import numba
import numpy as np

from dpmarket.arrays import FloatArray

MAX_STEPS = 200
ROUND_UP = 2.0**-45
"""Relative outward rounding of a loss: 256 units of 2**-53.

With u = 2**-53: 4u in alpha, 5u in c and 4u in the constants are at most as large in P; f itself has 12u
(logarithms within 2 units in the last place, K of them added as a product); the derivative has 16u of the sum
of its terms' sizes, which is at most 4 P for s >= 1/2 (``h / (1 + h s) <= 2 log(1 + h s)``), so 64u; the
last additions, the division of u and the rounding itself 8u: less than 128u in all.
"""


@numba.njit(cache=True)
def _slope(s: float, alpha: float, c: float, terms: FloatArray) -> tuple[float, float, float]:
    """Return f', the sum of the sizes of its terms, and f''."""
    first, size, second = alpha, alpha, 0.0
    t = 1.0 - s
    for k in range(2):
        m, w, v = terms[0, k], terms[1, k], terms[2, k]
        if m == 0.0:
            continue
        inner = 1.0 + c * s * (w + v * t)
        rise = c * (w + v * (t - s)) / inner
        first += m * rise
        size += m * c * (w + v * (s - t)) / inner
        second -= m * (rise * rise + 2.0 * c * v / inner)
    return first, size, second


@numba.njit(cache=True)
def value(s: float, alpha: float, c: float, terms: FloatArray) -> float:
    """Return f(s), to rounding."""
    total = alpha * s
    for k in range(2):
        m = terms[0, k]
        if m > 0.0:
            total += m * np.log1p(c * s * (terms[1, k] + terms[2, k] * (1.0 - s)))
    return total


@numba.njit(cache=True)
def _maximiser(alpha: float, c: float, terms: FloatArray) -> float:
    first, size, second = _slope(1.0, alpha, c, terms)
    if first >= 0.0:
        return 1.0
    low, high, s = 0.5, 1.0, 1.0
    for _ in range(MAX_STEPS):
        following = s - first / second
        if not low < following < high:
            following = 0.5 * (low + high)
        if following == s or high - low < 2.0**-52:
            break
        s = following
        first, size, second = _slope(s, alpha, c, terms)
        if first >= 0.0:
            low = s
        else:
            high = s
        if abs(first) <= 2.0**-51 * size:
            break
    return s


@numba.njit(cache=True)
def losses(weights: FloatArray, by_noise: float, by_penalty: float, terms: FloatArray) -> FloatArray:
    """Return P for every weight, rounded up."""
    out = np.zeros(weights.size)
    for i in range(weights.size):
        a = weights[i]
        if a == 0.0:
            continue
        alpha, c = a * by_noise, a * by_penalty
        s = _maximiser(alpha, c, terms)
        first, size, _ = _slope(s, alpha, c, terms)
        # The true derivative lies within rounding of the computed one, and its tangent above f.
        above = max((first + 2.0**-49 * size) * (1.0 - s), (2.0**-49 * size - first) * s)
        if s == 1.0:
            # The largest s there is: only a falling tangent could lie higher elsewhere.
            above = max(2.0**-49 * size - first, 0.0)
        out[i] = (alpha + value(s, alpha, c, terms) + above) * (1.0 + ROUND_UP)
    return out


@numba.njit(cache=True)
def inverse(
    promises: FloatArray, by_noise: float, by_penalty: float, terms: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Return weights with P = promise, their derivatives in -log(by_noise), and whether all were found."""
    weights, slopes = np.zeros(promises.size), np.zeros(promises.size)
    trace = 0.0
    for k in range(2):
        trace += terms[0, k] * (terms[1, k] + terms[2, k])
    for i in range(promises.size):
        # The tangent at 0 lies above P: left of the root.
        floor = promises[i] / (2.0 * by_noise + trace * by_penalty)
        a = max(start[i], floor)
        for _ in range(MAX_STEPS):
            alpha, c = a * by_noise, a * by_penalty
            s = _maximiser(alpha, c, terms)
            loss = alpha + value(s, alpha, c, terms)
            noise = alpha * (1.0 + s)
            rise = noise
            for k in range(2):
                inner = c * s * (terms[1, k] + terms[2, k] * (1.0 - s))
                rise += terms[0, k] * inner / (1.0 + inner)
            step = (promises[i] - loss) * a / rise
            a = max(a + step, floor)
            if abs(step) <= 1e-9 * a:
                break  # the step just taken was quadratic: its error is below 1e-17 relative
        else:
            return weights, slopes, False
        weights[i] = a
        slopes[i] = a * noise / rise
    return weights, slopes, True
