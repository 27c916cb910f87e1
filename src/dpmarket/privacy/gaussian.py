r"""Turn the weight of a person's records into what it costs that person where noise is Gaussian.

Training minimises :math:`\sum_i a_i \log(1 + e^{-y_i w \cdot x_i}) + b \cdot w + \frac{\Lambda}{2} |w|^2`
with :math:`b \sim N(0, \nu^2 I)`, :math:`\nu = 2 / \eta`. Neighbours differ in the record of one person,
replaced by any other. Let :math:`\mu = 2 a R / \nu = a \eta R` and :math:`c = a R^2 / \Lambda`.

With :math:`s, s'` the sigmoids of the old record and the new one, the noise that leads to the same output
moves by :math:`a (s' u' - s u)`, linear in :math:`(s, s')`, so that the noise's part of the privacy loss,
:math:`q(s, s')`, is convex in them; the determinant adds at most :math:`\log(1 + c\,s (1 - s)) \le c (1 -
s)`. Whoever chooses s and s' after seeing the noise reaches at most the largest of the four vertices,
:math:`q(1, 1)`, :math:`q(1, 0)`, :math:`q(0, 1) + c` and :math:`c`, each a Gaussian mechanism that moves by
:math:`\mu`, :math:`\mu / 2`, :math:`\mu / 2` and 0:

.. math:: \delta \le \delta_G(\epsilon; \mu) + \delta_G(\epsilon; \mu / 2) + \delta_G(\epsilon - c; \mu / 2),
          \qquad c \le \epsilon. \qquad (G)

With :math:`L = \log(1 + c / 4)` for the determinant everywhere,
:math:`\delta_G(\epsilon - L; \mu) + 2 \delta_G(\epsilon - L; \mu / 2)` holds for :math:`L \le \epsilon`; the
smaller of the two is charged.

*More than two classes.* Probabilities lie in a simplex of K vertices. :math:`\mu = 2 \sqrt 2\, a R / \nu`,
:math:`L = (K - 1) \log(1 + c / K)`, and of the pairs of vertices :math:`K - 1` move by :math:`\mu`,
:math:`(K - 1) (K - 2)` by :math:`\mu \sqrt 3 / 2` and :math:`2 (K - 1)` by :math:`\mu / 2`.

*Several rows.* A row of weight a is N rows of weight a / N, and so is any even split over r rows for a common
multiple N of the numbers of rows before and after. Replacing them one after the other is N steps, each with
the bound above for :math:`\epsilon / N`, :math:`\mu / N`, :math:`c / N`, and together a delta larger by
:math:`(e^\epsilon - 1) / (e^{\epsilon / N} - 1)`. That holds for all multiples of N, and so in the limit,
which is charged (:mod:`dpmarket.privacy.gaussian_curve`): it does not depend on the number of rows.

Weights must not depend on the records. If they do, nothing here holds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.privacy.accounting import checked_weights
from dpmarket.privacy.gaussian_curve import MOST_IN_STEPS, VertexBound, many_steps

SMALLEST = 1e-100
"""Smaller distances are charged as if they were this large: their products could underflow."""
_LARGEST = 1e6


def gaussian_privacy_loss(
    loss_weights: ArrayLike,
    noise_rate: float,
    l2: float,
    delta: float,
    *,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    n_classes: int = 2,
) -> FloatArray:
    """Return each person's epsilon at a given delta, rounded up, where noise is Gaussian.

    Bound (G) of this module: :func:`~dpmarket.privacy.accounting.privacy_loss` is its sibling without a
    delta.

    Parameters
    ----------
    loss_weights
        Weight of each person in the training objective, shape (people,), at least 0. They need not add up
        to 1: what is charged is what is used.
    noise_rate
        eta, > 0: the noise of every coefficient has the standard deviation ``2 / noise_rate``.
    l2
        The ridge penalty Lambda, > 0.
    delta
        The delta of everybody's (epsilon, delta) guarantee, above 0 and below 1. Public.
    row_bound
        R: every row, with its constant column, has at most this Euclidean norm. Public.
    rows_per_person
        A public bound on the number of rows of one person, over which the person's weight is split evenly.
        All numbers above 1 cost the same.
    n_classes
        K, at least 2. With more than two classes, as many independent blocks of noise. Public.

    Returns
    -------
    FloatArray
        Epsilons, shape (people,), read-only.

    Raises
    ------
    InvalidInput
        For NaN, negative, infinite, textual or missing values, all weights 0, and values so extreme that the
        result could not be bounded.

    Notes
    -----
    Guaranteed:

    * No set of exact outputs has a probability above ``exp(epsilon)`` times that of a neighbour plus
      ``delta``, in exact arithmetic on the given floats; rounding is outward.
    * ``gaussian_delta`` of the result is at most ``delta`` as computed.
    * A weight of 0 costs exactly 0.
    * What a real computer adds by rounding the output is not included here
      (:func:`~dpmarket.privacy.gaussian_release.gaussian_release_cost`).

    Examples
    --------
    >>> gaussian_privacy_loss([0.25, 0.75], noise_rate=0.4, l2=20.0, delta=1e-5).round(3).tolist()
    [0.341, 1.132]
    >>> gaussian_privacy_loss([0.25, 0.75], 0.4, 20.0, 1e-5, rows_per_person=9).round(3).tolist()
    [0.341, 1.136]
    """
    asked = checks.strictly_between("delta", delta, 0.0, 1.0)
    given = checked_weights(loss_weights)
    # Equal weights cost the same: each is looked at once.
    weights, place = np.unique(given, return_inverse=True)
    mu, c = distances(weights, noise_rate, l2, row_bound, n_classes)
    bounds = vertex_bounds(n_classes, rows_per_person)
    losses = np.min([bound.epsilon(asked, mu, c) for bound in bounds], axis=0)
    if not np.isfinite(losses).all():
        raise InvalidInput(f"expected a privacy loss of at most {MOST_IN_STEPS:g} with several rows.")
    return read_only(np.where(weights > 0.0, losses, 0.0)[place])


def gaussian_delta(
    epsilons: ArrayLike,
    loss_weights: ArrayLike,
    noise_rate: float,
    l2: float,
    *,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    n_classes: int = 2,
) -> FloatArray:
    """Return each person's delta at given epsilons, rounded up, where noise is Gaussian.

    Parameters
    ----------
    epsilons
        What each person was promised, shape (people,), at least 0.
    loss_weights, noise_rate, l2, row_bound, rows_per_person, n_classes
        As for :func:`gaussian_privacy_loss`.

    Returns
    -------
    FloatArray
        Deltas, shape (people,), read-only; 1 where the bound says nothing.

    Raises
    ------
    InvalidInput
        As :func:`gaussian_privacy_loss`.

    Examples
    --------
    >>> gaussian_delta([0.35, 1.2], [0.25, 0.75], noise_rate=0.4, l2=20.0).round(7).tolist()
    [7e-06, 3.9e-06]
    """
    promises = checks.non_negative_vector("epsilons", epsilons)
    weights = checked_weights(loss_weights)
    checks.same_length("epsilons", promises, "loss_weights", weights)
    mu, c = distances(weights, noise_rate, l2, row_bound, n_classes)
    bounds = vertex_bounds(n_classes, rows_per_person)
    deltas = np.min([bound.delta(promises, mu, c) for bound in bounds], axis=0)
    return read_only(np.where(weights > 0.0, deltas, 0.0))


def vertex_bounds(n_classes: int, rows_per_person: int) -> tuple[VertexBound, ...]:
    """Return every bound that is worth a look; the smallest delta, or epsilon, may be charged."""
    classes = checks.whole("n_classes", n_classes, minimum=2)
    rows = checks.whole("rows_per_person", rows_per_person, minimum=1)
    if classes == 2:
        given = ((1.0, 1.0, 1.0), (1.0, 0.5, 0.5), (False, False, True))
        if rows > 1:
            return (VertexBound(*given, term=many_steps),)
        by_largest = VertexBound((1.0, 2.0), (1.0, 0.5), (True, True), 1.0, 4.0)
        return VertexBound(*given), by_largest
    wrong = classes - 1.0
    counts, lengths = (wrong, wrong * (wrong - 1.0), 2.0 * wrong), (1.0, _HALF_ROOT_3, 0.5)
    if rows > 1:
        # (K - 1) log(1 + c / K), N times for c / N, in the limit.
        return (VertexBound(counts, lengths, (True,) * 3, math.inf, classes / wrong, many_steps),)
    return (VertexBound(counts, lengths, (True,) * 3, wrong, float(classes)),)


_HALF_ROOT_3 = math.nextafter(math.sqrt(3.0) / 2.0, 1.0)


def rates(noise_rate: float, l2: float, row_bound: float, n_classes: int) -> tuple[float, float]:
    """Return ``mu / a`` and ``c / a``, or refuse what would leave the range of floats."""
    eta = checks.positive("noise_rate", noise_rate)
    penalty = checks.positive("l2", l2)
    bound = checks.strictly_between("row_bound", row_bound, 1e-50, 1e50)
    by_noise = eta * bound * (1.0 if n_classes == 2 else math.sqrt(2.0))
    by_penalty = bound * bound / penalty
    if not (SMALLEST < by_noise < 1.0 / SMALLEST and SMALLEST < by_penalty < 1.0 / SMALLEST):
        raise InvalidInput(
            f"expected noise_rate * row_bound and row_bound**2 / l2 between 1e-100 and 1e100, got "
            f"noise_rate = {eta!r}, l2 = {penalty!r}, row_bound = {bound!r}."
        )
    return by_noise, by_penalty


def distances(
    weights: FloatArray, noise_rate: float, l2: float, row_bound: float, n_classes: int
) -> tuple[FloatArray, FloatArray]:
    """Return mu and c of each person, rounded up; tiny ones are raised, those of weight 0 are 0."""
    classes = checks.whole("n_classes", n_classes, minimum=2)
    by_noise, by_penalty = rates(noise_rate, l2, row_bound, classes)
    present = weights > 0.0
    mu = np.where(present, np.maximum(weights * by_noise * (1.0 + 1e-15), SMALLEST), 0.0)
    c = np.where(present, np.maximum(weights * by_penalty * (1.0 + 1e-15), SMALLEST), 0.0)
    if not max(float(mu.max()), float(c.max())) <= _LARGEST:
        raise InvalidInput(
            "expected weights * noise_rate * row_bound and weights * row_bound**2 / l2 of at most 1e6."
        )
    return mu, c
