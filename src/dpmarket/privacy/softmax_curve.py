r"""Turn the weight of one person in a softmax regression into the person's privacy loss, and back.

With :math:`\alpha = a \eta R` and :math:`c = a R^2 / \Lambda` the loss of a weight a is

.. math:: P(a) = \alpha + \max_{0 \le s \le 1} f(s), \qquad
          f(s) = \alpha s + \sum_t m_t \log\left(1 + c\, s (w_t + v_t (1 - s))\right),

with a handful of public constants :math:`m_t, w_t, v_t \ge 0` (:class:`DeterminantBound`). What the others
rely on:

* f is concave: each argument of a logarithm is, and so are sums. A tangent lies above it, so that
  :math:`f(s_0) + \max(f'(s_0)(1 - s_0), -f'(s_0) s_0)` bounds the maximum **whatever** :math:`s_0` **is**: an
  inexact maximiser can only raise the bound.
* P is increasing and concave in a: with :math:`p = a s` the bracket is
  :math:`\eta R p + \sum_t m_t \log(1 + \frac{R^2}{\Lambda}((w_t + v_t) p - v_t p^2 / a))`, jointly concave in
  (p, a), and maximising over p keeps that. So a relative error in :math:`\alpha` or c is at most as large in
  P, and Newton's method for the inverse never passes the root from the left.
* The maximiser is at least 1/2 (there the derivative is positive), where :math:`1 - s` is exact in floats
  and no term cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.errors import NotConverged


@dataclass(frozen=True)
class DeterminantBound:
    """How the logarithm of the Hessian's determinant can change, as a function of s.

    Attributes
    ----------
    times, straight, bent
        m, w and v of this module, two numbers each; a term that is not needed has m = 0.
    """

    times: tuple[float, float]
    straight: tuple[float, float]
    bent: tuple[float, float]

    @classmethod
    def of_rows(cls, n_classes: int, rows: int) -> DeterminantBound:
        """Return the bound by rows: each of ``rows`` has the worst covariance of classes by itself."""
        others = n_classes - 1.0
        return cls(
            (float(rows), rows * (others - 1.0)),
            (0.0, 1.0 / (others * rows)),
            (n_classes / (others * rows), 0.0),
        )

    @classmethod
    def of_trace(cls, n_classes: int, n_coefficients: int) -> DeterminantBound:
        """Return the bound by the trace, spread evenly over all directions that rows can reach."""
        others = n_classes - 1.0
        size = n_coefficients * others
        return cls((size, 0.0), ((others - 1.0) / (others * size), 0.0), (n_classes / (others * size), 0.0))

    def log_determinant(self, c: float, s: float) -> float:
        """Return the bound at ``c = a R^2 / l2`` and mean ``s``, to rounding."""
        from dpmarket.privacy import softmax_kernels  # takes numba along

        return float(softmax_kernels.value(s, 0.0, c, self.arrays()))

    def arrays(self) -> FloatArray:
        """Return the constants as the kernels take them, shape (3, 2)."""
        return np.array([self.times, self.straight, self.bent])


def loss_upper(
    weights: FloatArray, by_noise: float, by_penalty: float, bound: DeterminantBound
) -> FloatArray:
    """Return P for every weight, rounded up; exactly 0 where the weight is 0.

    Parameters
    ----------
    weights
        Weights, at least 0; those above 0 at least 1e-150.
    by_noise
        ``noise_rate * row_bound``.
    by_penalty
        ``row_bound**2 / l2``.
    bound
        The determinant's constants.
    """
    from dpmarket.privacy import softmax_kernels  # takes numba along

    return np.asarray(softmax_kernels.losses(weights, by_noise, by_penalty, bound.arrays()))


def largest_weights(
    promises: FloatArray, by_noise: float, by_penalty: float, bound: DeterminantBound, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the weights with P(a) = promise, to rounding, and their derivatives in ``-log(by_noise)``.

    ``start`` is a guess, for example the solution for another ``by_noise``.

    Raises
    ------
    NotConverged
        If 200 steps are not enough, which concavity excludes.
    """
    from dpmarket.privacy import softmax_kernels  # takes numba along

    weights, slopes, found = softmax_kernels.inverse(promises, by_noise, by_penalty, bound.arrays(), start)
    if not found:
        raise NotConverged(
            f"expected the inverse of the loss curve within {softmax_kernels.MAX_STEPS} steps."
        )
    return weights, slopes
