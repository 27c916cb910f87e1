r"""Turn a point near the minimum of a convex function into one with a proof that its gradient is small.

What :mod:`dpmarket.learning.minimiser` builds on: a line search, a quasi-Newton direction, and the
proof. If float64 cannot prove the bound, the gradient g is evaluated in pairs of floats at the point w, a
correction d is solved for, and :math:`|\nabla(w + d)| \le |g + H d|` plus rounding plus what the expansion
misses is proved without a second evaluation; where that is not enough, w + d is the next point, as a pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.learning import rounding
from dpmarket.learning.pairs import add_pairs, norm_up, product_rest, two_sum

Solve = Callable[[FloatArray], FloatArray]
"""Solves approximately, symmetrically and positively, with the Hessian: a preconditioner."""

_MAX_STEPS = 2000
_MAX_HALVINGS = 200
_LARGEST_CONDITION = 1e12


class Objective(Protocol):
    """A smooth, strongly convex function, its derivatives and rigorous bounds on their rounding."""

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the gradient in float64."""
        ...

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient at ``w + rest`` computed in pairs, rounded once."""
        ...

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        """Return the Hessian at ``w`` times ``v``."""
        ...

    def gradient_error(self, norm: float) -> float:
        """Bound the error of :meth:`gradient` at points of this norm."""
        ...

    def accurate_gradient_error(self, norm: float) -> float:
        """Bound the error of :meth:`accurate_gradient`, but for its last rounding."""
        ...

    def product_error(self, norm: float) -> float:
        """Bound the error of :meth:`product` per unit of the vector's norm."""
        ...

    def curvature_change(self, step: float) -> float:
        """Bound what the gradient's linear expansion over a step of this norm misses."""
        ...


@dataclass(frozen=True, eq=False)
class Minimum:
    """A point ``high + low`` (the exact sum) at which the gradient's norm is at most ``gradient_bound``.

    Attributes
    ----------
    high, low
        Shape (coefficients,). The point is their sum without rounding: about 106 bits of every coefficient.
    gradient_bound
        Proved, with all rounding counted.
    """

    high: FloatArray
    low: FloatArray
    gradient_bound: float


def with_penalty(
    loss: FloatArray, linear: tuple[FloatArray, FloatArray], l2: float, w: FloatArray
) -> FloatArray:
    """Return the loss's gradient, in pairs, plus the linear term and ``l2 * w``, rounded once."""
    product = l2 * w
    total = add_pairs(loss, np.stack(linear))
    total = add_pairs(total, np.stack([product, product_rest(l2, w, product)]))
    return np.asarray(total.sum(axis=0))


def check_condition(condition: float, size: int, total: float, row_bound: float, l2: float) -> None:
    """Refuse a Hessian of ``size`` coefficients whose condition leaves float64 no digits."""
    if not condition * size <= _LARGEST_CONDITION:
        raise Infeasible(
            f"expected l2 > {size * total * row_bound**2 / _LARGEST_CONDITION:.1e} for a solution in "
            f"float64, got {l2!r}."
        )


def check_provable(error: float, gradient_bound: float) -> None:
    """Refuse a gradient bound that the accurate gradient's rounding would use up."""
    if not error <= gradient_bound / 4.0:
        raise Infeasible(
            "expected a gradient bound that pairs of floats can prove; a larger numerical_epsilon or l2 is "
            "needed."
        )


