r"""Turn promises into the best weights that keep them: the paper's Algorithm 1, step 1, solved exactly.

.. math:: \min_{a, \eta} \; \mu |a| + \sigma / \eta \quad \text{subject to} \quad
          \epsilon_i(a_i, \eta) \le \epsilon_i, \; 0 \le a_i \le k / m, \; \sum_i a_i = 1.

With ``x = 1 / eta`` a promise reads ``a_i <= A_i(x)``, concave in x
(:mod:`dpmarket.privacy.promise_curve`), so the problem is convex in ``(a, x)``. For fixed x the best weights
are level, ``a_i = min(A_i(x), level)``, the level fixed by the sum. (The cap never binds beyond the smallest
feasible x, because the level is below it.) The slope of ``|a|`` in x is
``sum (A_i - level) A_i'(x) / |a|`` over those below the level, so that one rising function of x has to cross
0. Up to ``x = l2 / (2 R)`` everything is piecewise quadratic and solved in closed form from prefix sums;
beyond it the crossing is found by a bracketing search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy.promise_curve import PromiseCurve
from dpmarket.privacy.weights import finite_total, infeasible, newton_from_left, usable_promises


@dataclass(frozen=True, eq=False)
class BestWeights:
    """The best weights that keep the promises. Unpacks as ``loss_weights, noise_rate``.

    Attributes
    ----------
    loss_weights
        Weight of each person, shape (people,), read-only; they add up to 1 within 1e-12.
    noise_rate
        The noise rate eta.
    objective_value
        ``concentration * |loss_weights| + noise / noise_rate``.
    level
        The largest weight: people below it are held there by their promise.
    stationarity
        Derivative of the objective in ``1 / noise_rate``, divided by ``noise``: 0 to rounding inside the
        feasible range, at least 0 at its end. By convexity nothing else is needed for a global minimum.
    has_least_noise
        Whether ``noise_rate`` is the largest that the promises and the cap allow.

    Examples
    --------
    One person promised much more than the others gets less weight than their promise allows.

    >>> best = best_weights([0.1, 0.1, 2.0], l2=10.0, concentration=1.0, noise=0.1)
    >>> best.loss_weights.round(3).tolist(), round(best.level, 3), best.has_least_noise
    ([0.228, 0.228, 0.544], 0.544, False)
    >>> abs(best.stationarity) < 1e-9
    True
    """

    loss_weights: FloatArray
    noise_rate: float
    objective_value: float
    level: float
    stationarity: float
    has_least_noise: bool

    def __iter__(self) -> Iterator[Any]:
        yield self.loss_weights
        yield self.noise_rate

    def to_dict(self) -> dict[str, Any]:
        """Return the value as plain data, ready for JSON."""
        return {
            "schema": "dpmarket.best-weights/2",
            "loss_weights": self.loss_weights.tolist(),
            "noise_rate": self.noise_rate,
            "objective_value": self.objective_value,
            "level": self.level,
            "stationarity": self.stationarity,
            "has_least_noise": self.has_least_noise,
        }


def best_weights(
    epsilons: ArrayLike,
    l2: float,
    concentration: float,
    noise: float,
    weight_cap: float | None = None,
    row_bound: float = 1.0,
    *,
    rows_per_person: int = 1,
    numerical_epsilon: float = 0.0,
) -> BestWeights:
    """Return the weights and noise rate of least excess risk among those that keep every promise.

    Minimises ``concentration * |a| + noise / eta`` (the excess risk of the paper's theorem on the error
    bound). ``weights_for``, which uses every promise fully, is one end of this trade-off: less noise, but
    more uneven weights.

    Parameters
    ----------
    epsilons
        The promise to each person (epsilon), shape (people,), at least 0.
    l2
        The ridge penalty Lambda, > 0.
    concentration
        mu, the price of uneven weights, at least 0.
    noise
        sigma, the price of noise, > 0.
    weight_cap
        k in ``a_i <= k / people``, at least 1; None means no cap.
    row_bound, rows_per_person, numerical_epsilon
        As for :func:`~dpmarket.privacy.weights.weights_for`.

    Returns
    -------
    BestWeights
        With its evidence; also unpacks as ``loss_weights, noise_rate``.

    Raises
    ------
    InvalidInput
        For values outside the ranges above.
    Infeasible
        If no weights that add up to 1 keep the promises and the cap.

    Notes
    -----
    Guaranteed:

    * ``privacy_loss(weights) <= max(epsilon - numerical_epsilon, 0)`` for everybody, as computed.
    * The global minimum: the problem is convex and the slope is returned.
    * Time O(m log m).

    Examples
    --------
    >>> best = best_weights([0.1, 1.0, 1.0], l2=10.0, concentration=1.0, noise=1.0)
    >>> best.loss_weights.round(6).tolist(), round(best.noise_rate, 6)
    ([0.047619, 0.47619, 0.47619], 2.1)
    """
    promises = checks.non_negative_vector("epsilons", epsilons)
    curve = PromiseCurve(
        checks.positive("l2", l2),
        checks.strictly_between("row_bound", row_bound, 1e-100, 1e100),
        checks.whole("rows_per_person", rows_per_person, minimum=1),
    )
    mu = checks.non_negative("concentration", concentration)
    sigma = checks.positive("noise", noise)
    reserve = checks.non_negative("numerical_epsilon", numerical_epsilon)
    cap = 1.0
    if weight_cap is not None:
        cap = min(1.0, checks.at_least("weight_cap", weight_cap, 1.0) / promises.size)
    usable = usable_promises(promises, reserve)
    finite_total(usable)
    order = np.argsort(usable, kind="stable")
    order = order[np.searchsorted(usable[order], 0.0, side="right") :]
    problem = _Problem(usable[order], curve, cap, mu, sigma)
    x, at_end = _minimiser(problem)
    weights, level = problem.weights(x)
    # Nobody is above the level, so lowering for rounding concerns only whom a promise holds.
    kept = curve.lowered(weights, problem.promises, x)
    result = np.zeros_like(usable)
    result[order] = kept
    return BestWeights(
        loss_weights=read_only(result),
        noise_rate=1.0 / x,
        objective_value=mu * math.sqrt(float(kept @ kept)) + sigma * x,
        level=level,
        stationarity=problem.slope(x) / sigma,
        has_least_noise=at_end,
    )


class _Problem:
    """The convex problem in x = 1 / noise_rate for ascending positive promises."""

    def __init__(
        self, promises: FloatArray, curve: PromiseCurve, cap: float, mu: float, sigma: float
    ) -> None:
        self.promises = promises
        self.curve = curve
        self.cap = cap
        self.mu = mu
        self.sigma = sigma
        # With weight_cap = 1 the caps add up to 1 but for rounding, in whatever order they are added.
        self.target = min(1.0, cap * promises.size) * (1.0 - 2.0**-47)
        self._guess: FloatArray | None = None

    def largest(self, x: float) -> tuple[FloatArray, FloatArray]:
        """Return A_i(x) and its derivative."""
        weights, slopes = self.curve.weights(self.promises, x, self._guess)
        self._guess = weights
        return weights, slopes

    def weights(self, x: float) -> tuple[FloatArray, float]:
        """Return the best weights at x, and their level."""
        bounds, _ = self.largest(x)
        held = _held(bounds)
        level = (1.0 - float(bounds[:held].sum())) / (bounds.size - held)
        level = min(level, self.cap)
        return np.minimum(bounds, level), level

    def slope(self, x: float) -> float:
        """Return the derivative of the objective at x."""
        bounds, slopes = self.largest(x)
        held = _held(bounds)
        level = (1.0 - float(bounds[:held].sum())) / (bounds.size - held)
        norm = math.sqrt(float(bounds[:held] @ bounds[:held]) + (bounds.size - held) * level**2)
        return self.sigma + self.mu * float((bounds[:held] - level) @ slopes[:held]) / norm

    def capped_total(self, x: float) -> tuple[float, float]:
        """Return ``sum min(A_i(x), cap)``, and its derivative from the right."""
        bounds, slopes = self.largest(x)
        free = int(np.searchsorted(bounds, self.cap))
        return (
            float(bounds[:free].sum()) + (bounds.size - free) * self.cap,
            float(slopes[:free].sum()),
        )


def _held(bounds: FloatArray) -> int:
    """Return how many of the ascending bounds lie below the level that makes the total 1.

    At least one person is left above: at the smallest feasible x everybody may be at the bound.
    """
    count = bounds.size
    before = np.concatenate([[0.0], np.cumsum(bounds[:-1])])
    # The j-th bound is below the level if levelling everybody from j on at that bound gives less than 1.
    totals = before + bounds * np.arange(count, 0, -1)
    return min(int(np.searchsorted(totals, 1.0)), count - 1)


def _minimiser(problem: _Problem) -> tuple[float, bool]:
    """Return the best x, and whether it is the smallest feasible one."""
    edge = problem.curve.linear_up_to
    smallest = _smallest_linear(problem)
    if smallest > edge:
        smallest = _smallest_beyond(problem, edge, smallest)
    if problem.slope(smallest) >= 0.0:
        return smallest, True
    if smallest < edge and problem.slope(edge) >= 0.0:
        return _crossing_linear(problem, smallest, edge), False
    return _crossing(problem.slope, max(smallest, edge)), False


def _smallest_linear(problem: _Problem) -> float:
    """Return the x with ``sum min(epsilon_i x / R, cap) = 1``: prefix sums, since it is piecewise linear."""
    rates = problem.promises / problem.curve.row_bound
    before = np.concatenate([[0.0], np.cumsum(rates[:-1])])
    if problem.cap * rates.size < 1.0 - 1e-12:
        raise _too_few(problem)
    # At x = cap / rate_j everybody from j on is at the cap; these totals fall in j.
    totals = problem.cap * (before / rates + np.arange(rates.size, 0, -1))
    free = int(np.searchsorted(-totals, -problem.target, side="right"))
    if free == 0:
        return float(problem.cap / rates[0])
    below = float(rates[:free].sum())
    return (problem.target - (rates.size - free) * problem.cap) / below


def _smallest_beyond(problem: _Problem, edge: float, smallest: float) -> float:
    limits = np.minimum(problem.curve.limit(problem.promises), problem.cap)
    x, reached = 0.0, False
    if float(limits.sum()) >= problem.target:
        x, reached = newton_from_left(problem.capped_total, edge, problem.target)
    if not reached:
        raise infeasible(
            problem.curve,
            "sum(min(4 * r * l2 * (exp(epsilon / r) - 1) / row_bound**2, cap)) > 1",
            smallest,
        )
    return x


def _too_few(problem: _Problem) -> Infeasible:
    return Infeasible(
        f"expected people with a promise above 0 whose weights can add up to 1, got {problem.promises.size} "
        f"of them with a cap of {problem.cap!r} each; raise weight_cap."
    )


def _crossing_linear(problem: _Problem, low: float, high: float) -> float:
    """Return the zero of the slope in [low, high], where A_i(x) = rate_i x, in closed form."""
    rates = problem.promises / problem.curve.row_bound
    count = rates.size
    before = np.concatenate([[0.0], np.cumsum(rates)])
    squares = np.concatenate([[0.0], np.cumsum(rates * rates)])

    def root(held: int) -> float:
        # |a|^2 = V x^2 - 2 (E / n) x + 1 / n with `held` people at their bound and n at the level.
        others = count - held
        e, q = float(before[held]), float(squares[held])
        v = q + e * e / others
        excess = problem.mu**2 * v - problem.sigma**2
        if excess <= 0.0:
            return -math.inf  # the slope is positive on the whole parabola, as it is with nobody held
        return e / (others * v) - problem.sigma * math.sqrt(q / (others * v)) / math.sqrt(v * excess)

    # With j held, x lies in [1 / totals_j, 1 / totals_{j-1}): the slope rises in x, so bisection finds j.
    totals = before[:-1] + rates * np.arange(count, 0, -1)
    least, most = 0, count - 1
    while least < most:
        held = (least + most) // 2
        # Left end of the pieces with at most `held` people held.
        if root(held) >= 1.0 / totals[held]:
            most = held
        else:
            least = held + 1
    right = high if least == 0 else 1.0 / float(totals[least - 1])
    return min(max(root(least), 1.0 / float(totals[least]), low), right, high)


def _crossing(slope: Callable[[float], float], low: float) -> float:
    """Return the zero of a rising function that is negative at ``low``."""
    high = 2.0 * low
    while slope(high) < 0.0:
        low, high = high, 4.0 * high
        if high > 1e100:
            raise InvalidInput(
                "expected noise large enough, relative to concentration, for a finite optimum."
            )
    return float(brentq(slope, low, high, xtol=1e-300, rtol=8.9e-16, maxiter=500))
