r"""Turn the weight of one person in a softmax regression into the person's privacy loss, and back.

With :math:`\alpha = a \eta R` and :math:`c = a R^2 / \Lambda` the loss of a weight a is

.. math:: P(a) = \alpha + \max_{0 \le s \le 1} f(s), \qquad
          f(s) = \alpha s + \sum_t m_t \log\left(1 + c\, s (w_t + v_t (1 - s))\right),

with a handful of public constants :math:`m_t, w_t, v_t \ge 0` (:class:`DeterminantBound`). What the others
rely on:

* f is concave: each argument of a logarithm is, and so are sums. A tangent lies above it, so that
  :math:`f(s_0) + \max(f'(s_0)(1 - s_0), -f'(s_0) s_0)` bounds the maximum **whatever** :math:`s_0` **is**: an
  inexact maximiser can only raise the bound.
* P is increasing and concave in a: with :math:`p = a s` the bracket is
  :math:`\eta R p + \sum_t m_t \log(1 + \frac{R^2}{\Lambda}((w_t + v_t) p - v_t p^2 / a))`, jointly concave in
  (p, a), and maximising over p keeps that. So a relative error in :math:`\alpha` or c is at most as large in
  P, and Newton's method for the inverse never passes the root from the left.
* The maximiser is at least 1/2 (there the derivative is positive), where :math:`1 - s` is exact in floats
  and no term cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.errors import NotConverged

ROUND_UP = 2.0**-45
"""Relative outward rounding of a loss: 256 units of 2**-53.

With u = 2**-53: 4u in alpha, 5u in c and 4u in the constants are at most as large in P; f itself has 12u
(logarithms within 2 units in the last place, K of them added as a product); the derivative has 16u of the sum
of its terms' sizes, which is at most 4 P for s >= 1/2 (``h / (1 + h s) <= 2 log(1 + h s)``), so 64u; the
last additions, the division of u and the rounding itself 8u: less than 128u in all.
"""

_MAX_STEPS = 200


@dataclass(frozen=True)
class DeterminantBound:
    """How the logarithm of the Hessian's determinant can change, as a function of s.

    Attributes
    ----------
    times, straight, bent
        m, w and v of this module, two numbers each; a term that is not needed has m = 0.
    """

    times: tuple[float, float]
    straight: tuple[float, float]
    bent: tuple[float, float]

    @classmethod
    def of_rows(cls, n_classes: int, rows: int) -> DeterminantBound:
        """Return the bound by rows: each of ``rows`` has the worst covariance of classes by itself."""
        others = n_classes - 1.0
        return cls(
            (float(rows), rows * (others - 1.0)),
            (0.0, 1.0 / (others * rows)),
            (n_classes / (others * rows), 0.0),
        )

    @classmethod
    def of_trace(cls, n_classes: int, n_coefficients: int) -> DeterminantBound:
        """Return the bound by the trace, spread evenly over all directions that rows can reach."""
        others = n_classes - 1.0
        size = n_coefficients * others
        return cls((size, 0.0), ((others - 1.0) / (others * size), 0.0), (n_classes / (others * size), 0.0))

    def log_determinant(self, c: float, s: float) -> float:
        """Return the bound at ``c = a R^2 / l2`` and mean ``s``, to rounding."""
        return float(_value(s, 0.0, c, self.arrays()))

    def arrays(self) -> FloatArray:
        """Return the constants as the kernels take them, shape (3, 2)."""
        return np.array([self.times, self.straight, self.bent])


def loss_upper(
    weights: FloatArray, by_noise: float, by_penalty: float, bound: DeterminantBound
) -> FloatArray:
    """Return P for every weight, rounded up; exactly 0 where the weight is 0.

    Parameters
    ----------
    weights
        Weights, at least 0; those above 0 at least 1e-150.
    by_noise
        ``noise_rate * row_bound``.
    by_penalty
        ``row_bound**2 / l2``.
    bound
        The determinant's constants.
    """
    return np.asarray(_losses(weights, by_noise, by_penalty, bound.arrays()))


def largest_weights(
    promises: FloatArray, by_noise: float, by_penalty: float, bound: DeterminantBound, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weights with P(a) = promise, to rounding, and their derivatives in ``-log(by_noise)``.

    ``start`` is a guess, for example the solution for another ``by_noise``.

    Raises
    ------
    NotConverged
        If 200 steps are not enough, which concavity excludes.
    """
    weights, slopes, found = _inverse(promises, by_noise, by_penalty, bound.arrays(), start)
    if not found:
        raise NotConverged(f"expected the inverse of the loss curve within {_MAX_STEPS} steps.")
    return weights, slopes


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
def _value(s: float, alpha: float, c: float, terms: FloatArray) -> float:
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
    for _ in range(_MAX_STEPS):
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
def _losses(weights: FloatArray, by_noise: float, by_penalty: float, terms: FloatArray) -> FloatArray:
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
        out[i] = (alpha + _value(s, alpha, c, terms) + above) * (1.0 + ROUND_UP)
    return out


@numba.njit(cache=True)
def _inverse(
    promises: FloatArray, by_noise: float, by_penalty: float, terms: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    weights, slopes = np.zeros(promises.size), np.zeros(promises.size)
    trace = 0.0
    for k in range(2):
        trace += terms[0, k] * (terms[1, k] + terms[2, k])
    for i in range(promises.size):
        # The tangent at 0 lies above P: left of the root.
        floor = promises[i] / (2.0 * by_noise + trace * by_penalty)
        a = max(start[i], floor)
        for _ in range(_MAX_STEPS):
            alpha, c = a * by_noise, a * by_penalty
            s = _maximiser(alpha, c, terms)
            loss = alpha + _value(s, alpha, c, terms)
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
