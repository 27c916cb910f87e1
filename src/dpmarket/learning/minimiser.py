r"""The minimiser of a regularised sum of losses, with a proof that the gradient there is small.

.. math:: \min_W \; \sum_i a_i \ell(W x_i, y_i) + \langle b, W \rangle + \frac{\Lambda}{2} |W|^2

for every :class:`~dpmarket.privacy.loss.Loss`, over any :class:`~dpmarket.learning.sums.Sums`. Quasi-Newton
steps (BFGS of limited memory) with a preconditioner, first over evenly spaced records, then over all. For few
coefficients the preconditioner is the Hessian; for many the one Kronecker product with the same partial
traces G (over coefficients) and S (over outputs), :math:`\Lambda I + G \otimes S / t`.

*The proof.* If float64 cannot prove the bound, the gradient is evaluated in pairs of floats, with a bound on
its rounding, at points that are pairs; from one to the next leads a Newton step by conjugate gradients.

Whether a bound can be reached is decided from public quantities and the noise, before a record is read; after
that there is no way to give up that depends on the records: quasi-Newton steps with a line search reach the
minimum of a smooth, strongly convex function from every start.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh
from scipy.sparse.linalg import LinearOperator, cg
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.learning.rounding import UNIT, add_pairs, norm_up, product_rest
from dpmarket.learning.sums import Errors, Sums
from dpmarket.numerics import two_sum

Solve = Callable[[FloatArray], FloatArray]
"""Solves approximately, symmetrically and positively, with the Hessian: a preconditioner."""

_MAX_STEPS = 20_000
_MAX_CORRECTIONS = 2000
_MAX_HALVINGS = 200
_MEMORY = 30
_REFRESH = 40
_MANY_COEFFICIENTS = 512
_SAMPLE = 16384
_LARGEST_CONDITION = 1e12


class Minimum(NamedTuple):
    """A point ``high + low`` (the exact sum, shape (outputs, n)) and a proved bound on the gradient there."""

    high: FloatArray
    low: FloatArray
    gradient_bound: float


def minimise(
    sums: Sums, l2: float, linear_high: FloatArray, linear_low: FloatArray, gradient_bound: float
) -> Minimum:
    """Return a point W whose gradient is provably at most ``gradient_bound``, with all rounding counted.

    Then ``|W - W*| <= gradient_bound / l2`` for the exact minimiser W*. ``linear_high + linear_low`` is b, of
    shape (outputs, n). Infeasible if pairs of floats may not reach this bound: decided before a record is
    read.
    """
    norm = float(np.linalg.norm(linear_high)) * (1.0 + 1e-12)
    check_attainable(sums.errors, l2, norm, gradient_bound)
    objective = _Objective(sums, l2, np.stack([linear_high, linear_low]))
    # Sums over blocks are run in threads of their own.
    with _linear_algebra().limit(limits=1, user_api="blas"):
        w, solve = _float64_minimum(objective, 0.6 * gradient_bound)
        found = _proved(objective, w, solve, gradient_bound)
    shape = linear_high.shape
    return Minimum(found.high.reshape(shape), found.low.reshape(shape), found.gradient_bound)


def check_attainable(
    errors: Errors, l2: float, linear_norm: float, gradient_bound: float, largest: float = np.inf
) -> None:
    """Refuse, by public sizes alone, a gradient bound or coefficients that pairs of floats may not reach."""
    loss, total, bound = errors.loss, errors.total, errors.row_bound
    size = loss.outputs * errors.n_coefficients
    if not (1.0 + loss.curvature * total * bound**2 / l2) * size <= _LARGEST_CONDITION:
        raise Infeasible(
            f"expected l2 > {size * total * bound**2 / _LARGEST_CONDITION:.1e} for a solution in float64, "
            f"got {l2!r}."
        )
    norm = 2.0 * (1.1 * loss.reach_2 * total * bound + linear_norm) / l2
    if not norm / 2.0 < largest:
        raise Infeasible("expected coefficients that fit the grid in 52 bits; a larger l2 is needed.")
    sums = 2.0**-96 * (loss.reach_2 * total * bound + l2 * norm + linear_norm)
    if not sums + errors.accurate_gradient(norm) <= gradient_bound / 4.0:
        raise Infeasible(
            "expected a gradient bound that pairs of floats can prove; a larger numerical_epsilon or l2 is "
            "needed."
        )


@functools.cache
def _linear_algebra() -> Any:
    """Return what limits the threads of linear algebra; looking for its libraries takes milliseconds."""
    return ThreadpoolController()


@dataclass(frozen=True, eq=False)
class _Objective:
    """The objective's derivatives at vectors of all coefficients, output after output."""

    sums: Sums
    l2: float
    linear: FloatArray  # b as pairs, shape (2, outputs, n)

    @property
    def shape(self) -> tuple[int, ...]:
        """Outputs and coefficients of each."""
        return self.linear.shape[1:]

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the gradient, added up in pairs and rounded once."""
        loss = self.sums.gradient(w.reshape(self.shape)).reshape(2, -1)
        return self._with_penalty(loss, w)

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient rounded from pairs: a relative error of 2**-52 on top of the stated bound."""
        loss = self.sums.accurate_gradient(w.reshape(self.shape), rest.reshape(self.shape)).reshape(2, -1)
        loss = add_pairs(loss, np.stack([self.l2 * rest, np.zeros_like(w)]))
        return self._with_penalty(loss, w)

    def _with_penalty(self, loss: FloatArray, w: FloatArray) -> FloatArray:
        """Return the loss's gradient, in pairs, plus the linear term and ``l2 * w``, rounded once."""
        product = self.l2 * w
        total = add_pairs(loss, self.linear.reshape(2, -1))
        total = add_pairs(total, np.stack([product, product_rest(self.l2, w, product)]))
        return np.asarray(total.sum(axis=0))

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        found = self.sums.product(w.reshape(self.shape), v.reshape(self.shape)).ravel()
        return np.asarray(found + self.l2 * v)

    def _sizes(self, norm: float) -> float:
        return self.l2 * norm + float(np.linalg.norm(self.linear[0]))

    def gradient_error(self, norm: float) -> float:
        return self.sums.errors.gradient(norm) + 2.0**-96 * self._sizes(norm)

    def float64_limit(self, norm: float) -> float:
        """Return a gradient norm below which float64 points and gradients need not get."""
        steepest = (
            self.l2 + self.sums.errors.loss.curvature * self.sums.errors.total * self.sums.errors.row_bound**2
        )
        return self.gradient_error(norm) + 8.0 * UNIT * steepest * norm

    def accurate_gradient_error(self, norm: float) -> float:
        own = self.sums.errors
        size = own.loss.reach_2 * own.total * own.row_bound
        return own.accurate_gradient(norm) + 2.0**-96 * (size + self._sizes(norm))

    def preconditioner(self, w: FloatArray) -> Solve:
        """Return a function that solves with what stands in for the Hessian at ``w``."""
        outputs, n = self.shape
        point = w.reshape(self.shape)
        if w.size <= _MANY_COEFFICIENTS or outputs == 1:
            square = self.sums.hessian(point)
            square[np.diag_indices(w.size)] += self.l2
            factor = cholesky(square, lower=True, overwrite_a=True, check_finite=False)
            return lambda right: np.asarray(cho_solve((factor, True), right, check_finite=False))
        between, among = self.sums.partial_traces(point)
        trace = float(np.trace(among))
        g, left = eigh(between)
        s, right = eigh(among)
        scale = 1.0 / trace if trace > 0.0 else 0.0
        values = np.maximum(g, 0.0)[:, None] * np.maximum(s, 0.0) * scale + self.l2

        def solve(vector: FloatArray) -> FloatArray:
            turned = left.T @ vector.reshape(outputs, n) @ right
            return np.asarray(left @ (turned / values) @ right.T).ravel()

        return solve


