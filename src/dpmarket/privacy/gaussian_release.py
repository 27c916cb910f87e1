r"""Turn a privacy reserve into a public grid for a model with Gaussian noise.

The argument is that of :mod:`dpmarket.privacy.grid`: what is released is the grid point next to a computed
minimiser within :math:`\rho = (\tau + \beta) / \Lambda` of the exact one. The slope of a normal log density
is not bounded, but where the noise is shorter than

.. math:: B_0 = \nu \left(\sqrt{N} + \sqrt{2 \ln(1 / \delta_{num})}\right), \qquad \nu = 2 / \eta,

which fails with probability :math:`\delta_{num}` at most, N the number of all coefficients. The box of a grid
point that holds one such noise holds only noise shorter than :math:`B_1 = B_0 + 2 H_+ \sqrt{N} (g / 2 +
\rho)`, with :math:`H_+` the largest curvature, so that shrinking the outer box onto the inner one costs at
most the factor :math:`e^\kappa`,

.. math:: \kappa = N \log \frac{g + 2 \rho}{g - 2 \rho} + 2 \rho \left[\sqrt{N} \frac{H_+ B_1}{\nu^2}
          + \sqrt{n} D\right].

Two classes: N = n, :math:`H_+ = \Lambda + A R^2 / 4` and :math:`D = \min(n R, A R^3 / (6 \sqrt 3 \Lambda))`.
K classes: N = K n, :math:`H_+ = \Lambda + A R^2 / 2` (the covariance of K indicators has no eigenvalue above
1/2) and D as in :mod:`dpmarket.privacy.softmax_release`. Summed over a set of grid points: those whose boxes
hold only long noise have the probability :math:`\delta_{num}` together; the inner boxes of the others do not
overlap. An exact output with :math:`(\epsilon, \delta)` is released with
:math:`(\epsilon + \kappa, e^\kappa \delta + \delta_{num})`.

*The grid* is a quarter of the noise's root mean square in a coefficient, or less.
"""

from __future__ import annotations

import math

from dpmarket import checks
from dpmarket.errors import Infeasible
from dpmarket.privacy.gaussian_weights import NUMERICAL_DELTA
from dpmarket.privacy.grid import ReleasePlan, box_cost, grid_for, plan_on, share_of, usable_of


def gaussian_plan_release(
    numerical_epsilon: float,
    n_coefficients: int,
    noise_rate: float,
    l2: float,
    *,
    n_classes: int = 2,
    row_bound: float = 1.0,
    weight_total: float = 1.0,
) -> ReleasePlan:
    """Return the grid, the gradient bound and the noise accuracy that cost at most ``numerical_epsilon``.

    Parameters
    ----------
    numerical_epsilon
        What may be spent on releasing rounded numbers (kappa), > 0.
    n_coefficients
        n, coefficients of one class, the constant's included.
    noise_rate
        The noise rate eta, > 0: a standard deviation of ``2 / eta``.
    l2
        The ridge penalty Lambda, > 0.
    n_classes
        K, at least 2; two classes have one vector of coefficients.
    row_bound
        R: no row, with its constant column, is longer.
    weight_total
        A: an upper bound on the sum of the weights.

    Returns
    -------
    ReleasePlan
        Gradient bound and noise accuracy are Euclidean norms over all coefficients.

    Raises
    ------
    InvalidInput
        For values that are not finite and above 0.
    Infeasible
        If the plan leaves the range of floats.

    Notes
    -----
    Guaranteed:

    * :func:`gaussian_release_cost` of the plan is at most ``numerical_epsilon`` less one per cent, which pays
      for the rounding of everything that is added to it later.
    * A function of public quantities only.

    Examples
    --------
    >>> plan = gaussian_plan_release(1e-6, n_coefficients=20, noise_rate=1000.0, l2=0.02)
    >>> plan.grid, plan.gradient_bound < 1e-11, plan.numerical_epsilon <= 1e-6
    (0.0078125, True, True)
    """
    asked = checks.positive("numerical_epsilon", numerical_epsilon)
    n = checks.whole("n_coefficients", n_coefficients, minimum=1)
    eta = checks.positive("noise_rate", noise_rate)
    penalty = checks.positive("l2", l2)
    classes = checks.whole("n_classes", n_classes, minimum=2)
    bound = checks.positive("row_bound", row_bound)
    total = checks.positive("weight_total", weight_total)
    # The mean curvature over the directions that decide predictions is at most this.
    curvature = penalty + total * bound**2 / (4.0 * n if classes == 2 else classes * n)
    spread = 2.0 / (eta * curvature)
    grid = grid_for(spread, eta, penalty)
    size = n if classes == 2 else classes * n
    share = 0.5  # 2 rho / g, at most
    for _ in range(2):
        # Half a box is (1 + share) g / 2 wide; a first, too large share gives a share that is too small.
        slope = _log_density_slope(grid * (1.0 + share) / 2.0, n, eta, penalty, classes, bound, total=total)
        first_order = 2.0 * size + grid * slope
        share = min(usable_of(asked) / first_order, 0.5)
    plan = plan_on(
        grid, asked, penalty, first_order, lambda part: box_cost(part, grid, size, slope), kept_back=1e-9
    )
    cost = gaussian_release_cost(
        plan, n, eta, penalty, n_classes=classes, row_bound=bound, weight_total=total
    )
    if not cost <= asked:
        raise Infeasible(f"expected a numerical_epsilon that can be kept, got {asked!r}.")
    return ReleasePlan(grid, plan.gradient_bound, plan.noise_accuracy, cost)


