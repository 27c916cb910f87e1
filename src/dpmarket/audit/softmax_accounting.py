r"""Turn the weights of a softmax regression into what everybody really spent, by other code than made them.

The formulas of :mod:`dpmarket.privacy.softmax` and :mod:`dpmarket.privacy.softmax_release`, written down once
more with many digits (mpmath). Here the determinant is that of the matrix itself: with s given and the wrong
classes equally likely,
:math:`\det(I + c (\mathrm{diag}(p) - p p^T)) = \prod_k (1 + c p_k) \sum_k p_k / (1 + c p_k)`, and the maximum
over s is found by halves, from the slope: the bracket is concave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath  # type: ignore[import-untyped]

from dpmarket.privacy import ReleasePlan, SoftmaxWeights

_HALVINGS = 77


def softmax_loss(weight: float, weights: SoftmaxWeights) -> Any:
    """Return what one weight costs, from below by less than 1e-20 of it, in mpmath's working precision."""
    a, eta, bound = mpmath.mpf(weight), mpmath.mpf(weights.noise_rate), mpmath.mpf(weights.row_bound)
    rows, classes = weights.rows_per_person, weights.n_classes
    slope, bend = a * eta * bound, a * bound**2 / mpmath.mpf(weights.l2)

    share, others = bend / rows, classes - 1
    size = weights.n_coefficients * others

    def by_rows(s: Any) -> Any:
        right, wrong = 1 + share * (1 - s), 1 + share * s / others
        return slope * s + rows * mpmath.log(right * wrong**others * ((1 - s) / right + s / wrong))

    def rising_by_rows(s: Any) -> bool:
        right, wrong = 1 + share * (1 - s), 1 + share * s / others
        mixed = (1 / wrong**2 - 1 / right**2) / ((1 - s) / right + s / wrong)
        return bool(slope + rows * (share / wrong - share / right + mixed) > 0)

    def by_trace(s: Any) -> Any:
        return slope * s + size * mpmath.log1p(bend * (1 - (1 - s) ** 2 - s**2 / others) / size)

    def rising_by_trace(s: Any) -> bool:
        bent = 1 + bend * (1 - (1 - s) ** 2 - s**2 / others) / size
        return bool(slope + bend * (2 * (1 - s) - 2 * s / others) / bent > 0)

    found = _largest(by_rows, rising_by_rows)
    if rows > weights.n_coefficients:
        found = min(found, _largest(by_trace, rising_by_trace))
    return slope + found


def _largest(concave: Callable[[Any], Any], rising: Callable[[Any], bool]) -> Any:
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    if rising(high):
        return concave(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) else (low, middle)
    return concave(low)


def softmax_release_spent(plan: ReleasePlan, weights: SoftmaxWeights) -> Any:
    """Return what releasing on the grid costs everybody with a weight, in mpmath's working precision."""
    l2, eta, bound = (mpmath.mpf(value) for value in (weights.l2, weights.noise_rate, weights.row_bound))
    total = mpmath.fsum(mpmath.mpf(value) for value in weights.loss_weights.tolist())
    n, classes = weights.n_coefficients, weights.n_classes
    rho = (mpmath.mpf(plan.gradient_bound) + mpmath.mpf(plan.noise_accuracy)) / l2
    grid = mpmath.mpf(plan.grid)
    if 2 * rho >= grid:
        return mpmath.inf
    bend = min(2 * (classes - 1) * n * bound, 2 * (classes - 1) * total * bound**3 / (classes * l2))
    steepest = mpmath.sqrt(n) * (eta / 2 * (classes * l2 + total * bound**2) + bend)
    return classes * n * mpmath.log((grid + 2 * rho) / (grid - 2 * rho)) + 2 * rho * steepest
