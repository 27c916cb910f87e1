r"""Gaussian differential privacy: the trade-off between epsilon, delta and the distance mu.

A mechanism that is no easier to attack than telling apart two normals of variance 1 whose means differ by
:math:`\mu` is :math:`(\epsilon, \delta)`-differentially private exactly for

.. math:: \delta \ge \delta_G(\epsilon; \mu) = \Phi\left(-\frac{\epsilon}{\mu} + \frac{\mu}{2}\right)
          - e^{\epsilon} \Phi\left(-\frac{\epsilon}{\mu} - \frac{\mu}{2}\right)
          = \frac{e^{-x^2/2}}{2} \left[ \mathrm{erfcx} \frac{x}{\sqrt 2} - \mathrm{erfcx} \frac{x + \mu}
          {\sqrt 2} \right], \qquad x = \frac{\epsilon}{\mu} - \frac{\mu}{2}

(Dong, Roth and Su, 2022). The second form loses no digits in the tail. Everything is rounded so that privacy
is not overstated.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, ndtr

from dpmarket.arrays import FloatArray

_UP = 1.0 + 1e-14  # covers the rounding of x and of everything it is made of
_HALVINGS = 200
_CLOSE = 2.0**-50
_LARGEST_MU = 1e6


def gaussian_deltas(epsilons: ArrayLike, mus: ArrayLike) -> FloatArray:
    """Return delta at ``epsilons`` for the distances ``mus``, rounded up; exactly 0 where ``mu`` is 0."""
    epsilon = np.asarray(epsilons, dtype=np.float64)
    mu = np.asarray(mus, dtype=np.float64)
    distance = np.where(mu > 0.0, mu, 1.0) * _UP
    x = epsilon / distance / _UP - 0.5 * distance
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        density = 0.5 * np.exp(-0.5 * x * x)
        first = np.where(x >= 0.0, density * erfcx(np.maximum(x, 0.0) / math.sqrt(2.0)), ndtr(-x))
        second = density * erfcx((x + distance) / math.sqrt(2.0))
    # Both terms are off by a few rounding errors of x * x; below 1e-300 they leave the range of floats.
    off = 2e-14 + 2e-15 * np.minimum(np.abs(x), 1e3) ** 2
    found = np.minimum((first - second) + off * first, 1.0) * _UP + 1e-300
    return np.where(mu > 0.0, np.clip(found, 0.0, 1.0), 0.0)


def gaussian_epsilons(mus: ArrayLike, deltas: ArrayLike) -> FloatArray:
    """Return the smallest epsilons at which ``mus`` keep ``deltas``, rounded up; 0 where ``mu`` is 0."""
    mu, delta = (np.asarray(values, dtype=np.float64) for values in (mus, deltas))
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = 0.5 * mu * mu + mu * (1.0 + np.sqrt(2.0 * np.log(2.0 / delta)))
    low, high = np.zeros(bound.shape), np.where(gaussian_deltas(0.0, mu) <= delta, 0.0, bound)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = gaussian_deltas(middle, mu) <= delta
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        if not (high - low > _CLOSE * high).any():
            break
    return np.asarray(np.where(mu > 0.0, high, 0.0))


def gaussian_mus(epsilons: ArrayLike, delta: float) -> FloatArray:
    """Return the largest distances that keep (epsilon, delta), rounded down; 0 where epsilon is 0."""
    epsilon = np.asarray(epsilons, dtype=np.float64)
    low, high = np.zeros_like(epsilon), np.full_like(epsilon, _LARGEST_MU)
    for _ in range(_HALVINGS):
        # Geometric as soon as some mu is known to be small enough.
        middle = np.where(low > 0.0, np.sqrt(low * high), high * 1e-3)
        middle = np.where(high < 1e-100, 0.0, middle)
        kept = gaussian_deltas(epsilon, middle) <= delta
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
        if not (high > low * (1.0 + _CLOSE)).any():
            break
    return np.asarray(np.where(epsilon > 0.0, low, 0.0))
