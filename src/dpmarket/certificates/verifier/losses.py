r"""What a weight costs in privacy, and what releasing on a grid costs, for every kind of release known here.

Known are ``binary model``, logistic regression by objective perturbation, and ``shaped binary model``, the
same with noise of another norm; :mod:`.softmax` knows more than two classes, and :mod:`.numbers_released`
statistics. With weight a, noise rate eta, penalty Lambda, row bounds R1 in the norm of the noise and R2 in
the Euclidean one (one number R for Euclidean noise) and at most r rows a person, formula (*) of the
documentation is

.. math:: \epsilon = L + \max_{0 \le s \le 1} \left[ L s + r \log(1 + h s (1 - s)) \right], \qquad
          L = \frac{a \eta R_1}{2}, \quad h = \frac{a R_2^2}{r \Lambda}.

With :math:`t = 1 - s` the sum is :math:`2 L + g(t)`, :math:`g(t) = -L t + r \log(1 + h t (1 - t))`. g is
concave and g(0) = 0, so that the maximum is at t = 0 if :math:`g'(0) = r h - L \le 0`, and for every t

.. math:: \max g \le g(t) + |g'(t)|.

That holds for any t whatsoever, so t may be rounded freely; near the root of
:math:`L h t^2 - (L h + 2 r h) t + (r h - L) = 0` the bound is as good as exact.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from .gaussian import gaussian_release_up
from .numbers_released import StatisticRelease, statistic_loss_up
from .rounding import log1p_up, sqrt_down, sqrt_up
from .softmax import softmax_loss_up, softmax_losses, softmax_release_up

if TYPE_CHECKING:
    from .layout import Release

_PLACES = 256


def loss_up(weight: float, release: Release | StatisticRelease) -> Fraction:
    """Return (*) for one weight, never below its exact value; 0 for weight 0, which the data cannot move."""
    a = Fraction(weight)
    if a == 0:
        return Fraction(0)
    if isinstance(release, StatisticRelease):
        return statistic_loss_up(weight, release)
    if release.has_many_classes:
        return softmax_loss_up(weight, release)
    eta, l2, bound = (Fraction(x) for x in (release.noise_rate, release.l2, release.row_bound))
    r = release.rows_per_person
    linear = a * eta * bound / 2
    h = a * Fraction(release.longest) ** 2 / (r * l2)
    if r * h <= linear:
        return 2 * linear
    t = _stationary(linear, h, r)
    curved = 1 + h * t * (1 - t)
    slope = -linear + r * h * (1 - 2 * t) / curved
    return 2 * linear - linear * t + r * log1p_up(curved - 1) + abs(slope)


def losses(weights: Any, release: Release | StatisticRelease) -> Any:
    """Return (*) for many weights, in floats: all terms are positive, and twelve digits are right."""
    if isinstance(release, StatisticRelease):
        return weights
    if release.has_many_classes:
        return softmax_losses(weights, release)
    eta, l2, bound, r = release.noise_rate, release.l2, release.row_bound, float(release.rows_per_person)
    a = np.where(weights > 0.0, weights, 1.0)
    linear, h = a * eta * bound / 2.0, a * release.longest**2 / (r * l2)
    excess = np.maximum(r * h - linear, 0.0)
    sum_ = h * (linear + 2.0 * r)
    # The root's discriminant as a sum of positive parts: (L h)^2 + 4 (r h)^2 + 4 L^2 h.
    root = np.sqrt((linear * h) ** 2 + 4.0 * (r * h) ** 2 + 4.0 * linear**2 * h)
    t = 2.0 * excess / (sum_ + root)
    value = linear * (2.0 - t) + r * np.log1p(h * t * (1.0 - t))
    return np.where(weights > 0.0, value, 0.0)


def release_up(release: Release | StatisticRelease) -> Fraction | None:
    """Return what releasing on the grid costs, never below its exact value; None if the grid is too fine."""
    if isinstance(release, StatisticRelease):
        return Fraction(0)  # whole numbers with whole noise: nothing is rounded
    if release.is_gaussian:
        return gaussian_release_up(release)
    if release.has_many_classes:
        return softmax_release_up(release)
    n = len(release.coef_grid)
    g, l2, bound, total, eta = (
        Fraction(x)
        for x in (release.grid, release.l2, release.row_bound, release.weight_total, release.noise_rate)
    )
    rho = (Fraction(release.gradient_bound) + Fraction(release.noise_accuracy)) / l2
    if not g > 2 * rho:
        return None
    long, root = Fraction(release.longest), sqrt_up(Fraction(n))
    bent = root * min(n * long, total * long**3 / (6 * sqrt_down(Fraction(3)) * l2))
    if release.joint == n:
        moved = root * (l2 + total * bound**2 / 4)
    else:
        # N of the vector of ones, and the largest sum of absolute values of a row.
        ones = sqrt_up(Fraction(release.joint)) + (n - release.joint)
        sums = min(root * long, sqrt_up(Fraction(max(release.joint, 1))) * bound)
        moved = l2 * ones + total * bound * sums / 4
    return n * log1p_up(4 * rho / (g - 2 * rho)) + 2 * rho * (eta / 2 * moved + bent)


def _stationary(linear: Fraction, h: Fraction, r: int) -> Fraction:
    """Return about where g is largest: the smaller root, in the form that does not cancel."""
    middle = h * (linear + 2 * r)
    inside = (linear * h) ** 2 + 4 * (r * h) ** 2 + 4 * linear**2 * h
    scale = 1 << _PLACES
    root = Fraction(isqrt(inside.numerator * scale * scale // inside.denominator), scale)
    t = 2 * (r * h - linear) / (middle + root) if middle + root > 0 else Fraction(1, 2)
    return min(Fraction(t.numerator * scale // t.denominator, scale), Fraction(1))
