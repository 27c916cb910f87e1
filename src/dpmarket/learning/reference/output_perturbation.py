r"""Train without noise on records weighted by promise, then add noise to the coefficients.

With weights :math:`a_i` that add up to 1, rows of norm at most R and penalty :math:`\Lambda` the objective is
:math:`\Lambda`-strongly convex, and replacing record i changes its gradient anywhere by at most
:math:`2 a_i R`. So the minimiser moves by at most :math:`2 a_i R / \Lambda`, and noise of density
proportional to :math:`e^{-\kappa |b|}` costs person i :math:`2 a_i R \kappa / \Lambda`. With
:math:`a_i = \epsilon_i / \sum_j \epsilon_j` and :math:`\kappa = \Lambda \sum_j \epsilon_j / (2 R)` that is
:math:`\epsilon_i`: the sensitivity is each person's own, and so is the promise.

*What a computer releases.* The computed minimiser is within :math:`\rho` of the exact one, the drawn noise
within :math:`\beta` of an ideal sample, and their sum is rounded, in exact arithmetic, to a public grid of
width g. By the argument of :mod:`dpmarket.privacy.grid` this costs at most

.. math:: n \log \frac{g + 2 \beta}{g - 2 \beta} + 2 \kappa (\rho + \sqrt n\, \beta)

more, which is set aside from every promise beforehand.

Chaudhuri, Monteleoni and Sarwate, Differentially private empirical risk minimization, JMLR 2011, Algorithm 1,
with a weight for every record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from scipy.special import expit

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible
from dpmarket.learning.inputs import checked_records, checked_rows
from dpmarket.learning.labels import numbers_of, read_classes
from dpmarket.learning.minimiser import minimise
from dpmarket.learning.rows import Rows
from dpmarket.numerics import exact_sum
from dpmarket.privacy.noise import NoiseSource, SecureNoise
from dpmarket.privacy.noise_norm import NoiseNorm, suggested_constant
from dpmarket.privacy.release import usable_epsilons

_RESERVE = 1e-6
_ROUND_DOWN = 1.0 - 1e-9
_PENALTY_PER_COEFFICIENT = 2.0
_LOWEST_RATE = 1e-290


class OutputPerturbation:
    """Logistic regression with weights by promise and noise added to the coefficients.

    Parameters
    ----------
    l2
        The ridge penalty Lambda, > 0. None means twice the number of coefficients, divided by the sum of the
        promises: noise on the coefficients needs a larger penalty than noise inside the objective.
    classes
        The two labels, negative class first. None reads them from ``y`` and so treats them as public.
    noise_source
        Where the noise comes from; None means secure noise.

    Attributes
    ----------
    classes_
        The two labels.
    coef_, intercept_
        Coefficients, shape (1, features), and what is added to every margin, shape (1,): on a public grid.
    epsilons_
        What was spent on each person, never above the promise. Read-only.
    l2_
        The penalty.

    Notes
    -----
    Guaranteed: Replacing one person's record changes the probability of no set of released models by more
    than the factor ``exp(epsilon)`` of that person, for the numbers really computed. Who was promised no more
    than 1e-6 has no influence.

    Examples
    --------
    >>> learner = OutputPerturbation(classes=(0, 1)).fit([[0.5], [-0.5], [0.1]], [1, 0, 1], [0.5, 2.0, 0.0])
    >>> learner.epsilons_.round(9).tolist()
    [0.5, 2.0, 0.0]
    """

    def __init__(
        self,
        l2: float | None = None,
        classes: Sequence[Any] | None = None,
        noise_source: NoiseSource | None = None,
    ) -> None:
        self.l2 = l2
        self.classes = classes
        self.noise_source = noise_source

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` (rows of norm at most 1) and labels ``y``, one promise per record.

        Raises
        ------
        InvalidInput
            For promises that are not finite numbers of at least 0, all at most 1e-6 or not one per record;
            rows longer than 1; labels beyond two classes.
        Infeasible
            If the minimiser or the noise cannot be computed accurately enough at this ``l2``.
        """
        promised = checks.non_negative_vector("epsilons", epsilons)
        x = checked_records(X, y, promised)
        classes = read_classes(self.classes, np.asarray(y))
        labels = numbers_of(classes, np.asarray(y))
        constant = suggested_constant([False] * x.shape[1])
        bound = NoiseNorm.euclidean(x.shape[1], constant).row_bound
        n = x.shape[1] + 1
        usable = usable_epsilons(promised, _RESERVE)
        total = exact_sum(usable)
        l2 = _PENALTY_PER_COEFFICIENT * n / total if self.l2 is None else checks.positive("l2", self.l2)
        rate = l2 * total / (2.0 * bound) * _ROUND_DOWN
        if not _LOWEST_RATE <= rate <= 1.0 / _LOWEST_RATE:
            raise Infeasible(
                f"expected an l2 with which the size of the noise is within the range of floats, got {l2!r} "
                f"for promises that add up to {total:.3g}."
            )
        rows = Rows(np.column_stack([x, np.full(len(x), constant)]), labels, usable / total, constant=False)
        # Half of the reserve for the minimiser, a hundredth for the noise; the rest pays for rounding here.
        gradient_bound = _RESERVE / 4.0 / rate * l2
        grid = 2.0 ** math.floor(math.log2(math.sqrt(n + 1.0) / rate / 4.0))
        accuracy = _RESERVE / 100.0 / (8.0 * n / grid + 4.0 * rate * math.sqrt(n))
        none = np.zeros(n)
        minimum = minimise(rows, l2, none, none, bound, gradient_bound)
        draw = (self.noise_source or SecureNoise()).draw(n, 2.0 * rate, accuracy)
        values = grid * np.array(
            [
                round((Fraction(high) + Fraction(low) + Fraction(noise, 2**draw.bits)) / Fraction(grid))
                for high, low, noise in zip(
                    minimum.high.tolist(), minimum.low.tolist(), draw.numerators, strict=True
                )
            ]
        )
        self.classes_ = classes
        self.coef_ = values[:-1].reshape(1, -1)
        self.intercept_ = values[-1:] * constant
        self.l2_ = l2
        self.epsilons_ = read_only(np.where(usable > 0.0, promised, 0.0))
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
