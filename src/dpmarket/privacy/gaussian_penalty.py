r"""Turn public quantities into a ridge penalty for Gaussian noise, and what undoes its shrinkage.

The noise of a coefficient has the standard deviation :math:`2 / \eta`, where noise without a delta has the
root mean square :math:`2 \sqrt{n + 1} / \eta`: at :math:`\sqrt{n + 1}` times the noise rate they are the
same, and what :mod:`dpmarket.privacy.penalty` suggests for that is suggested here. Besides, the Hessian's
share of a promise, c, must be small beside the promise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.errors import InvalidInput
from dpmarket.privacy.gaussian import vertex_bounds
from dpmarket.privacy.penalty import suggest_l2, suggest_stretch
from dpmarket.privacy.softmax_penalty import softmax_suggest_l2, softmax_suggest_stretch

_SHARE = 0.25  # of a promise that the Hessian may take: there it costs next to nothing
_SOFTMAX_SHARE = 0.05  # where it is taken off every term


def gaussian_suggest_l2(
    epsilons: ArrayLike,
    delta: float,
    n_coefficients: int,
    *,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    n_classes: int = 2,
) -> float:
    r"""Return a ridge penalty that keeps every promise and suits most data.

    With :math:`\mu_i` what each promise allows without a penalty's share, the larger of
    :func:`~dpmarket.privacy.penalty.suggest_l2` at the noise rate :math:`\sqrt{n + 1} \sum \mu_i / R` and of
    :math:`4 R^2 \max_i(\mu_i / \epsilon_i) / \sum \mu_i`, where the Hessian takes a quarter of a promise at
    most. With more than two classes what
    :func:`~dpmarket.privacy.softmax_penalty.softmax_suggest_l2` gives for as much noise, and a twentieth.

    Parameters
    ----------
    epsilons
        The promise to each person (epsilon), shape (people,), at least 0, less what is set aside.
    delta
        The delta of every promise, above 0 and below 1.
    n_coefficients
        n, coefficients of one class, the constant's included.
    row_bound
        R, the largest Euclidean norm of a row, > 0.
    rows_per_person
        A public bound on the number of rows of one person.
    n_classes
        K, at least 2.

    Returns
    -------
    float

    Raises
    ------
    InvalidInput
        For values outside these ranges.

    Notes
    -----
    Guaranteed: A function of public quantities only: choosing the penalty this way costs no privacy.

    Examples
    --------
    >>> round(gaussian_suggest_l2([1.0] * 1000, delta=1e-5, n_coefficients=101), 4)
    0.0147
    """
    promises = checks.non_negative_vector("epsilons", epsilons)
    asked = checks.strictly_between("delta", delta, 0.0, 1.0)
    n = checks.whole("n_coefficients", n_coefficients, minimum=1)
    bound = checks.positive("row_bound", row_bound)
    distinct, counts = np.unique(promises[promises > 0.0], return_counts=True)
    if not distinct.size:
        raise InvalidInput("expected at least one promise above 0, found none.")
    deltas = np.full(distinct.shape, asked)
    mu = np.max(
        [b.largest_mu(distinct, deltas, 1e50) for b in vertex_bounds(n_classes, rows_per_person)], axis=0
    )
    total = float(mu @ counts)
    most = float((mu / distinct).max())
    if n_classes == 2:
        least = bound * bound * most / (_SHARE * total)
        return max(suggest_l2(math.sqrt(n + 1.0) * total / bound, n, bound), least)
    least = bound * bound * most / (_SOFTMAX_SHARE * total)
    return max(softmax_suggest_l2(math.sqrt(2.0 * (n + 1.0)) * total, n_classes, n, bound), least)


def gaussian_suggest_stretch(
    noise_rate: float, l2: float, n_coefficients: int, *, row_bound: float = 1.0, n_classes: int = 2
) -> float:
    r"""Return a factor, at least 1, for released coefficients that undoes part of the penalty's shrinkage.

    That of as much noise without a delta, at :math:`\sqrt{n + 1}` times the noise rate
    (:func:`~dpmarket.privacy.penalty.suggest_stretch`,
    :func:`~dpmarket.privacy.softmax_penalty.softmax_suggest_stretch`).

    Parameters
    ----------
    noise_rate
        The noise rate eta, > 0.
    l2
        The ridge penalty Lambda, > 0.
    n_coefficients, row_bound, n_classes
        As for :func:`gaussian_suggest_l2`.

    Returns
    -------
    float
        The factor; 1 would leave the coefficients as they are.

    Raises
    ------
    InvalidInput
        For values outside these ranges.

    Notes
    -----
    Guaranteed: A function of public quantities only. It moves no prediction of a class, only probabilities.

    Examples
    --------
    >>> round(gaussian_suggest_stretch(10.0, 0.1, 20), 3)
    1.199
    """
    eta = checks.positive("noise_rate", noise_rate)
    n = checks.whole("n_coefficients", n_coefficients, minimum=1)
    rate = eta * math.sqrt(n + 1.0)
    if checks.whole("n_classes", n_classes, minimum=2) == 2:
        return suggest_stretch(rate, l2, n, row_bound)
    return softmax_suggest_stretch(rate, l2, n_classes, n, row_bound)
