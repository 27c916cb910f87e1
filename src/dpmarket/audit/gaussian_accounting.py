r"""Turn weights of a model with a delta into the epsilon that everybody really spent, by other code.

The sums of :mod:`dpmarket.privacy.gaussian` and the release of :mod:`dpmarket.privacy.gaussian_release`,
written down once more with many digits (mpmath): delta from the complementary error function itself, and
epsilon at the delta by halving.
"""

from __future__ import annotations

from typing import Any

import mpmath  # type: ignore[import-untyped]

from dpmarket.privacy import GaussianWeights, ReleasePlan

_HALVINGS = 70
_DELTA_NUM = mpmath.mpf(2) ** -60


def gaussian_spent(weight: float, weights: GaussianWeights, kappa: Any) -> Any:
    """Return the epsilon at the model's delta of one weight, release included, from above."""
    with_room = (mpmath.mpf(weights.delta) - _DELTA_NUM) * mpmath.exp(-kappa)
    allowed = with_room if weights.numerical_epsilon > 0.0 else mpmath.mpf(weights.delta)
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while _delta(high, weight, weights) > allowed:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(middle, weight, weights) > allowed else (low, middle)
    return high + kappa


def gaussian_keeps(weight: float, weights: GaussianWeights, kappa: Any, promise: float) -> bool:
    """Whether a promise is kept by one weight: its delta at what the release leaves of epsilon, exactly."""
    left = mpmath.mpf(promise) - kappa
    if left < 0:
        return False
    found = _delta(left, weight, weights)
    if weights.numerical_epsilon > 0.0:
        found = found * mpmath.exp(kappa) + _DELTA_NUM
    return bool(found <= mpmath.mpf(weights.delta))


def gaussian_release_spent(plan: ReleasePlan, weights: GaussianWeights, n: int) -> Any:
    """Return kappa, what releasing on the grid costs everybody with a weight; n coefficients of one class."""
    l2, eta, bound = (mpmath.mpf(value) for value in (weights.l2, weights.noise_rate, weights.row_bound))
    total = mpmath.fsum(mpmath.mpf(value) for value in weights.loss_weights.tolist())
    classes, grid = weights.n_classes, mpmath.mpf(plan.grid)
    rho = (mpmath.mpf(plan.gradient_bound) + mpmath.mpf(plan.noise_accuracy)) / l2
    if 2 * rho >= grid:
        return mpmath.inf
    two = classes == 2
    size = n if two else classes * n
    steepest = l2 + total * bound**2 / (4 if two else 2)
    third = total * bound**3 / l2
    bend = (
        min(n * bound, third / (6 * mpmath.sqrt(3)))
        if two
        else 2 * min((classes - 1) * n * bound, (1 - mpmath.mpf(1) / classes) * third)
    )
    deviation = 2 / eta
    longest = deviation * (mpmath.sqrt(size) + mpmath.sqrt(120 * mpmath.log(2)))
    longest += 2 * steepest * mpmath.sqrt(size) * (grid / 2 + rho)
    slope = mpmath.sqrt(size) * steepest * longest / deviation**2 + mpmath.sqrt(n) * bend
    return size * mpmath.log((grid + 2 * rho) / (grid - 2 * rho)) + 2 * rho * slope


def _delta(epsilon: Any, weight: float, weights: GaussianWeights) -> Any:
    a, bound = mpmath.mpf(weight), mpmath.mpf(weights.row_bound)
    mu = a * mpmath.mpf(weights.noise_rate) * bound
    c = a * bound**2 / mpmath.mpf(weights.l2)
    classes, several = weights.n_classes, weights.rows_per_person > 1
    if classes == 2:
        sums = [[(1, mu, 0), (1, mu / 2, 0), (1, mu / 2, c)]]
        if not several:
            share = mpmath.log1p(c / 4)
            sums.append([(1, mu, share), (2, mu / 2, share)])
    else:
        mu *= mpmath.sqrt(2)
        wrong = classes - 1
        share = c * wrong / classes if several else wrong * mpmath.log1p(c / classes)
        middle = mu * mpmath.sqrt(3) / 2
        sums = [[(wrong, mu, share), (wrong * (wrong - 1), middle, share), (2 * wrong, mu / 2, share)]]
    found = mpmath.mpf(1)
    for terms in sums:
        if all(epsilon >= taken for _, _, taken in terms):
            part = _part_by_part if several else _at_once
            found = min(found, mpmath.fsum(k * part(epsilon, epsilon - taken, d) for k, d, taken in terms))
    return found


def _at_once(_: Any, left: Any, mu: Any) -> Any:
    root = mpmath.sqrt(2)
    first = mpmath.erfc((left / mu - mu / 2) / root) / 2
    return first - mpmath.exp(left) * mpmath.erfc((left / mu + mu / 2) / root) / 2


def _part_by_part(epsilon: Any, left: Any, mu: Any) -> Any:
    x = left / mu
    factor = mpmath.expm1(epsilon) / epsilon if epsilon > 0 else mpmath.mpf(1)
    return factor * mu * (mpmath.npdf(x) - x * mpmath.erfc(x / mpmath.sqrt(2)) / 2)
