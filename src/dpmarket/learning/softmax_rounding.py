r"""Turn public sizes into rigorous bounds on the rounding errors of :mod:`dpmarket.learning.softmax_kernels`.

Notation and arguments as in :mod:`dpmarket.learning.rounding`, norms of matrices are Frobenius norms. A score
is off by at most :math:`\gamma(n + 8) R |W|`. Probabilities whose scores are off by :math:`\delta` move by
at most :math:`\delta` in the sum of absolute values (the mean absolute deviation of numbers in [-1, 1] is at
most 1); relative errors of exponentials, of their sum over K classes and of quotients add up. A residual
:math:`p - e_y` has a Euclidean norm of at most :math:`\sqrt 2`. All bounds are generous by small factors.

*The curvature's change.* Along scores v probabilities have the second derivative
:math:`p_k ((v_k - \bar v)^2 - \mathrm{Var}_p(v))`, whose absolute values add up to at most
:math:`2 \mathrm{Var}_p(v) \le (\max v - \min v)^2 / 2 \le |v|^2`; so what the linear expansion of a gradient
over a step d misses is at most :math:`\frac{1}{2} A R^3 |d|^2`.
"""

from __future__ import annotations

from dpmarket.learning.kernels import CHUNK
from dpmarket.learning.rounding import UNIT, gamma


def gradient_error(
    classes: int, n: int, rows: int, norm: float, row_bound: float, weight_total: float
) -> float:
    """Bound the error of ``softmax_kernels.gradient`` at a point of the given norm, in the Euclidean norm."""
    score = row_bound * norm * gamma(n + 10)
    sums = 2.0 * gamma(CHUNK + 8) + 2.0 * gamma(2 * (rows // CHUNK + CHUNK) + 64) ** 2
    return weight_total * row_bound * (score + (2.0 * classes + 40.0) * UNIT + sums)


def accurate_gradient_error(
    classes: int, n: int, rows: int, norm: float, row_bound: float, weight_total: float
) -> float:
    """Bound the error of ``softmax_kernels.accurate_gradient`` at a pair, low part below 4 u norm."""
    score = row_bound * norm * (2.0 * gamma(n + 8) ** 2 + 2.0**-96)
    sums = 2.0 * gamma(4 * CHUNK + 16) ** 2 + 2.0 * gamma(2 * (rows // CHUNK + CHUNK) + 64) ** 2
    return weight_total * row_bound * (score + 2.0**-85 + classes * 2.0**-98 + sums)


def product_error(
    classes: int, n: int, rows: int, norm: float, row_bound: float, weight_total: float
) -> float:
    """Bound the error of ``softmax_kernels.hessian_product`` per unit of the vector's norm."""
    terms = 4.0 * gamma(2 * n + 4 * classes + CHUNK + 80) * (1.0 + row_bound * norm)
    return weight_total * row_bound**2 * (terms + 2.0 * gamma(2 * (rows // CHUNK + CHUNK) + 64) ** 2)


def curvature_change(step: float, row_bound: float, weight_total: float) -> float:
    """Bound what the gradient's linear expansion over a step misses: ``A R^3 step^2 / 2``."""
    return weight_total * row_bound**3 * step**2 / 2.0 * (1.0 + 1e-12)
