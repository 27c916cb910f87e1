r"""What a weight costs in privacy, and what releasing on a grid costs, with K > 2 classes.

``softmax model``: K rows of n coefficients, independent noise of one rate for every row. With weight a, noise
rate eta, penalty Lambda, row bound R and at most r rows a person, put :math:`L = a \eta R` and
:math:`c = a R^2 / \Lambda`. A person costs :math:`L + \max_{0 \le s \le 1} f(s)` with f the smaller of

.. math:: L s + r \log\left(1 + \frac{c}{r} \frac{K s (1 - s)}{K - 1}\right)
          + r (K - 2) \log\left(1 + \frac{c}{r} \frac{s}{K - 1}\right), \qquad
          L s + n (K - 1) \log\left(1 + \frac{c (2 s - K s^2 / (K - 1))}{n (K - 1)}\right).

The first has the determinants of the rows one by one, the second the trace of all of them over the directions
that there are. Both are concave, so that for any s whatsoever the maximum is at most
:math:`f(s) + \max(f'(s)(1 - s), -f'(s) s)`: s may be rounded freely.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from .rounding import log1p_up, sqrt_up

if TYPE_CHECKING:
    from .layout import Release

_HALVINGS = 70
_Term = tuple[Any, Any, Any]  # how often, and what s and s^2 are multiplied by inside the logarithm


def softmax_loss_up(weight: float, release: Release) -> Fraction:
    """Return what one weight costs, never below its exact value; 0 for weight 0."""
    a = Fraction(weight)
    if a == 0:
        return Fraction(0)
    linear = a * Fraction(release.noise_rate) * Fraction(release.row_bound)
    c = a * Fraction(release.row_bound) ** 2 / Fraction(release.l2)
    return linear + min(_largest_up(linear, terms) for terms in _bounds(c, release))


def softmax_losses(weights: Any, release: Release) -> Any:
    """Return what many weights cost, in floats: all terms are positive, and twelve digits are right."""
    a = np.where(weights > 0.0, weights, 1.0)
    linear = a * release.noise_rate * release.row_bound
    found = [_largest(linear, terms) for terms in _bounds(a * release.row_bound**2 / release.l2, release)]
    return np.where(weights > 0.0, linear + np.minimum.reduce(found), 0.0)


def softmax_release_up(release: Release) -> Fraction | None:
    """Return what releasing on the grid costs, never below its exact value; None if the grid is too fine."""
    classes, n = len(release.classes), release.n_coefficients
    g, l2, bound, total, eta = (
        Fraction(x)
        for x in (release.grid, release.l2, release.row_bound, release.weight_total, release.noise_rate)
    )
    rho = (Fraction(release.gradient_bound) + Fraction(release.noise_accuracy)) / l2
    if not g > 2 * rho:
        return None
    bent = 2 * (classes - 1) * min(n * bound, total * bound**3 / (classes * l2))
    moved = eta / 2 * (classes * l2 + total * bound**2)
    return classes * n * log1p_up(4 * rho / (g - 2 * rho)) + 2 * rho * sqrt_up(Fraction(n)) * (moved + bent)


def _bounds(c: Any, release: Release) -> list[list[_Term]]:
    """Return the logarithms of each bound; with up to n rows the second is never the smaller one."""
    classes, n, r = len(release.classes), release.n_coefficients, release.rows_per_person
    bend = c * classes / (r * (classes - 1))
    found = [[(r, bend, -bend), (r * (classes - 2), c / (r * (classes - 1)), 0 * c)]]
    if r > n:
        size = n * (classes - 1)
        found.append([(size, 2 * c / size, -c * classes / ((classes - 1) * size))])
    return found


def _slope(s: Any, linear: Any, terms: list[_Term]) -> Any:
    return linear + sum(m * (u + 2 * v * s) / (1 + s * (u + v * s)) for m, u, v in terms)


def _largest_up(linear: Fraction, terms: list[_Term]) -> Fraction:
    low, high = Fraction(0), Fraction(1)
    if _slope(high, linear, terms) >= 0:
        low = high
    while high - low > Fraction(1, 1 << _HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _slope(middle, linear, terms) > 0 else (low, middle)
    slope = _slope(low, linear, terms)
    value = linear * low + sum((m * log1p_up(low * (u + v * low)) for m, u, v in terms), Fraction(0))
    above: Fraction = max(slope * (1 - low), -slope * low)
    return value + above


def _largest(linear: Any, terms: list[_Term]) -> Any:
    low, high = np.zeros_like(linear), np.ones_like(linear)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        rising = _slope(middle, linear, terms) > 0.0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return linear * high + sum(m * np.log1p(np.maximum(high * (u + v * high), 0.0)) for m, u, v in terms)
