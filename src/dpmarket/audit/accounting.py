r"""Turn weights, noise rate and release plan into what everybody really spent, by other code than made them.

Formula (*) of :mod:`dpmarket.privacy.accounting` and the release cost of :mod:`dpmarket.privacy.grid`,
written down once more with many digits (mpmath). Nothing is shared with the code under audit: there the
maximum over s is the root of a quadratic, here it is found by halving the interval in which the (concave)
bracket stops rising.

.. math:: \epsilon_i = \frac{a_i \eta R}{2} + \max_{0 \le s \le 1} \left[ \frac{a_i \eta R s}{2}
          + r \log\left(1 + \frac{a_i R^2 s (1 - s)}{r \Lambda}\right) \right] + \epsilon_{num}
"""

from __future__ import annotations

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.audit.findings import PrivacyFindings
from dpmarket.audit.gaussian_accounting import gaussian_keeps, gaussian_release_spent, gaussian_spent
from dpmarket.audit.softmax_accounting import softmax_loss, softmax_release_spent
from dpmarket.errors import InvalidInput
from dpmarket.privacy import GaussianWeights, ReleasePlan, SoftmaxWeights, Weights
from dpmarket.progress import Progress

_DIGITS = 40
_HALVINGS = 60


def audit_accounting(
    weights: Weights | SoftmaxWeights | GaussianWeights,
    promises: object,
    plan: ReleasePlan | None = None,
    n_coefficients: int = 1,
    progress: Progress | None = None,
    joint_columns: int | None = None,
) -> PrivacyFindings:
    """Recompute what everybody spent, and compare it with what everybody was promised.

    Parameters
    ----------
    weights
        The weights and the public constants of the training, of two classes or of more, with a delta or
        without; ``weights_of`` reads them off a model.
    promises
        The promise to each person (epsilon), shape (people,).
    plan
        How the model was released. None charges ``weights.numerical_epsilon`` as declared.
    n_coefficients
        Coefficients of the model, the constant's included; used with a plan for two classes. With a delta,
        those of one class.
    progress
        Called with the different weights done and all of them.
    joint_columns
        How many coefficients have radial noise together; None means all.

    Returns
    -------
    PrivacyFindings
        ``found`` is what was spent, rounded up to floats: with a delta, the epsilon at that delta. It fails
        if anybody's exceeds the promise by anything.

    Raises
    ------
    InvalidInput
        Promises that are none, or not as many as weights.

    Examples
    --------
    >>> from dpmarket.privacy import weights_for
    >>> promises = [0.5, 1.0, 2.5]
    >>> audit_accounting(weights_for(promises, l2=0.3), promises).passed
    True
    >>> audit_accounting(weights_for(promises, l2=0.3), [0.5, 1.0, 2.4]).passed
    False
    """
    if not isinstance(weights, Weights | SoftmaxWeights | GaussianWeights):
        raise InvalidInput(
            f"expected Weights, SoftmaxWeights or GaussianWeights, got {type(weights).__name__}."
        )
    promised = checks.non_negative_vector("promises", promises)
    checks.same_length("promises", promised, "weights.loss_weights", weights.loss_weights)
    n = checks.whole("n_coefficients", n_coefficients, minimum=1)
    with mpmath.workdps(_DIGITS):
        extra = mpmath.mpf(weights.numerical_epsilon)
        if plan is not None:
            extra = _released(plan, weights, n, n if joint_columns is None else joint_columns)
        spent, broken = _spent(weights, promised, extra, progress)
        extra_shown = _rounded_up(extra)
    details = {
        "weight_total": float(weights.loss_weights.sum()),
        "noise_rate": weights.noise_rate,
        "l2": weights.l2,
        "row_bound": weights.row_bound,
        "rows_per_person": weights.rows_per_person,
        "release_cost": extra_shown,
    }
    if isinstance(weights, GaussianWeights):
        details["delta"] = weights.delta
    return PrivacyFindings(
        method="accounting",
        people=read_only(np.arange(promised.size)),
        promises=read_only(promised.copy()),
        found=read_only(spent),
        broken=broken,
        false_alarm=0.0,
        details=details,
    )


def _released(
    plan: ReleasePlan, weights: Weights | SoftmaxWeights | GaussianWeights, n: int, joint: int
) -> Any:
    if isinstance(weights, GaussianWeights):
        return gaussian_release_spent(plan, weights, n)
    if isinstance(weights, SoftmaxWeights):
        return softmax_release_spent(plan, weights)
    return _release_cost(plan, weights, n, joint)


