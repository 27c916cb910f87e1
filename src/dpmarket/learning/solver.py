r"""Turn weighted records and noise into the minimiser, with a proof that the gradient there is small.

.. math:: \min_w \; \sum_i a_i \log(1 + e^{-y_i w \cdot x_i}) + b' \cdot w + \frac{\Lambda}{2} |w|^2

Newton's method on evenly spaced rows finds a start and a Hessian; quasi-Newton steps over all rows, with that
Hessian as a preconditioner, do the rest in float64. The bound on the gradient adds every rounding error
(:mod:`dpmarket.learning.rounding`). If float64 cannot prove the bound, a correction d at the point w with
gradient g in pairs of floats is solved for, and

.. math:: |\nabla(w + d)| \le |g + H d| + \text{rounding} + \frac{A R^3 |d|^2}{12 \sqrt 3}

is proved (:mod:`dpmarket.learning.proving`). Whether a bound can be reached is decided from public quantities
and the noise, before a record is read; after that there is no way to give up that depends on the records:
Newton's method with a line search reaches the minimum of a smooth, strongly convex function from every start.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky

from dpmarket.arrays import FloatArray
from dpmarket.errors import NotConverged
from dpmarket.learning import kernels, rounding
from dpmarket.learning.pairs import add_pairs
from dpmarket.learning.proving import (
    Minimum,
    Solve,
    bfgs_direction,
    check_condition,
    check_provable,
    proved,
    search_line,
    with_penalty,
)
from dpmarket.learning.row_sums import RowSums, threads
from dpmarket.learning.rows import Rows

_MAX_STEPS = 2000
_TRUSTED_STEPS = 40


def minimise(
    rows: Rows,
    l2: float,
    linear_high: FloatArray,
    linear_low: FloatArray,
    row_bound: float,
    gradient_bound: float,
) -> Minimum:
    """Return a point whose gradient is provably at most ``gradient_bound``.

    Parameters
    ----------
    rows
        The records, their weights and labels. No row may be longer than ``row_bound``.
    l2
        The ridge penalty Lambda, > 0; the constant's coefficient is penalised, too.
    linear_high, linear_low
        b', as the exact sum of two vectors, the constant's coefficient last. Zeros: the fit without noise.
    row_bound
        R: no row, with its constant, has a larger norm.
    gradient_bound
        tau, > 0.

    Returns
    -------
    Minimum
        With the bound that was proved, at most ``gradient_bound``.

    Raises
    ------
    Infeasible
        If this bound cannot be reached at this penalty with pairs of floats. Decided before a record is read.
    NotConverged
        If the bound was not reached although it can be.

    Notes
    -----
    Guaranteed:

    * ``|w - w*| <= gradient_bound / l2`` for the exact minimiser w*.
    * Records of weight 0 have no influence, not even on rounding.
    * The result does not depend on the number of threads.
    * Apart from small vectors per record, no more memory than one block of rows.

    Examples
    --------
    >>> rows = Rows(np.array([[1.0], [-0.5]]), np.array([1.0, -1.0]), np.array([0.5, 0.5]), constant=False)
    >>> minimum = minimise(rows, 0.5, np.zeros(1), np.zeros(1), row_bound=1.0, gradient_bound=1e-20)
    >>> minimum.high.round(6).tolist(), minimum.gradient_bound <= 1e-20
    ([0.574529], True)
    """
    taking_part = rows.active()
    check_attainable(
        taking_part, l2, float(np.linalg.norm(linear_high)) * (1.0 + 1e-12), row_bound, gradient_bound
    )
    with threads(taking_part) as run:
        objective = _Objective(taking_part, l2, (linear_high, linear_low), row_bound, run)
        w, factor = _float64_minimum(objective, gradient_bound / 4.0)
        return proved(objective, w, _solver_of(factor), gradient_bound)


def check_attainable(
    rows: Rows, l2: float, linear_norm: float, row_bound: float, gradient_bound: float
) -> None:
    """Refuse a gradient bound that pairs of floats may not reach, whatever the records say.

    Only the shape of the records, their weights and public constants are used; every minimiser has a norm of
    at most ``(A R + |b'|) / l2``.
    """
    total = rows.total_weight()
    condition = 1.0 + total * row_bound**2 / (4.0 * l2)
    check_condition(condition, rows.n_coefficients, total, row_bound, l2)
    norm = 2.0 * (total * row_bound + linear_norm) / l2
    error = _accurate_error(rows, norm, row_bound, l2, linear_norm, total)
    check_provable(error, gradient_bound)


def _accurate_error(
    rows: Rows, norm: float, row_bound: float, l2: float, linear_norm: float, total: float
) -> float:
    sums = 2.0**-96 * (total * row_bound + l2 * norm + linear_norm)
    return sums + rounding.accurate_gradient_error(rows.n_coefficients, len(rows), norm, row_bound, total)


class _Objective:
    """The objective's derivatives, each a sum over all rows in an order that does not depend on threads."""

    def __init__(
        self,
        rows: Rows,
        l2: float,
        linear: tuple[FloatArray, FloatArray],
        row_bound: float,
        run: Callable[..., list[Any]],
    ) -> None:
        self.rows = rows
        self.l2 = l2
        self.row_bound = row_bound
        self.total = rows.total_weight()
        self.linear = linear
        self.linear_norm = float(np.linalg.norm(linear[0]))
        self.sums = RowSums(rows, run)

    def on_sample(self, count: int) -> _Objective:
        sample = self.rows.sample(count)
        return _Objective(sample, self.l2, self.linear, self.row_bound, self.sums.run)

    def gradient(self, w: FloatArray) -> FloatArray:
        return with_penalty(self.sums.pairs(kernels.gradient, w), self.linear, self.l2, w)

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient rounded from pairs: a relative error of 2**-52 on top of the stated bound."""
        loss = self.sums.pairs(kernels.accurate_gradient, w, rest)
        loss = add_pairs(loss, np.stack([self.l2 * rest, np.zeros_like(w)]))
        return with_penalty(loss, self.linear, self.l2, w)

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(self.sums.pairs(kernels.hessian_product, w, v).sum(axis=0) + self.l2 * v)

    def factor(self, w: FloatArray) -> FloatArray:
        """Return the Cholesky factor of the Hessian."""
        total = np.zeros((w.size, w.size))
        for block in self.rows.blocks():
            for part in self.sums.over_parts(kernels.hessian, block, w):
                total += part
        total[np.diag_indices(w.size)] += self.l2
        return np.asarray(cholesky(total, lower=True, overwrite_a=True, check_finite=False))

    def gradient_error(self, norm: float) -> float:
        n, rows = self.rows.n_coefficients, len(self.rows)
        loss = rounding.gradient_error(n, rows, norm, self.row_bound, self.total)
        return loss + 2.0**-96 * (self.l2 * norm + self.linear_norm)

    def float64_limit(self, norm: float) -> float:
        """Return a gradient norm below which float64 points and gradients need not get."""
        steepest = self.l2 + self.total * self.row_bound**2 / 4.0
        return self.gradient_error(norm) + 8.0 * rounding.UNIT * steepest * norm

    def accurate_gradient_error(self, norm: float) -> float:
        return _accurate_error(self.rows, norm, self.row_bound, self.l2, self.linear_norm, self.total)

    def product_error(self, norm: float) -> float:
        n, rows = self.rows.n_coefficients, len(self.rows)
        return (
            rounding.product_error(n, rows, norm, self.row_bound, self.total) + 8.0 * rounding.UNIT * self.l2
        )

    def curvature_change(self, step: float) -> float:
        return rounding.curvature_change(step, self.row_bound, self.total)


def _solver_of(factor: FloatArray) -> Solve:
    return lambda right: np.asarray(cho_solve((factor, True), right, check_finite=False))


def _float64_minimum(objective: _Objective, target: float) -> tuple[FloatArray, FloatArray]:
    """Return a point near the minimum, as near as float64 allows or needed, and a factored Hessian."""
    n, rows = objective.rows.n_coefficients, len(objective.rows)
    start = np.zeros(n)
    count = max(8192, 100 * n)
    if rows < 4 * count:
        return _newton(objective, start, target)
    sample = objective.on_sample(count)
    w, factor = _newton(sample, start, 0.01 * objective.total * objective.row_bound / math.sqrt(count))
    return _quasi_newton(objective, w, factor, target)


def _newton(objective: _Objective, w: FloatArray, target: float) -> tuple[FloatArray, FloatArray]:
    gradient = objective.gradient(w)
    size = float(np.linalg.norm(gradient))
    for step in range(_MAX_STEPS):
        factor = objective.factor(w)
        if size <= target:
            return w, factor
        direction = -cho_solve((factor, True), gradient, check_finite=False)
        following = w + direction
        new_gradient = objective.gradient(following)
        new_size = float(np.linalg.norm(new_gradient))
        if new_size > 0.5 * size or step > _TRUSTED_STEPS:
            if size <= objective.float64_limit(float(np.linalg.norm(w))):
                return w, factor  # float64 cannot tell more
            following, new_gradient = search_line(objective, w, gradient, direction, new_gradient)
            new_size = float(np.linalg.norm(new_gradient))
        w, gradient, size = following, new_gradient, new_size
    raise NotConverged("Newton's method did not reach the gradient bound.")


def _quasi_newton(
    objective: _Objective, w: FloatArray, factor: FloatArray, target: float
) -> tuple[FloatArray, FloatArray]:
    """Take BFGS steps with ``factor`` as the first Hessian; turn to Newton's method if one does not help."""
    gradient = objective.gradient(w)
    size = float(np.linalg.norm(gradient))
    pairs: list[tuple[FloatArray, FloatArray]] = []
    while size > target:
        following = w - bfgs_direction(pairs, _solver_of(factor), gradient)
        new_gradient = objective.gradient(following)
        new_size = float(np.linalg.norm(new_gradient))
        if new_size > 0.5 * size:
            if size <= objective.float64_limit(float(np.linalg.norm(w))):
                return w, factor
            return _newton(objective, w, target)
        pairs.append((following - w, new_gradient - gradient))
        w, gradient, size = following, new_gradient, new_size
    return w, factor