def _float64_minimum(objective: _Objective, target: float) -> tuple[FloatArray, Solve]:
    """Return a point as near the minimum as float64 allows, by a sample first, and a preconditioner there."""
    own, w = objective.sums.errors, np.zeros(objective.linear[0].size)
    count = max(_SAMPLE, 100 * own.n_coefficients)
    if 4 * count > own.count:
        return _quasi_newton(objective, *_descended(objective, w, target), target)
    sample = replace(objective, sums=objective.sums.sample(count))
    rough = 0.01 * own.loss.reach_2 * own.total * own.row_bound / np.sqrt(count)
    w, _ = _quasi_newton(sample, *_descended(sample, w, target), max(target, rough))
    return _quasi_newton(objective, w, sample.preconditioner(w), target)


def _descended(objective: _Objective, w: FloatArray, target: float) -> tuple[FloatArray, Solve]:
    """Return a point with a fiftieth of the gradient at ``w``, and a preconditioner there."""
    goal = max(target, 0.02 * float(np.linalg.norm(objective.gradient(w))))
    w, _ = _quasi_newton(objective, w, objective.preconditioner(w), goal)
    return w, objective.preconditioner(w)


def _quasi_newton(
    objective: _Objective, w: FloatArray, solve: Solve, target: float
) -> tuple[FloatArray, Solve]:
    """Take quasi-Newton steps until the gradient is at most ``target``, or float64 can tell no more."""
    gradient = objective.gradient(w)
    size = float(np.linalg.norm(gradient))
    pairs: list[tuple[FloatArray, FloatArray]] = []
    for step in range(1, _MAX_STEPS):
        if size <= target:
            return w, solve
        if step % _REFRESH == 0:
            pairs, solve = [], objective.preconditioner(w)
        direction = -_bfgs_direction(pairs, solve, gradient)
        if not float(direction @ gradient) < 0.0:
            pairs, direction = [], -solve(gradient)  # only rounding can do this
        following = w + direction
        new_gradient = objective.gradient(following)
        new_size = float(np.linalg.norm(new_gradient))
        if new_size > 0.5 * size and size <= objective.float64_limit(float(np.linalg.norm(w))):
            return w, solve  # float64 can tell no more
        if new_size > 0.9 * size or step > 10 * _REFRESH:
            following, new_gradient = _search_line(objective, w, gradient, direction, new_gradient)
        pairs = [*pairs, (following - w, new_gradient - gradient)][-_MEMORY:]
        w, gradient = following, new_gradient
        size = float(np.linalg.norm(gradient))
    raise NotConverged("the quasi-Newton steps did not reach the gradient bound.")


