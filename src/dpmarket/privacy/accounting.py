r"""Turn the weight of a person's records into what it costs that person in privacy.

Training minimises :math:`\sum_i a_i \log(1 + e^{-y_i w \cdot x_i}) + b' \cdot w + \frac{\Lambda}{2} |w|^2`,
with the density of the noise :math:`b'` proportional to :math:`e^{-\eta |b'| / 2}` (paper, Algorithm 1).
Neighbours differ in the record of one person, replaced by any other. With :math:`s = 1/(1 + e^{w \cdot u})`,
:math:`u = y x`, the noise that leads to the same output moves by at most :math:`a R (s + s')`, and the
Hessian changes by a rank-one term (matrix determinant lemma; the replaced term only helps), so that

.. math:: \epsilon_i = \frac{a_i \eta R}{2} + \max_{0 \le s \le 1} \left[ \frac{a_i \eta R s}{2}
          + r \log\left(1 + \frac{a_i R^2 s (1 - s)}{r \Lambda}\right) \right]. \qquad (*)

Several rows: however :math:`a_i` is split over at most ``r`` rows, each row has its own bracket, a concave
function of its share that is 0 at 0, so that equal shares are the worst case and more rows cost more. Also
:math:`\log\det(I + M) \le n \log(1 + \mathrm{tr}(M) / n)` in ``n`` dimensions, which gives the same formula
with ``n`` in the place of ``r``: ``min(r, n)`` may be used.

Weights must not depend on the records. If they do, nothing here holds.

Noise of another shape than the Euclidean norm's has two row bounds: :mod:`dpmarket.privacy.shapes`.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.privacy.charge import Accounting, bounds_of
from dpmarket.privacy.loss import logistic_loss


def privacy_loss(
    loss_weights: ArrayLike,
    noise_rate: float,
    l2: float,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    euclidean_bound: float | None = None,
) -> FloatArray:
    """Return each person's privacy loss (epsilon), rounded up.

    Formula (*) of this module: the paper's Proposition 1 with the smallest slack that its argument allows,
    which is none at all when ``noise_rate * l2 >= 2 * row_bound``.

    Parameters
    ----------
    loss_weights
        Weight of each person in the training objective, shape (people,), at least 0. They need not add up
        to 1: what is charged is what is used.
    noise_rate
        The noise rate eta, > 0.
    l2
        The ridge penalty Lambda, > 0.
    row_bound
        R: every row, with its constant column, has at most this norm, that of the noise. Public.
    rows_per_person
        A public bound on the number of rows of one person, whose weights add up to at most the person's.
        The actual number is private data. ``min(rows_per_person, n_features)`` is valid, too, and cheaper.
    euclidean_bound
        R2: every row, with its constant column, has Euclidean norm at most this. Public. None means
        ``row_bound``, for noise shaped like the Euclidean norm.

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
      exact arithmetic on the given floats; rounding is outward, by less than 1e-13 relative (1e-11 for
      losses above 1,000).
    * A weight of 0 costs exactly 0.
    * What a real computer adds by rounding the output is not included here.

    Examples
    --------
    >>> privacy_loss([0.25, 0.75], noise_rate=2.0, l2=1.0).round(12).tolist()
    [0.5, 1.5]
    >>> privacy_loss([0.25, 0.75], noise_rate=2.0, l2=0.1).round(3).tolist()
    [0.871, 2.234]
    >>> privacy_loss([0.25, 0.75], noise_rate=2.0, l2=0.1, euclidean_bound=0.3).round(3).tolist()
    [0.5, 1.5]
    """
    weights = checked_weights(loss_weights)
    eta = checks.positive("noise_rate", noise_rate)
    accounting = binary_accounting(l2, row_bound, rows_per_person, euclidean_bound)
    return read_only(accounting.epsilons(weights, eta))


def checked_euclidean(euclidean_bound: float) -> float:
    """Return R2, within the range of floats that ``row_bound`` may have, too."""
    return checks.strictly_between("euclidean_bound", euclidean_bound, 1e-100, 1e100)


def binary_accounting(
    l2: float, row_bound: float, rows_per_person: int, euclidean_bound: float | None
) -> Accounting:
    """Return charges and weights of a logistic regression with these checked constants."""
    penalty = checks.positive("l2", l2)
    bound = checks.strictly_between("row_bound", row_bound, 1e-100, 1e100)
    rows = checks.whole("rows_per_person", rows_per_person, minimum=1)
    euclidean = bound if euclidean_bound is None else checked_euclidean(euclidean_bound)
    return Accounting(1.0, bound, euclidean, penalty, bounds_of(logistic_loss().terms, 1, rows, None))


def checked_weights(loss_weights: ArrayLike) -> FloatArray:
    """Return weights that are numbers of at least 0, somebody's above 0."""
    weights = checks.non_negative_vector("loss_weights", loss_weights)
    if float(weights.max()) == 0.0:
        raise InvalidInput("expected at least one loss weight > 0, got only zeros.")
    return weights