def weights_of(model: Any) -> Weights | SoftmaxWeights | GaussianWeights | None:
    """Return the weights and constants that a fitted model says it was trained with, or None if it says none.

    A model opens its books by the attributes of
    :class:`~dpmarket.learning.PrivateLogisticRegression`: ``loss_weights_``, ``noise_rate_``, ``l2_``,
    ``row_bound_``, ``numerical_epsilon_``, ``coef_grid_`` and, unless it is 1, ``rows_per_person_``; with
    shaped noise, ``euclidean_bound_``. A ``coef_grid_`` with a row for every class is that of a softmax
    regression; a ``delta_`` above 0 says that noise is Gaussian.

    Parameters
    ----------
    model
        Anything, fitted.

    Returns
    -------
    Weights, SoftmaxWeights, GaussianWeights or None
        Believed, not checked: :func:`audit_accounting` and the exact audit do that.

    Raises
    ------
    InvalidInput
        What the model says are no weights or constants.
    """
    names = ("loss_weights_", "noise_rate_", "l2_", "row_bound_", "numerical_epsilon_", "coef_grid_")
    if not all(hasattr(model, name) for name in names):
        return None
    rows = int(getattr(model, "rows_per_person_", 1))
    delta = float(getattr(model, "delta_", 0.0))
    if delta > 0.0:
        return GaussianWeights(
            model.loss_weights_,
            model.noise_rate_,
            model.l2_,
            delta,
            model.row_bound_,
            rows,
            np.shape(model.coef_grid_)[0] if np.ndim(model.coef_grid_) == 2 else 2,
            model.numerical_epsilon_,
        )
    if np.ndim(model.coef_grid_) == 2:
        classes, n = np.shape(model.coef_grid_)
        return SoftmaxWeights(
            model.loss_weights_,
            model.noise_rate_,
            model.l2_,
            classes,
            n,
            model.row_bound_,
            rows,
            model.numerical_epsilon_,
        )
    rows = min(rows, len(model.coef_grid_))
    return Weights(
        model.loss_weights_,
        model.noise_rate_,
        model.l2_,
        model.row_bound_,
        rows,
        model.numerical_epsilon_,
        getattr(model, "euclidean_bound_", None),
    )


def _spent(
    weights: Weights | SoftmaxWeights | GaussianWeights,
    promised: FloatArray,
    extra: Any,
    progress: Progress | None,
) -> tuple[FloatArray, int]:
    """Return everybody's spending, and how many spent more than promised (compared with all digits)."""
    different, places = np.unique(weights.loss_weights, return_inverse=True)
    losses = []
    for k, weight in enumerate(different.tolist()):
        losses.append(_any_loss(weight, weights, extra) if weight > 0.0 else mpmath.mpf(0))
        if progress is not None:
            progress(k + 1, different.size)
    spent, broken = np.zeros(promised.size), 0
    for i, (place, promise) in enumerate(zip(places.tolist(), promised.tolist(), strict=True)):
        broken += not _is_kept(float(different[place]), weights, extra, losses[place], promise)
        spent[i] = _rounded_up(losses[place])
    return spent, broken


def _any_loss(weight: float, weights: Weights | SoftmaxWeights | GaussianWeights, extra: Any) -> Any:
    if isinstance(weights, GaussianWeights):
        return gaussian_spent(weight, weights, extra)
    if isinstance(weights, SoftmaxWeights):
        return softmax_loss(weight, weights) + extra
    return _loss(weight, weights) + extra


def _is_kept(
    weight: float, weights: Weights | SoftmaxWeights | GaussianWeights, extra: Any, loss: Any, promise: float
) -> bool:
    if isinstance(weights, GaussianWeights) and weight > 0.0:
        return gaussian_keeps(weight, weights, extra, promise)
    return bool(loss <= mpmath.mpf(promise))


def _loss(weight: float, weights: Weights) -> Any:
    """Return formula (*) for one weight, from below its maximum by less than 1e-17 of the bracket's size."""
    a, eta, bound = mpmath.mpf(weight), mpmath.mpf(weights.noise_rate), mpmath.mpf(weights.row_bound)
    rows = weights.rows_per_person
    slope = a * eta * bound / 2
    bend = a * mpmath.mpf(_longest(weights)) ** 2 / (rows * mpmath.mpf(weights.l2))

    def rising(s: Any) -> bool:
        return bool(slope + rows * bend * (1 - 2 * s) / (1 + bend * s * (1 - s)) > 0)

    low, high = mpmath.mpf(0), mpmath.mpf(1)
    if rising(high):
        low = high
    while high - low > mpmath.mpf(2) ** -_HALVINGS:
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) else (low, middle)
    return slope + slope * low + rows * mpmath.log1p(bend * low * (1 - low))


def _longest(weights: Weights) -> float:
    """Return R2, the bound on the Euclidean length of rows."""
    return weights.row_bound if weights.euclidean_bound is None else weights.euclidean_bound


def _release_cost(plan: ReleasePlan, weights: Weights, n: int, joint: int) -> Any:
    """Return what releasing on the grid costs everybody with a weight."""
    l2, eta, bound = (mpmath.mpf(value) for value in (weights.l2, weights.noise_rate, weights.row_bound))
    total = mpmath.fsum(mpmath.mpf(value) for value in weights.loss_weights.tolist())
    rho = (mpmath.mpf(plan.gradient_bound) + mpmath.mpf(plan.noise_accuracy)) / l2
    grid = mpmath.mpf(plan.grid)
    if 2 * rho >= grid:
        return mpmath.inf
    longest = mpmath.mpf(_longest(weights))
    bend = mpmath.sqrt(n) * min(n * longest, total * longest**3 / (6 * mpmath.sqrt(3) * l2))
    # In the norm of the noise: the vector of ones, and the largest sum of absolute values of a row.
    ones = mpmath.sqrt(joint) + (n - joint)
    sums = mpmath.sqrt(n) * longest
    if joint < n:
        sums = min(sums, mpmath.sqrt(max(joint, 1)) * bound)
    steepest = eta / 2 * (l2 * ones + total * bound * sums / 4) + bend
    return n * mpmath.log((grid + 2 * rho) / (grid - 2 * rho)) + 2 * rho * steepest


def _rounded_up(value: Any) -> float:
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if math.isfinite(nearest) and value > nearest else nearest