def search_line(
    objective: Objective,
    w: FloatArray,
    gradient: FloatArray,
    direction: FloatArray,
    end_gradient: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return a point on the ray where the slope is still downward, but at most half of what it was.

    Up to there a convex function only falls, and far enough for Newton directions to reach the minimum from
    every start (Zoutendijk's condition). ``end_gradient`` is the gradient one whole step ahead.
    """
    first = float(gradient @ direction)
    low, low_slope, low_gradient = 0.0, first, gradient
    high, high_slope, high_gradient = 1.0, float(end_gradient @ direction), end_gradient
    while high_slope <= 0.0:
        low, low_slope, low_gradient = high, high_slope, high_gradient
        if low_slope >= 0.5 * first:
            return w + low * direction, low_gradient
        high *= 2.0
        high_gradient = objective.gradient(w + high * direction)
        high_slope = float(high_gradient @ direction)
    for turn in range(_MAX_HALVINGS):
        # The secant's root lands on either side; every other turn halves, so that the bracket closes.
        share = low_slope / (low_slope - high_slope) if turn % 2 == 0 else 0.5
        middle = low + min(max(share, 0.01), 0.99) * (high - low)
        middle_gradient = objective.gradient(w + middle * direction)
        slope = float(middle_gradient @ direction)
        if slope <= 0.0:
            low, low_slope, low_gradient = middle, slope, middle_gradient
            if low_slope >= 0.5 * first:
                break
        else:
            high, high_slope = middle, slope
    return w + low * direction, low_gradient


def bfgs_direction(
    pairs: list[tuple[FloatArray, FloatArray]], solve: Solve, gradient: FloatArray
) -> FloatArray:
    """Return the gradient times the inverse Hessian that ``solve`` and the steps taken so far suggest."""
    direction = gradient.copy()
    kept = []
    for moved, change in reversed(pairs):
        curvature = float(moved @ change)
        if curvature <= 0.0:
            continue  # only rounding can do this
        along = float(moved @ direction) / curvature
        direction -= along * change
        kept.append((moved, change, curvature, along))
    direction = solve(direction)
    for moved, change, curvature, along in reversed(kept):
        direction += (along - float(change @ direction) / curvature) * moved
    return direction


def proved(objective: Objective, w: FloatArray, solve: Solve, bound: float) -> Minimum:
    """Return a point near w with a proof that the gradient there is at most ``bound``."""
    error = objective.gradient_error(float(np.linalg.norm(w)) * (1.0 + 1e-12))
    if error < bound:
        found = norm_up(objective.gradient(w)) + error
        if found <= bound:
            return Minimum(read_only(w), read_only(np.zeros_like(w)), found)
    rest = np.zeros_like(w)
    for _ in range(_MAX_STEPS):
        norm = float(np.linalg.norm(w)) * (1.0 + 1e-12)
        gradient = objective.accurate_gradient(w, rest)
        error = objective.accurate_gradient_error(norm)
        found = norm_up(gradient) + error
        if found <= bound:
            return Minimum(read_only(w), read_only(rest), found)
        correction, found = _correction(objective, w, solve, gradient, error, bound)
        if not rest.any() and found <= bound:
            return Minimum(read_only(w), read_only(correction), found)
        w, rest = two_sum(w, rest + correction)
    raise NotConverged("the correction did not reach the gradient bound.")


def _correction(
    objective: Objective,
    w: FloatArray,
    solve: Solve,
    gradient: FloatArray,
    error: float,
    bound: float,
) -> tuple[FloatArray, float]:
    """Solve ``H d = -g`` by preconditioned conjugate gradients; return d and the proved bound at w + d."""
    norm = float(np.linalg.norm(w)) * (1.0 + 1e-12)
    correction = np.zeros_like(w)
    residual = gradient.copy()
    solved = solve(residual)
    direction = -solved
    fitness = float(residual @ solved)
    for _ in range(4 * w.size + 16):
        product = objective.product(w, direction)
        length = fitness / float(direction @ product)
        correction = correction + length * direction
        residual = residual + length * product
        if float(np.linalg.norm(residual)) <= bound / 4.0:
            break
        solved = solve(residual)
        fitness, before = float(residual @ solved), fitness
        direction = (fitness / before) * direction - solved
    step = norm_up(correction)
    left = gradient + objective.product(w, correction)
    found = (
        norm_up(left)
        + 4.0 * rounding.UNIT * (norm_up(gradient) + norm_up(left))
        + error
        + objective.product_error(norm) * step
        + objective.curvature_change(step)
    )
    return correction, found
