r"""Confidence intervals that cover both sampling and noise, from public bounds and released numbers.

No record takes part: a sample variance would be a release of its own. Records are taken as independent draws
from one population, independent of the weights, within the public bounds. Then a weighted mean of numbers
within [0, 1] strays from the population's mean :math:`\mu` by more than x in one direction with probability
at most :math:`e^{-x^2 / (2 v |a|^2)}`, where v depends on :math:`\mu` and the direction and is at most 1/4
(:func:`largest_spread`), and the noise has a known law. A mean :math:`\mu` is in the interval unless the
released number is too unlikely under it. All bounds hold for any number of people.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammainccinv, log_ndtr

from dpmarket.arrays import FloatArray

_SPLITS = np.linspace(0.02, 0.98, 97)  # shares of the risk that go to the noise
_CELLS = 64  # means that are looked at together
_FINER = 16.0  # how much narrower the next cells are
_ROUNDS = 7  # the last cells are 1e-9 wide
_MUCH = 1e3  # times the noise: beyond, the tail's formula loses digits, and two parts are added up instead
_APART = 40.0  # scales of noise, exceeded with probability 2e-18
_UP = 1.0 + 1e-9  # far more than the formulas can be off by rounding
_NOTHING_KNOWN = 2.0  # levels differ by 1 at most
_LEAST = 1e-12  # the spread of a mean at an end of the range, where it is 0


def mean_interval(
    low_value: float, high_value: float, norm: float, noise_scale: float, risk: float
) -> tuple[float, float]:
    """Return an interval for the mean of numbers within [0, 1], which misses it with this risk at most."""
    low = 1.0 - _upper_end(1.0 - low_value, norm, noise_scale, 0.5 * risk)
    return max(low, 0.0), _upper_end(high_value, norm, noise_scale, 0.5 * risk)


def _upper_end(value: float, norm: float, noise_scale: float, risk: float) -> float:
    """Return a number such that the released value is too low, but for a risk, under every larger mean."""
    if value >= 1.0:
        return 1.0
    start, end = max(value, 0.0), 1.0
    width = (end - start) / _CELLS
    for _ in range(_ROUNDS):
        while end > start:
            edges = np.maximum(end - width * np.arange(_CELLS + 1), start)
            spreads = largest_spread(edges[1:], edges[:-1])
            tails = mean_tail(edges[1:] - value, np.sqrt(spreads) * norm, noise_scale)
            kept = np.flatnonzero(tails * _UP > risk)
            if kept.size:
                end = float(edges[kept[0]])
                break
            end = float(edges[-1])
        width /= _FINER
    return end


def largest_spread(lows: Any, highs: Any) -> FloatArray:
    r"""Return v, the largest over means from low to high, for values that come out below their mean.

    For a number within [0, 1] with mean :math:`\mu` the logarithm of :math:`E e^{-t (X - \mu)}`, t > 0, is at
    most that of a yes-or-no answer. Its second derivative is the variance of the answer tilted towards no,
    which is at most :math:`\mu (1 - \mu)` if :math:`\mu \le 1/2`. Otherwise the best constant is
    :math:`(1 - 2\mu) / (2 \log((1 - \mu) / \mu))` (Kearns and Saul). Both rise towards 1/4 at 1/2. Ranges
    of means lie within [0, 1].
    """
    means = np.clip(0.5, lows, highs)
    above = np.clip(means, 0.5 + 1e-6, 1.0 - 1e-15)  # nearer to 1/2 the quotient loses digits
    answers = np.where(
        means >= 0.5 + 1e-6, (1.0 - 2.0 * above) / (2.0 * np.log1p((1.0 - 2.0 * above) / above)), 0.25
    )
    return np.asarray(np.maximum(np.where(means <= 0.5, means * (1.0 - means), answers), _LEAST))


def mean_tail(distances: FloatArray, deviations: FloatArray, noise_scale: float) -> FloatArray:
    r"""Bound the probability that sampling and noise together exceed x, in one direction.

    .. math:: E_Z \min(1, e^{-(x - Z)_+^2 / (2 \sigma^2)}), \quad Z \sim Laplace(b)

    with distances x of at least 0, deviations sigma and the noise's scale b in the same unit. It rises with
    sigma and falls with x.
    """
    x, sigma = np.asarray(distances, dtype=np.float64), np.asarray(deviations, dtype=np.float64)
    apart = np.exp(-0.5 * (np.maximum(x - _APART * noise_scale, 0.0) / sigma) ** 2) + math.exp(-_APART)
    ratio = np.minimum(sigma / noise_scale, _MUCH)
    sigma = ratio * noise_scale
    here = x / sigma
    log_start = np.log(ratio * math.sqrt(math.pi / 2.0)) + 0.5 * ratio**2
    # Noise between 0 and x, a difference of two terms, then noise of the other sign.
    between = np.exp(log_start - here * ratio + log_ndtr(here - ratio))
    between -= np.exp(log_start - here * ratio + log_ndtr(-ratio))
    opposite = np.exp(log_start + here * ratio + log_ndtr(-here - ratio))
    joint = 0.5 * np.exp(-x / noise_scale) + np.maximum(between, 0.0) + opposite
    return np.asarray(np.where(deviations > _MUCH * noise_scale, apart, joint))


def vector_radius(n: int, deviation: float, noise_scale: float, risk: float) -> float:
    """Return a radius around a noisy vector mean that holds the population's mean but for a given risk.

    The length of the sampling error is at most ``deviation`` in expectation (root mean square) and changes
    by at most twice a person's weight times the bound (McDiarmid); the noise's length has a Gamma(n) law.
    ``deviation`` is the bound on lengths times the norm of the weights. The radius is rounded up.
    """
    sampling = deviation * (1.0 + np.sqrt(2.0 * np.log(1.0 / (risk * (1.0 - _SPLITS)))))
    noise = noise_scale * gammainccinv(n, risk * _SPLITS)
    return float((sampling + noise).min()) * _UP


def level_margin(norm: float, candidates: int, rate: float, risk: float) -> float:
    """Return by how much the level of a released quantile may be off in one direction, but for a risk."""
    sampling = norm * np.sqrt(0.5 * np.log(1.0 / (risk * (1.0 - _SPLITS))))
    if rate <= 0.0:  # a share of the epsilons too small for a float
        return _NOTHING_KNOWN
    noise = np.log(candidates / (risk * _SPLITS)) / rate
    return min(float((sampling + noise).min()) * _UP, _NOTHING_KNOWN)
