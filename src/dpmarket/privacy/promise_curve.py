r"""Turn promises and a noise level into the largest weights that keep the promises.

For a noise rate ``eta`` the largest weight that keeps the promise ``epsilon`` is, in the notation of
:mod:`dpmarket.privacy.loss_curve`, ``A(epsilon) = (2 r / (R eta)) * P^{-1}(epsilon / r)``. As a function of
``x = 1 / eta`` it is increasing and **concave**: for each ``s`` the constraint inside (*) reads
``x >= a R (1 + s) / (2 (epsilon - r log(1 + k a)))`` with a ``k >= 0``, whose right side is convex in ``a``,
and an intersection of convex sets is convex. It is ``epsilon * x / R`` up to ``x = Lambda / (2 R)`` (no
slack), and tends to ``4 r Lambda (exp(epsilon / r) - 1) / R^2`` as x grows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.privacy.accounting import privacy_loss, scale_and_beta
from dpmarket.privacy.loss_curve import inverse, loss_and_slope
from dpmarket.privacy.lowering import lowered
from dpmarket.privacy.shapes import l2_against_noise

_BLOCK = 8192  # temporary arrays stay in the cache

ROUND_DOWN = 2.0**-47
"""Relative inward rounding of a weight: twice what a privacy loss is rounded up by, at least."""


@dataclass(frozen=True)
class PromiseCurve:
    """The map from (promise, 1 / noise_rate) to the largest weight, for public constants.

    Attributes
    ----------
    l2
        Ridge penalty Lambda.
    row_bound
        R, the largest norm of a row.
    rows_per_person
        r, the largest number of rows of one person.
    euclidean_bound
        R2, the largest Euclidean norm of a row; None for R.
    """

    l2: float
    row_bound: float
    rows_per_person: int
    euclidean_bound: float | None = None

    @property
    def noise_l2(self) -> float:
        """The penalty at which rows with one bound would cost the same: ``l2`` if there is only one."""
        return l2_against_noise(self.l2, self.row_bound, self.euclidean_bound)

    @property
    def linear_up_to(self) -> float:
        """The x = 1 / noise_rate up to which there is no slack and the largest weight is linear in x."""
        return self.noise_l2 / (2.0 * self.row_bound)

    def weights(
        self, promises: FloatArray, x: float, start: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the largest weights at ``x``, and their derivatives in ``x``.

        Parameters
        ----------
        promises
            Epsilons, > 0.
        x
            1 / noise_rate, > 0.
        start
            A guess of the weights, for example those of a nearby ``x``.
        """
        scale, beta = scale_and_beta(1.0 / x, self.noise_l2, self.row_bound, self.rows_per_person)
        if beta >= 1.0:
            slope = promises / self.row_bound
            return slope * x, slope
        weights, slopes = np.empty_like(promises), np.empty_like(promises)
        for first in range(0, promises.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            per_row = promises[block] / self.rows_per_person
            scaled = inverse(per_row, beta, None if start is None else start[block] * scale)
            _, rise, minus_log_beta_slope = loss_and_slope(scaled, beta)
            weights[block] = scaled / scale
            slopes[block] = weights[block] / x * (1.0 - minus_log_beta_slope / (scaled * rise))
        return weights, slopes

    def limit(self, promises: FloatArray) -> FloatArray:
        """Return the supremum of the weights over all x, which no x attains."""
        rows = self.rows_per_person
        with np.errstate(over="ignore"):
            return 4.0 * rows * self.noise_l2 / self.row_bound**2 * np.expm1(promises / rows)

    def losses(self, weights: FloatArray, x: float) -> FloatArray:
        """Return the privacy losses of weights at x = 1 / noise_rate, rounded up."""
        return privacy_loss(
            weights, 1.0 / x, self.l2, self.row_bound, self.rows_per_person, self.euclidean_bound
        )

    def lowered(self, weights: FloatArray, promises: FloatArray, x: float) -> FloatArray:
        """Lower weights by a few units in the last place until no computed loss exceeds its promise."""
        return lowered(weights, promises, lambda some: self.losses(some, x), share=ROUND_DOWN)
