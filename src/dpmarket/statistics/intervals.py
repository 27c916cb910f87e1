r"""Turn public bounds and weights into margins of error that cover both sampling and noise.

No record takes part: a sample variance would be a release of its own. Records are taken as independent draws
from one population, independent of the weights, within the public bounds. Then the weighted mean of numbers
within a range of width R strays from the population's by more than x with probability at most
:math:`e^{-x^2 / (2 \sigma^2)}` in either direction, :math:`\sigma = R |a| / 2` (Hoeffding), and the noise has
a known law. All margins are valid for any number of people; none is an approximation for large samples.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainccinv, log_ndtr

_SPLITS = np.linspace(0.02, 0.98, 97)  # shares of the risk that go to the noise
_MUCH = 1e3  # times the noise: then the tail's formula loses digits, and the risk is split instead
_UP = 1.0 + 1e-9  # the root is found to 1e-12


def mean_margin(deviation: float, noise_scale: float, risk: float) -> float:
    """Return a half-width that a weighted mean with Laplace noise keeps but for a given risk.

    Parameters
    ----------
    deviation
        sigma, half of the range times the norm of the weights.
    noise_scale
        Scale of the Laplace noise, in the same unit.
    risk
        Probability with which the true mean may lie outside, in either direction together.

    Returns
    -------
    float
        The same unit, rounded up.
    """
    split = _split_margin(deviation, noise_scale, risk)
    if deviation > _MUCH * noise_scale:
        return split
    if mean_tail(split, deviation, noise_scale) >= 0.5 * risk:
        return split
    root = brentq(lambda x: mean_tail(x, deviation, noise_scale) - 0.5 * risk, 0.0, split, xtol=1e-12 * split)
    return float(root) * _UP


def mean_tail(x: float, deviation: float, noise_scale: float) -> float:
    r"""Bound the probability that sampling and noise together exceed x, in one direction.

    .. math:: E_Z \min(1, e^{-(x - Z)_+^2 / (2 \sigma^2)}), \quad Z \sim Laplace(b).
    """
    ratio = deviation / noise_scale
    here = x / deviation
    log_start = math.log(ratio * math.sqrt(math.pi / 2.0)) + 0.5 * ratio * ratio
    beyond = 0.5 * math.exp(-x / noise_scale)
    # Noise between 0 and x, then noise of the other sign; the first is a difference of two terms.
    between = math.exp(log_start - here * ratio + float(log_ndtr(here - ratio)))
    between -= math.exp(log_start - here * ratio + float(log_ndtr(-ratio)))
    opposite = math.exp(log_start + here * ratio + float(log_ndtr(-here - ratio)))
    return beyond + max(between, 0.0) + opposite


def _split_margin(deviation: float, noise_scale: float, risk: float) -> float:
    sampling = deviation * np.sqrt(2.0 * np.log(2.0 / (risk * (1.0 - _SPLITS))))
    noise = noise_scale * np.log(1.0 / (risk * _SPLITS))
    return float((sampling + noise).min()) * _UP


def vector_radius(n: int, deviation: float, noise_scale: float, risk: float) -> float:
    """Return a radius around a noisy vector mean that holds the population's mean but for a given risk.

    The length of the sampling error is at most ``deviation`` in expectation (root mean square) and changes
    by at most twice a person's weight times the bound (McDiarmid); the noise's length has a Gamma(n) law.

    Parameters
    ----------
    n
        Number of coordinates.
    deviation
        The bound on lengths times the norm of the weights.
    noise_scale
        Scale of the noise's length.
    risk
        Probability with which the mean may lie outside.

    Returns
    -------
    float
        The same unit, rounded up.
    """
    sampling = deviation * (1.0 + np.sqrt(2.0 * np.log(1.0 / (risk * (1.0 - _SPLITS)))))
    noise = noise_scale * gammainccinv(n, risk * _SPLITS)
    return float((sampling + noise).min()) * _UP


def level_margin(norm: float, candidates: int, rate: float, risk: float) -> float:
    """Return by how much the level of a released quantile may be off in one direction, but for a risk.

    Sampling at one fixed point (Hoeffding) and the race among the candidates each take part of the risk.

    Parameters
    ----------
    norm
        The norm of the weights, which sum to 1.
    candidates
        How many candidates race.
    rate
        What a score of 1 (a whole level) is multiplied by in the race.
    risk
        Probability with which the margin may be exceeded.

    Returns
    -------
    float
        A difference of levels, rounded up; above 1 means that nothing is known.
    """
    sampling = norm * np.sqrt(0.5 * np.log(1.0 / (risk * (1.0 - _SPLITS))))
    noise = np.log(candidates / (risk * _SPLITS)) / rate
    return float((sampling + noise).min()) * _UP
