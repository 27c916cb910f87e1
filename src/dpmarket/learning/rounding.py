r"""Turn public sizes into rigorous bounds on the rounding errors of :mod:`dpmarket.learning.kernels`.

Notation: u = 2**-53, gamma(k) = k u / (1 - k u), A the sum of the weights, R the bound on rows, w the point.
A sum of k products in any order is off by at most gamma(k) times the sum of the absolute products (Higham,
*Accuracy and Stability of Numerical Algorithms*, section 3.1); compensated, by gamma(k)^2 times it, if high
and low part are kept (Ogita, Rump and Oishi, *Accurate sum and dot product*, 2005). By Cauchy and Schwarz the
absolute products of a margin add up to at most R |w|, and those of a gradient, in the Euclidean norm over
coordinates, to at most A R. A sigmoid has slope at most 1/4. All bounds are generous by small factors.
"""

from __future__ import annotations

import math

from dpmarket.learning.kernels import CHUNK

UNIT = 2.0**-53


def gamma(k: int) -> float:
    """Return k u / (1 - k u), rounded up."""
    return k * UNIT / (1.0 - k * UNIT) * (1.0 + 1e-15)


def gradient_error(n: int, rows: int, norm: float, row_bound: float, weight_total: float) -> float:
    """Bound the error of ``kernels.gradient`` at a point of the given norm, in the Euclidean norm."""
    margin = row_bound * norm * gamma(n + 6)
    chunks = gamma(2 * (rows // CHUNK + CHUNK) + 64) ** 2
    return weight_total * row_bound * (0.25 * margin + 8.0 * UNIT + gamma(CHUNK + 8) + chunks)


def accurate_gradient_error(n: int, rows: int, norm: float, row_bound: float, weight_total: float) -> float:
    """Bound the error of ``kernels.accurate_gradient`` at a pair of this norm, low part below 4 u norm."""
    margin = row_bound * norm * (2.0 * gamma(n + 8) ** 2 + 2.0**-98)
    chunks = gamma(4 * CHUNK + 16) ** 2 + gamma(2 * (rows // CHUNK + CHUNK) + 64) ** 2
    return weight_total * row_bound * (0.25 * margin + 2.0**-87 + chunks)


def product_error(n: int, rows: int, norm: float, row_bound: float, weight_total: float) -> float:
    """Bound the error of ``kernels.hessian_product`` per unit of the vector's norm."""
    terms = gamma(2 * n + CHUNK + 64) * (1.0 + row_bound * norm)
    return weight_total * row_bound**2 * (terms + gamma(2 * (rows // CHUNK + CHUNK) + 64) ** 2)


def curvature_change(step: float, row_bound: float, weight_total: float) -> float:
    """Bound what the gradient's linear expansion over a step misses: ``A R^3 step^2 / (12 sqrt 3)``."""
    return weight_total * row_bound**3 * step**2 / (12.0 * math.sqrt(3.0)) * (1.0 + 1e-12)
