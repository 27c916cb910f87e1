r"""Train by gradient descent on noisy gradients of all records: what a delta is mostly used for elsewhere.

Every step adds normal noise of the standard deviation :math:`\sigma` to the mean gradient of the m records
that are used, each clipped by the rows' bound R: a record's part changes it by at most :math:`2 R / m`, which
costs :math:`\rho = 2 R^2 / (m \sigma)^2` of zero-concentrated privacy. T steps cost :math:`T \rho`, and
:math:`\epsilon = T \rho + 2 \sqrt{T \rho \ln(1 / \delta)}` at a given delta (Bun and Steinke, Concentrated
differential privacy: simplifications, extensions and lower bounds, TCC 2016, Proposition 1.3). There is one
epsilon for all records; where promises differ, it is the one that buys most, and the records of people who
were promised less are left out.

For comparison only: noise comes from a numpy generator, in floats, and nothing is released on a grid. It
keeps no promise that anybody should rely on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import expit

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.learning.inputs import checked_records, checked_rows
from dpmarket.learning.labels import read_classes, signs_of
from dpmarket.privacy.noise_norm import NoiseNorm, suggested_constant


class NoisyDescent:
    """Logistic regression by gradient descent with normal noise, one epsilon for all; for comparison only.

    Parameters
    ----------
    delta
        The delta of the promise, above 0 and below 1.
    rng
        Source of the noise.
    steps
        How many steps, at least 1.
    step_size
        How far a step goes, in units of one divided by the largest curvature R^2 / 4; > 0.
    classes
        The two labels, negative class first. None reads them from ``y``.

    Attributes
    ----------
    classes_
        The two labels.
    coef_, intercept_
        The mean of the points of the last half of the steps, shapes (1, features) and (1,).
    epsilons_
        What was spent on each person, at ``delta``: the same for all whose records were used. Read-only.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> learner = NoisyDescent(delta=1e-5, rng=rng, classes=(0, 1))
    >>> learner.fit([[0.5], [-0.5], [0.1]], [1, 0, 1], [0.5, 2.0, 2.0]).epsilons_.tolist()
    [0.0, 2.0, 2.0]
    """

    def __init__(
        self,
        delta: float,
        rng: np.random.Generator,
        steps: int = 100,
        step_size: float = 4.0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.delta = delta
        self.rng = rng
        self.steps = steps
        self.step_size = step_size
        self.classes = classes

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` (rows of norm at most 1) and labels ``y``, one promise per record.

        Raises
        ------
        InvalidInput
            For promises that are not finite numbers of at least 0 or not one per record; rows longer than 1;
            labels beyond two classes.
        """
        promised = checks.non_negative_vector("epsilons", epsilons)
        x = checked_records(X, y, promised)
        classes = read_classes(self.classes, np.asarray(y))
        signs = signs_of(classes, np.asarray(y))
        least = _threshold(promised)
        used = promised >= least
        constant = suggested_constant([False] * x.shape[1])
        bound = NoiseNorm.euclidean(x.shape[1], constant).row_bound
        rows = np.column_stack([x, np.full(len(x), constant)])[used] * signs[used, None]
        steps = checks.whole("steps", self.steps, minimum=1)
        sigma = noise_of_a_step(least, self.delta, steps, int(used.sum()), bound)
        size = checks.positive("step_size", self.step_size) / (bound * bound / 4.0)
        w, kept = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
        for step in range(steps):
            gradient = -(expit(-rows @ w) @ rows) / len(rows) + self.rng.normal(0.0, sigma, w.size)
            w = w - size * gradient
            if step >= steps // 2:
                kept += w
        kept /= steps - steps // 2
        self.classes_ = classes
        self.coef_ = kept[:-1].reshape(1, -1)
        self.intercept_ = kept[-1:] * constant
        self.epsilons_ = read_only(np.where(used, least, 0.0))
        return self

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the likelier class of each row."""
        return np.asarray(self.classes_[(self._margins(X) > 0.0).astype(np.intp)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        margins = self._margins(X)
        return np.column_stack([expit(-margins), expit(margins)])

    def _margins(self, X: Any) -> FloatArray:
        return np.asarray(checked_rows(X) @ self.coef_[0] + self.intercept_[0])


def noise_of_a_step(epsilon: float, delta: float, steps: int, records: int, row_bound: float) -> float:
    """Return the standard deviation of a step's noise with which all steps together keep the promise."""
    log = math.log(1.0 / checks.strictly_between("delta", delta, 0.0, 1.0))
    root = math.sqrt(log + epsilon) - math.sqrt(log)  # of all steps' rho
    return row_bound * math.sqrt(2.0 * steps) / (records * root)


def _threshold(promised: FloatArray) -> float:
    """Return the promise that buys most: itself times the number of people promised at least that."""
    ordered = np.sort(promised)
    return float(ordered[int((ordered * np.arange(ordered.size, 0, -1)).argmax())])
