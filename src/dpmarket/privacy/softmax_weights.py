r"""Turn promises into weights of a softmax regression that use every promise fully and exceed none.

As :mod:`dpmarket.privacy.weights` does for two classes: the weight of a person is the ``a`` with
``softmax_privacy_loss(a) = epsilon``, it falls as the noise rate grows, and exactly one noise rate makes the
weights add up to 1. A solution exists if and only if
:math:`K \rho \frac{\Lambda}{R^2} \sum_i (e^{\epsilon_i / (\rho (K - 1))} - 1) > 1` with
:math:`\rho = \min(r, n)`: without noise the determinant is largest at equal probabilities, where both of its
bounds have this form. Where :math:`\eta \Lambda \ge R K / (K - 1)` the maximum is at s = 1 and a weight costs
:math:`2 a \eta R + (K - 2) \log(1 + c / (K - 1))`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.privacy.lowering import lowered
from dpmarket.privacy.softmax import SMALLEST_WEIGHT, determinant_bounds, rates, softmax_privacy_loss
from dpmarket.privacy.softmax_curve import DeterminantBound, largest_weights
from dpmarket.privacy.weights import finite_total, keep_checked, usable_promises

_ROUND_DOWN = 2.0**-43
_MAX_STEPS = 400


@dataclass(frozen=True, eq=False)
class SoftmaxWeights:
    """Weights and a noise rate that keep given promises in a softmax regression.

    Unpacks as ``loss_weights, noise_rate``.

    Attributes
    ----------
    loss_weights
        Weight of each person, shape (people,), read-only; they add up to 1 within 1e-12.
    noise_rate
        The noise rate eta of each class's noise.
    l2, n_classes, n_coefficients, row_bound, rows_per_person
        The public constants for which the promises are kept; ``n_coefficients`` of one class.
    numerical_epsilon
        What was set aside of every promise for the release of rounded numbers.

    Examples
    --------
    >>> weights = softmax_weights_for([0.5, 1.0, 2.5], l2=1.0, n_classes=3, n_coefficients=4)
    >>> bool((weights.privacy_losses() <= [0.5, 1.0, 2.5]).all())
    True
    """

    loss_weights: FloatArray
    noise_rate: float
    l2: float
    n_classes: int
    n_coefficients: int
    row_bound: float = 1.0
    rows_per_person: int = 1
    numerical_epsilon: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(self)
        checks.whole("n_classes", self.n_classes, minimum=2)
        checks.whole("n_coefficients", self.n_coefficients, minimum=1)

    def __iter__(self) -> Iterator[Any]:
        yield self.loss_weights
        yield self.noise_rate

    @property
    def euclidean_bound(self) -> None:
        """None: the noise has the Euclidean norm's shape, whose row bound is ``row_bound``."""
        return

    def privacy_losses(self) -> FloatArray:
        """Return what these weights cost each person (epsilon), rounded up, without ``numerical_epsilon``."""
        return softmax_privacy_loss(
            self.loss_weights,
            self.noise_rate,
            self.l2,
            self.n_classes,
            self.row_bound,
            self.rows_per_person,
            n_coefficients=self.n_coefficients,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        return {
            "schema": "dpmarket.softmax-weights/1",
            "loss_weights": self.loss_weights.tolist(),
            "noise_rate": self.noise_rate,
            "l2": self.l2,
            "n_classes": self.n_classes,
            "n_coefficients": self.n_coefficients,
            "row_bound": self.row_bound,
            "rows_per_person": self.rows_per_person,
            "numerical_epsilon": self.numerical_epsilon,
        }


def softmax_weights_for(
    epsilons: ArrayLike,
    l2: float,
    n_classes: int,
    n_coefficients: int,
    row_bound: float = 1.0,
    rows_per_person: int = 1,
    *,
    numerical_epsilon: float = 0.0,
) -> SoftmaxWeights:
    """Return the weights that use everybody's promise fully and exceed nobody's.

    The inverse of :func:`~dpmarket.privacy.softmax.softmax_privacy_loss`, with weights that add up to 1. It
    uses public quantities only.

    Parameters
    ----------
    epsilons
        The promise to each person (epsilon), shape (people,), at least 0.
    l2
        The ridge penalty Lambda, > 0.
    n_classes
        K, at least 2.
    n_coefficients
        n, coefficients of one class, the constant's included.
    row_bound
        R: every row, with its constant column, has at most this Euclidean norm. Public.
    rows_per_person
        r, a public bound on the number of rows of one person.
    numerical_epsilon
        Set aside from every promise for the release of rounded numbers; who was promised no more than this
        gets weight 0.

    Returns
    -------
    SoftmaxWeights

    Raises
    ------
    InvalidInput
        For NaN, negative, infinite, textual or missing values, and if no promise exceeds
        ``numerical_epsilon``.
    Infeasible
        If no noise, however large, lets weights that add up to 1 keep the promises at this ``l2``. The
        message gives the condition and an ``l2`` that works.

    Notes
    -----
    Guaranteed:

    * ``softmax_privacy_loss(weights) <= max(epsilon - numerical_epsilon, 0)`` for everybody, as computed.
    * The difference is at most 1e-11 of it: promises are used fully.
    * Nothing promised (or less than 1e-100), no weight: exactly 0.

    Examples
    --------
    >>> loss_weights, noise_rate = softmax_weights_for([1.0, 0.0, 3.0], 2.0, n_classes=3, n_coefficients=5)
    >>> loss_weights.round(3).tolist(), round(noise_rate, 3)
    ([0.249, 0.0, 0.751], 1.884)
    """
    promises = checks.non_negative_vector("epsilons", epsilons)
    penalty = checks.positive("l2", l2)
    bound = checks.strictly_between("row_bound", row_bound, 1e-50, 1e50)
    size = checks.whole("n_coefficients", n_coefficients, minimum=1)
    bounds = determinant_bounds(n_classes, rows_per_person, size)
    reserve = checks.non_negative("numerical_epsilon", numerical_epsilon)
    usable = usable_promises(promises, reserve)
    total = finite_total(usable)
    # Equal promises have equal weights: each is solved for once.
    distinct, place, counts = np.unique(usable, return_inverse=True, return_counts=True)
    first = int(distinct[0] == 0.0)
    solver = _Solver(distinct[first:], counts[first:].astype(np.float64), penalty, bound, bounds)
    rows = min(rows_per_person, size)
    if not solver.limit(n_classes, rows) > 1.0:
        raise _infeasible(penalty, bound, n_classes, rows, total)
    eta = 1.0 / _root(solver.total, 2.0 * bound / total)
    weights = np.zeros(distinct.size)
    weights[first:] = solver.lowered(1.0 / eta, n_classes, rows_per_person, size)
    return SoftmaxWeights(
        read_only(weights[place]), eta, penalty, n_classes, size, bound, rows_per_person, reserve
    )


@dataclass(eq=False)
class _Solver:
    """The sum of the largest weights that keep distinct promises, as a function of x = 1 / noise_rate."""

    promises: FloatArray
    counts: FloatArray
    l2: float
    row_bound: float
    bounds: tuple[DeterminantBound, ...]

    def __post_init__(self) -> None:
        self._found = [np.zeros_like(self.promises) for _ in self.bounds]

    def weights(self, x: float) -> tuple[FloatArray, FloatArray]:
        """Return the largest weights and their derivatives in log x: the best that any bound allows."""
        by_noise, by_penalty = rates(1.0 / x, self.l2, self.row_bound)
        best, best_slopes = np.zeros_like(self.promises), np.zeros_like(self.promises)
        for k, bound in enumerate(self.bounds):
            found, slopes = largest_weights(self.promises, by_noise, by_penalty, bound, self._found[k])
            self._found[k] = found
            better = found > best
            best, best_slopes = np.where(better, found, best), np.where(better, slopes, best_slopes)
        return best, best_slopes

    def total(self, x: float) -> tuple[float, float]:
        weights, slopes = self.weights(x)
        return float(weights @ self.counts), float(slopes @ self.counts) / x

    def limit(self, n_classes: int, rows: int) -> float:
        """Return the supremum of the sum of the weights over all x, which no x attains."""
        with np.errstate(over="ignore"):
            grown = np.expm1(self.promises / (rows * (n_classes - 1.0)))
        return float(n_classes * rows * self.l2 / self.row_bound**2 * (grown @ self.counts))

    def lowered(self, x: float, n_classes: int, rows: int, size: int) -> FloatArray:
        """Return the weights at x, lowered by rounding until no computed loss exceeds its promise."""
        weights, _ = self.weights(x)

        def losses(some: FloatArray) -> FloatArray:
            return softmax_privacy_loss(
                some, 1.0 / x, self.l2, n_classes, self.row_bound, rows, n_coefficients=size
            )

        return lowered(weights, self.promises, losses, share=_ROUND_DOWN, smallest=SMALLEST_WEIGHT)


def _root(total_and_slope: Callable[[float], tuple[float, float]], start: float) -> float:
    """Solve ``total(x) = 1`` for an increasing function from the left of its root: Newton, kept in a bracket.

    The total is the larger of concave functions, person by person, so that Newton's method may overshoot.
    """
    low, high, x = start, math.inf, start
    for _ in range(_MAX_STEPS):
        total, slope = total_and_slope(x)
        if abs(total - 1.0) <= 2e-15:
            return x
        low, high = (x, high) if total < 1.0 else (low, x)
        following = x + (1.0 - total) / slope
        if not low < following < high:
            following = 2.0 * low if high == math.inf else 0.5 * (low + high)
        if following == x or abs(following - x) <= 1e-15 * x:
            return x
        x = following
    raise NotConverged("expected a noise rate at which the weights add up to 1, found none.")


def _infeasible(l2: float, row_bound: float, n_classes: int, rows: int, total: float) -> Infeasible:
    # At this penalty the closed form of the linear bound, without slack, keeps the promises.
    works = row_bound**2 * (n_classes + 2.0) / ((n_classes - 1.0) * total)
    return Infeasible(
        f"expected K * r * l2 * sum(exp(epsilon / (r * (K - 1))) - 1) > row_bound**2, got l2 = {l2!r}, "
        f"row_bound = {row_bound!r}, K = {n_classes}, r = {rows}: no amount of noise keeps these promises at "
        f"so small a penalty. l2 = {works * 1.001:.4g} works."
    )
