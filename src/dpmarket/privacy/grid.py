r"""The public grid of a release, and the accuracies that make releasing on it safe.

The accounting speaks of the exact minimiser :math:`w^*` for real-valued noise. A computer finds some
:math:`\tilde w` with :math:`|\nabla| \le \tau` for noise that is off by at most :math:`\beta`, so that strong
convexity gives :math:`|\tilde w - w^*| \le \rho = (\tau + \beta) / \Lambda`. Released is the grid point next
to :math:`\tilde w`, in every coordinate, and nothing else.

*The extra cost.* If z is released, :math:`w^*` lies in the box of half-width :math:`g/2 + \rho` around z; if
:math:`w^*` lies in the box of half-width :math:`g/2 - \rho`, z is released. Shrinking the first box onto the
second moves no coordinate by more than :math:`2 \rho`, so that the probability of z under one data set is at
most :math:`e^{\epsilon_i + \epsilon_{num}}` times that under a neighbour, with

.. math:: \epsilon_{num} = K n \log \frac{g + 2 \rho}{g - 2 \rho} + 2 \rho \cdot slope

for K n coordinates, where the slope bounds how fast the log density changes while every coordinate moves by
at most 1 (:mod:`dpmarket.privacy.release`): with A the sum of the weights, moving so moves the noise by at
most :math:`K \Lambda N(1) + A\, curvature_1 R_1 X_1` in its norm; and for the determinant
:math:`|\nabla \log\det H| \le \sum_i a_i |\ell^{(3)}_i| |x_i| \, x_i^T H^{-1} x_i`, where a bound on
:math:`\ell^{(3)}` gives one term of a minimum and :math:`|\ell^{(3)}| \le M \ell^{(2)}` the other.

*The grid.* In the mean over directions the Hessian is at most :math:`\Lambda + A R^2 / (4 n)` (its trace), so
that to first order the noise in a coefficient has at least the root mean square
:math:`2 \sqrt{n + 1} / (\eta (\Lambda + A R^2 / (4 n)))`. The grid is the largest power of two not above a
quarter of that: rounding adds less than one per cent to the noise's mean square, whatever the data.
Independent noise has the root mean square :math:`\sqrt 8 / \eta` before division, the smallest of all, and
sets the grid where there is any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import Infeasible

_NOISE_SHARE = 2.0**-10
_ROUND_UP = 1.0 + 1e-12
_KEPT_BACK = 0.01


@dataclass(frozen=True)
class ReleasePlan:
    """How a model will be computed and rounded, fixed before any record is read.

    Attributes
    ----------
    grid
        Width g of the grid in every coefficient, a power of two.
    gradient_bound, noise_accuracy
        tau, which the solver's proved bound on the gradient's norm must not exceed; and beta, how far the
        noise may be from an ideal sample.
    numerical_epsilon
        What releasing costs everybody whose weight is not 0, rounded up; never above what was asked for.
    """

    grid: float
    gradient_bound: float
    noise_accuracy: float
    numerical_epsilon: float


def plan_on(spread: float, asked: float, l2: float, size: int, slope: float) -> ReleasePlan:
    """Return the least accurate plan that costs at most ``asked``, less one per cent for later rounding."""
    if not 1e-200 < spread < 1e200:
        raise Infeasible(
            f"expected coefficients with noise within the range of floats, got {spread!r}; choose another "
            "noise_rate or l2."
        )
    grid = 2.0 ** math.floor(math.log2(spread / 4.0))
    usable = asked * (1.0 - _KEPT_BACK)
    share = min(usable / (2.0 * size + grid * slope), 0.5)
    while _box_cost(share, grid, size, slope) > usable:
        share *= 0.999
    accuracy = share * grid / 2.0 * l2 * (1.0 - 1e-12)
    if not accuracy > 1e-250:
        raise Infeasible(f"expected a larger numerical_epsilon, got {asked!r}: its grid cannot be computed.")
    cost = _box_cost(share, grid, size, slope)
    return ReleasePlan(grid, accuracy * (1.0 - _NOISE_SHARE), accuracy * _NOISE_SHARE, cost)


def plan_cost(plan: ReleasePlan, l2: float, size: int, slope: float) -> float:
    """Return what a plan costs in ``size`` coordinates, with this slope of the log density, rounded up."""
    share = 2.0 * ((plan.gradient_bound + plan.noise_accuracy) / l2) / plan.grid
    return _box_cost(share, plan.grid, size, slope) if share < 1.0 else math.inf


def _box_cost(share: float, grid: float, size: int, slope: float) -> float:
    return (2.0 * size * math.atanh(share) + share * grid * slope) * _ROUND_UP


def round_to_grid(high: FloatArray, low: FloatArray, grid: float) -> IntArray:
    """Return the integers k for which ``k * grid`` is nearest to the exact ``high + low``, ties to even."""
    width = Fraction(grid)
    cells = [
        round((Fraction(top) + Fraction(rest)) / width)
        for top, rest in zip(high.tolist(), low.tolist(), strict=True)
    ]
    return read_only(np.array(cells, dtype=np.int64))