def gaussian_release_cost(
    plan: ReleasePlan,
    n_coefficients: int,
    noise_rate: float,
    l2: float,
    *,
    n_classes: int = 2,
    row_bound: float = 1.0,
    weight_total: float = 1.0,
) -> float:
    """Return kappa, what a plan costs in epsilon, rounded up: for an outsider to check.

    Parameters
    ----------
    plan
        What :func:`gaussian_plan_release` gave, or another plan.
    n_coefficients, noise_rate, l2, n_classes, row_bound, weight_total
        As for :func:`gaussian_plan_release`; trusted to be finite and above 0.

    Returns
    -------
    float
        Charged to everybody whose weight is not 0, besides ``NUMERICAL_DELTA`` and a factor ``exp(kappa)`` of
        delta; infinite if the grid is too fine for the plan's accuracy.

    Examples
    --------
    >>> plan = gaussian_plan_release(1e-6, n_coefficients=20, noise_rate=1000.0, l2=0.02)
    >>> 0.9e-6 < gaussian_release_cost(plan, 20, noise_rate=1000.0, l2=0.02) <= 1e-6
    True
    """
    share = share_of(plan, l2)
    if share >= 1.0:
        return math.inf
    half_width = plan.grid / 2.0 + (plan.gradient_bound + plan.noise_accuracy) / l2
    slope = _log_density_slope(
        half_width, n_coefficients, noise_rate, l2, n_classes, row_bound, total=weight_total
    )
    size = n_coefficients if n_classes == 2 else n_classes * n_coefficients
    return box_cost(share, plan.grid, size, slope)


def _log_density_slope(
    half_width: float, n: int, eta: float, l2: float, classes: int, bound: float, *, total: float
) -> float:
    """Return what multiplies ``2 rho`` besides the boxes' volumes."""
    if classes == 2:
        size, steepest = n, l2 + total * bound**2 / 4.0
        determinant = min(n * bound, total * bound**3 / (6.0 * math.sqrt(3.0) * l2))
    else:
        size, steepest = classes * n, l2 + total * bound**2 / 2.0
        determinant = min(
            2.0 * (classes - 1.0) * n * bound, 2.0 * (1.0 - 1.0 / classes) * total * bound**3 / l2
        )
    deviation = 2.0 / eta
    longest = deviation * (math.sqrt(size) + math.sqrt(-2.0 * math.log(NUMERICAL_DELTA)))
    longest += 2.0 * steepest * math.sqrt(size) * half_width
    return math.sqrt(size) * steepest * longest / deviation**2 + math.sqrt(n) * determinant
