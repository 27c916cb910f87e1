r"""Turn the weight of a person's records in a softmax regression into what it costs that person in privacy.

Training minimises :math:`\sum_i a_i \ell(W x_i, y_i) + \langle b, W \rangle + \frac{\Lambda}{2} |W|^2` over a
matrix W with a row :math:`w_k` for each of K classes, :math:`\ell` the logarithm of
:math:`\sum_k e^{w_k \cdot x}` less :math:`w_y \cdot x`. The K rows of noise are independent, each with a
density proportional to :math:`e^{-\eta |b_k| / 2}`. Neighbours differ in the records of one person, replaced
by any others. With p the probabilities at a record and :math:`s = 1 - p_y`:

* :math:`|p - e_y|_1 = 2 s`, so that the noise which leads to the same output moves by at most
  :math:`2 a R (s + s')` in :math:`\sum_k |b_k|`.
* The Hessian changes by :math:`a (\mathrm{diag}(p) - p p^T) \otimes x x^T`; at a given s its determinant is
  largest where the wrong classes are equally likely. The replaced record's only helps.

.. math:: \epsilon_i = a \eta R + \max_{0 \le s \le 1} \left[ a \eta R s
          + \log\left(1 + c\, s (1 - s) \tfrac{K}{K - 1}\right)
          + (K - 2) \log\left(1 + \tfrac{c s}{K - 1}\right) \right], \qquad c = \frac{a R^2}{\Lambda}.

*Several rows.* However the weight is split over at most r rows, each row has its own bracket, concave in its
share and 0 at 0, so that r equal shares are the worst case: the determinant's part is r times that of
:math:`c / r`. Unlike with two classes, ``min(r, n)`` in the place of r would be false: rows of different
labels leave more than n directions. What does hold in n coefficients per class is the bound by the trace over
the :math:`n (K - 1)` directions that the Hessian can change,

.. math:: n (K - 1) \log\left(1 + \frac{c (2 s - s^2 K / (K - 1))}{n (K - 1)}\right),

and the smaller of the two is charged.

Weights must not depend on the records. If they do, nothing here holds.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.privacy.accounting import checked_weights
from dpmarket.privacy.charge import Accounting, bounds_of
from dpmarket.privacy.loss import Softmax


def softmax_privacy_loss(
    loss_weights: ArrayLike,
    noise_rate: float,
    l2: float,
    n_classes: int,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    *,
    n_coefficients: int | None = None,
) -> FloatArray:
    """Return each person's privacy loss (epsilon) in a softmax regression, rounded up.

    The formula of this module; :func:`~dpmarket.privacy.accounting.privacy_loss` is its sibling for two
    classes and one vector of coefficients, whose noise has half the variance.

    Parameters
    ----------
    loss_weights
        Weight of each person in the training objective, shape (people,), at least 0. They need not add up
        to 1: what is charged is what is used.
    noise_rate
        The noise rate eta, > 0, of each of the K independent blocks of noise.
    l2
        The ridge penalty Lambda, > 0.
    n_classes
        K, at least 2. Public.
    row_bound
        R: every row, with its constant column, has at most this Euclidean norm. Public.
    rows_per_person
        r, a public bound on the number of rows of one person, whose weights add up to at most the person's.
    n_coefficients
        n, coefficients of one class, the constant's included: lets several rows be charged less where that
        is valid. None charges by rows only. Public.

    Returns
    -------
    FloatArray
        Epsilons, shape (people,), read-only.

    Raises
    ------
    InvalidInput
        For NaN, negative, infinite, textual or missing values, all weights 0, and values so extreme
        (a loss above 1e100) that the result could not be bounded.

    Notes
    -----
    Guaranteed:

    * The log density ratio of the exact output between neighbours never exceeds the returned value, in
      exact arithmetic on the given floats; rounding is outward, by less than 1e-13 relative.
    * A weight of 0 costs exactly 0.
    * What a real computer adds by rounding the output is not included here
      (:func:`~dpmarket.privacy.softmax_release.softmax_release_cost`).

    Examples
    --------
    >>> softmax_privacy_loss([0.25, 0.75], noise_rate=2.0, l2=1.0, n_classes=3).round(3).tolist()
    [1.118, 3.318]
    >>> softmax_privacy_loss([0.25, 0.75], 2.0, 1.0, n_classes=3, rows_per_person=5).round(3).tolist()
    [1.123, 3.362]
    """
    weights = checked_weights(loss_weights)
    eta = checks.positive("noise_rate", noise_rate)
    accounting = softmax_accounting(l2, n_classes, row_bound, rows_per_person, n_coefficients)
    return read_only(accounting.epsilons(weights, eta))


def softmax_accounting(
    l2: float, n_classes: int, row_bound: float, rows_per_person: int, n_coefficients: int | None
) -> Accounting:
    """Return charges and weights of a softmax regression with these checked constants."""
    penalty = checks.positive("l2", l2)
    bound = checks.strictly_between("row_bound", row_bound, 1e-50, 1e50)
    loss = Softmax(checks.whole("n_classes", n_classes, minimum=2))
    rows = checks.whole("rows_per_person", rows_per_person, minimum=1)
    n = None if n_coefficients is None else checks.whole("n_coefficients", n_coefficients, minimum=1)
    return Accounting(loss.reach, bound, bound, penalty, bounds_of(loss.terms, loss.rank, rows, n))