def _search_line(
    objective: _Objective, w: FloatArray, gradient: FloatArray, direction: FloatArray,
    end_gradient: FloatArray,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Return a point on the ray with a downward slope of at most half of what it was (Zoutendijk)."""
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


def _bfgs_direction(
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


def _proved(objective: _Objective, w: FloatArray, solve: Solve, bound: float) -> Minimum:
    """Return a point near w with a proof that the gradient there is at most ``bound``."""
    error = objective.gradient_error(float(np.linalg.norm(w)) * (1.0 + 1e-12))
    if error < bound:
        found = norm_up(objective.gradient(w)) + error
        if found <= bound:
            return Minimum(read_only(w), read_only(np.zeros_like(w)), found)
    rest = np.zeros_like(w)
    for _ in range(_MAX_CORRECTIONS):
        gradient = objective.accurate_gradient(w, rest)
        error = objective.accurate_gradient_error(float(np.linalg.norm(w)) * (1.0 + 1e-12))
        found = norm_up(gradient) + error
        if found <= bound:
            return Minimum(read_only(w), read_only(rest), found)
        w, rest = two_sum(w, rest + _correction(objective, w, solve, gradient, bound))
    raise NotConverged("the corrections did not reach the gradient bound.")


def _correction(
    objective: _Objective, w: FloatArray, solve: Solve, gradient: FloatArray, bound: float
) -> FloatArray:
    """Solve ``H d = -g`` by preconditioned conjugate gradients, as well as float64 can."""
    size = w.size
    hessian = LinearOperator((size, size), lambda v: objective.product(w, v), dtype=np.float64)
    inverse = LinearOperator((size, size), solve, dtype=np.float64)
    found, _ = cg(hessian, -gradient, rtol=0.0, atol=bound / 4.0, maxiter=4 * size + 16, M=inverse)
    return np.asarray(found)
