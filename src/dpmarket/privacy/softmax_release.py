r"""Turn a privacy reserve into a public grid for the coefficients of a softmax regression.

The argument is that of :mod:`dpmarket.privacy.grid`, with all :math:`K n` coordinates of W rounded, a
gradient bound :math:`\tau` in the Frobenius norm and noise within :math:`\beta` for all blocks together:

.. math:: \epsilon_{num} = K n \log \frac{g + 2 \rho}{g - 2 \rho} + 2 \rho \sqrt{n} \left[
          \frac{\eta}{2} (K \Lambda + A R^2)
          + \min\left(2 (K - 1) n R, \frac{2 (1 - 1/K) A R^3}{\Lambda}\right) \right],
          \qquad \rho = \frac{\tau + \beta}{\Lambda}.

*Noise.* Moving every coordinate by at most :math:`2 \rho` moves each :math:`w_k` by :math:`2 \rho \sqrt n`,
each score by :math:`2 \rho \sqrt n R`, so that probabilities move by as much in the sum of absolute values
(the mean absolute deviation of numbers in [-1, 1] is at most 1).

*Determinant.* The covariance :math:`C = \mathrm{diag}(p) - p p^T` of the classes changes along scores v by
:math:`\sum_k p_k (v_k - \bar v)(e_k - p)(e_k - p)^T`, which lies within :math:`\pm 2 |v|_\infty C` (the first
term of the minimum: a trace over the :math:`n (K - 1)` directions in which C is not 0) and has a nuclear norm
of at most :math:`2 |v|_\infty (1 - 1/K)` (the second).

*The grid* is a quarter of the noise's root mean square in a coefficient or less: the mean curvature over the
:math:`n (K - 1)` directions that decide predictions is at most :math:`\Lambda + A R^2 / (K n)`.

Coefficients are centred over the classes **after** rounding: that is a function of what was released. The law
of centred coefficients has no density in all K n coordinates, so that centring first would void the argument.
"""

from __future__ import annotations

import math

from dpmarket import checks
from dpmarket.privacy.grid import ReleasePlan, box_cost, grid_for, plan_on, share_of


def softmax_plan_release(
    numerical_epsilon: float,
    n_classes: int,
    n_coefficients: int,
    noise_rate: float,
    l2: float,
    row_bound: float = 1.0,
    *,
    weight_total: float = 1.0,
) -> ReleasePlan:
    """Return the grid, the gradient bound and the noise accuracy that cost at most ``numerical_epsilon``.

    Parameters
    ----------
    numerical_epsilon
        What may be spent on releasing rounded numbers (epsilon), > 0.
    n_classes
        K, at least 2.
    n_coefficients
        n, coefficients of one class, the constant's included.
    noise_rate
        The noise rate eta of each class's noise, > 0.
    l2
        The ridge penalty Lambda, > 0.
    row_bound
        R: no row, with its constant column, is longer.
    weight_total
        A: an upper bound on the sum of the weights.

    Returns
    -------
    ReleasePlan
        Gradient bound and noise accuracy are Euclidean norms over all K n coordinates.

    Raises
    ------
    InvalidInput
        For values that are not finite and above 0.
    Infeasible
        If the plan leaves the range of floats.

    Notes
    -----
    Guaranteed:

    * :func:`softmax_release_cost` of the plan is at most ``numerical_epsilon`` less one per cent, which pays
      for the rounding of everything that is added to it later.
    * A function of public quantities only.

    Examples
    --------
    >>> plan = softmax_plan_release(1e-6, n_classes=5, n_coefficients=20, noise_rate=1000.0, l2=0.02)
    >>> plan.grid, plan.gradient_bound < 1e-11, plan.numerical_epsilon <= 1e-6
    (0.0625, True, True)
    """
    asked = checks.positive("numerical_epsilon", numerical_epsilon)
    classes = checks.whole("n_classes", n_classes, minimum=2)
    n = checks.whole("n_coefficients", n_coefficients, minimum=1)
    eta = checks.positive("noise_rate", noise_rate)
    penalty = checks.positive("l2", l2)
    bound = checks.positive("row_bound", row_bound)
    total = checks.positive("weight_total", weight_total)
    spread = 2.0 * math.sqrt(n + 1.0) / (eta * (penalty + total * bound**2 / (classes * n)))
    grid = grid_for(spread, eta, penalty)
    slope = _log_density_slope(classes, n, eta, penalty, bound, total)
    first_order = 2.0 * classes * n + grid * slope
    return plan_on(grid, asked, penalty, first_order, lambda share: box_cost(share, grid, classes * n, slope))


def softmax_release_cost(
    plan: ReleasePlan,
    n_classes: int,
    n_coefficients: int,
    noise_rate: float,
    l2: float,
    row_bound: float = 1.0,
    *,
    weight_total: float = 1.0,
) -> float:
    """Return what a plan costs in epsilon, rounded up: the formula of this module, for an outsider to check.

    Parameters
    ----------
    plan
        What :func:`softmax_plan_release` gave, or another plan.
    n_classes, n_coefficients, noise_rate, l2, row_bound, weight_total
        As for :func:`softmax_plan_release`; trusted to be finite and above 0.

    Returns
    -------
    float
        Epsilon, charged to everybody whose weight is not 0; infinite if the grid is too fine for the plan's
        accuracy.

    Examples
    --------
    >>> plan = softmax_plan_release(1e-6, n_classes=5, n_coefficients=20, noise_rate=1000.0, l2=0.02)
    >>> 0.9e-6 < softmax_release_cost(plan, 5, 20, noise_rate=1000.0, l2=0.02) <= 1e-6
    True
    """
    slope = _log_density_slope(n_classes, n_coefficients, noise_rate, l2, row_bound, weight_total)
    share = share_of(plan, l2)
    return math.inf if share >= 1.0 else box_cost(share, plan.grid, n_classes * n_coefficients, slope)


def _log_density_slope(classes: int, n: int, eta: float, l2: float, bound: float, total: float) -> float:
    """Return what multiplies ``2 rho`` besides the boxes' volumes."""
    noise = eta / 2.0 * (classes * l2 + total * bound**2)
    by_rank = 2.0 * (classes - 1.0) * n * bound
    by_size = 2.0 * (1.0 - 1.0 / classes) * total * bound**3 / l2
    return math.sqrt(n) * (noise + min(by_rank, by_size))
