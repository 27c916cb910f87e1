r"""Turn given promises into weights, a noise rate and coefficients together, by looking at the records.

The paper's section II: minimise, over coefficients w, weights a and noise rate :math:`\eta`,

.. math:: \sum_i a_i \ell_i(w) + \frac{\Lambda}{2}|w|^2 + \mu |a|^2 + \frac{\sigma}{\eta}
   \quad\text{over}\quad \sum_i a_i = 1,\; 0 \le a_i \le \min(\epsilon_i/\eta, k/m).

The noise has mean 0 and is left out of the choice; the norm of a is squared, as in the paper's appendix, so
that the best weights for given w are a projection. For comparison only: weights that look at the records keep
no promise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from dpmarket.arrays import FloatArray
from dpmarket.paper.experiments.classifiers import train


@dataclass(frozen=True, eq=False)
class Choice:
    """Weights, noise rate and coefficients, with the weighted loss of the coefficients (no noise in them)."""

    loss_weights: FloatArray
    noise_rate: float
    coefficients: FloatArray
    training_loss: float
    value: float


def project_below(point: FloatArray, limits: FloatArray) -> FloatArray:
    """Return the nearest weights between 0 and individual limits that sum to 1; the limits sum to 1 or more.

    The projection is ``clip(point - t, 0, limits)``; its sum is piecewise linear and falls with t, with kinks
    at ``point`` and at ``point - limits``.

    Examples
    --------
    >>> project_below(np.array([3.0, 1.0, 0.0]), np.array([0.5, 0.4, 0.4])).round(12).tolist()
    [0.5, 0.4, 0.1]
    """
    kinks = np.concatenate([point - limits, point])
    slopes = np.concatenate([np.full(point.size, -1.0), np.full(point.size, 1.0)])
    order = np.argsort(kinks, kind="stable")
    kinks = kinks[order]
    steps = np.cumsum(slopes[order])[:-1] * np.diff(kinks)
    sums = limits.sum() + np.concatenate([[0.0], np.cumsum(steps)])
    k = int(np.searchsorted(-sums, -1.0, side="left"))
    if k == 0 or k == sums.size:
        threshold = kinks[min(k, kinks.size - 1)]
    else:
        share = (sums[k - 1] - 1.0) / max(sums[k - 1] - sums[k], 1e-300)
        threshold = kinks[k - 1] + share * (kinks[k] - kinks[k - 1])
    return np.asarray(np.clip(point - threshold, 0.0, limits))


def choose(
    rows: FloatArray,
    signs: FloatArray,
    epsilons: FloatArray,
    *,
    concentration: float,
    noise: float,
    l2: float,
    weight_cap: float,
    grid: FloatArray,
    starts: FloatArray,
) -> Choice:
    """Return the best choice over a grid of noise rates, each solved from every starting point.

    Parameters
    ----------
    rows, signs
        The records, shape (m, n) and (m,).
    epsilons
        The promises.
    concentration
        Mu > 0.
    noise
        Sigma, at least 0.
    l2, weight_cap
        Lambda and k.
    grid
        Noise rates, each at most the sum of what the promises allow.
    starts
        Coefficients to start from, shape (k, n).
    """
    signed = signs[:, None] * rows
    best: Choice | None = None
    for eta in grid.tolist():
        limits = np.minimum(epsilons / eta, weight_cap / signs.size)

        def value_and_gradient(w: FloatArray, limits: FloatArray = limits) -> tuple[float, FloatArray]:
            margins = signed @ w
            losses = np.logaddexp(0.0, -margins)
            a = project_below(losses * (-0.5 / concentration), limits)
            value = float(a @ losses) + concentration * float(a @ a) + 0.5 * l2 * float(w @ w)
            return value, l2 * w - (a * expit(-margins)) @ signed

        for start in starts:
            found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B")
            total = float(found.fun) + noise / eta
            if best is None or total < best.value:
                losses = np.logaddexp(0.0, -(signed @ found.x))
                a = project_below(losses * (-0.5 / concentration), limits)
                best = Choice(a, eta, found.x, float(a @ losses), total)
    assert best is not None
    return best


def choose_without_terms(
    rows: FloatArray,
    signs: FloatArray,
    epsilons: FloatArray,
    *,
    l2: float,
    weight_cap: float,
    grid: FloatArray,
    starts: FloatArray,
) -> Choice:
    """Return the choice with ``mu = sigma = 0``: the records with the least loss get all the weight allowed.

    Weights and coefficients are improved in turn from every starting point; at equal values the larger noise
    rate is taken, which favours this buyer.
    """
    signed = signs[:, None] * rows
    best: Choice | None = None
    for eta in grid.tolist():
        limits = np.minimum(epsilons / eta, weight_cap / signs.size)
        for start in starts:
            w, value = start, np.inf
            while True:
                losses = np.logaddexp(0.0, -(signed @ w))
                a = _cheapest(losses, limits)
                w = train(rows, signs, a, np.zeros(w.size), l2)
                losses = np.logaddexp(0.0, -(signed @ w))
                reached = float(a @ losses) + 0.5 * l2 * float(w @ w)
                if reached >= value - 1e-12:
                    break
                value = reached
            if best is None or value <= best.value + 1e-9:
                best = Choice(a, eta, w, float(a @ losses), value)
    assert best is not None
    return best


def _cheapest(losses: FloatArray, limits: FloatArray) -> FloatArray:
    order = np.argsort(losses, kind="stable")
    before = np.cumsum(limits[order]) - limits[order]
    weights = np.empty(losses.size)
    weights[order] = np.clip(1.0 - before, 0.0, limits[order])
    return weights
