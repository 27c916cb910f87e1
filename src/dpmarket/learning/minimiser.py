r"""The minimiser of a regularised sum of losses, with a proof that the gradient there is small.

.. math:: \min_W \; \sum_i a_i \ell(W x_i, y_i) + \langle b, W \rangle + \frac{\Lambda}{2} |W|^2

for every :class:`~dpmarket.privacy.loss.Loss`, over any :class:`~dpmarket.learning.sums.Sums`. Quasi-Newton
steps (BFGS of limited memory) with a preconditioner, first over evenly spaced records, then over all. For few
coefficients the preconditioner is the Hessian; for many the one Kronecker product with the same partial
traces G (over coefficients) and S (over outputs), :math:`\Lambda I + G \otimes S / t`. The proof is that of
:mod:`dpmarket.learning.proving`; what the linear expansion of a gradient misses over a step d is at most
:math:`\frac{1}{2}\, third\, A R^3 |d|^2`.

Whether a bound can be reached is decided from public quantities and the noise, before a record is read; after
that there is no way to give up that depends on the records: quasi-Newton steps with a line search reach the
minimum of a smooth, strongly convex function from every start.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh

from dpmarket.arrays import FloatArray
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.learning import rounding
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
from dpmarket.learning.row_sums import threads
from dpmarket.learning.rows import Rows
from dpmarket.learning.sums import Errors, LocalSums, Sums
from dpmarket.privacy.loss import Loss, logistic_loss

_MAX_STEPS = 20_000
_MEMORY = 30
_REFRESH = 40
_MANY_COEFFICIENTS = 512
_SAMPLE = 8192


def minimise(
    rows: Rows,
    l2: float,
    linear_high: FloatArray,
    linear_low: FloatArray,
    row_bound: float,
    gradient_bound: float,
    *,
    loss: Loss | None = None,
    constant: float = 1.0,
) -> Minimum:
    """Return a point whose gradient is provably at most ``gradient_bound``, for records in memory.

    Parameters
    ----------
    rows
        The records, their weights and labels. No row may be longer than ``row_bound``.
    l2
        The ridge penalty Lambda, > 0; the constant's coefficient is penalised, too.
    linear_high, linear_low
        b, as the exact sum of two vectors, or matrices with a row per output, the constant's coefficient
        last. Zeros: the fit without noise.
    row_bound
        R: no row, with its constant, has a larger Euclidean norm.
    gradient_bound
        tau, > 0, in the Euclidean norm over all coefficients.
    loss
        The loss; None means the logistic one.
    constant
        The number in the constant column, if rows have one: a power of two.

    Returns
    -------
    Minimum
        With the bound that was proved, at most ``gradient_bound``; of the shape of ``linear_high``.

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
    >>> rows = Rows(np.array([[1.0], [-0.5]]), np.array([1.0, 0.0]), np.array([0.5, 0.5]), constant=False)
    >>> minimum = minimise(rows, 0.5, np.zeros(1), np.zeros(1), row_bound=1.0, gradient_bound=1e-20)
    >>> minimum.high.round(6).tolist(), minimum.gradient_bound <= 1e-20
    ([0.574529], True)
    """
    used = logistic_loss() if loss is None else loss
    shape = (used.outputs, rows.n_coefficients)
    with threads(rows) as run:
        sums = LocalSums(rows.active(), used, constant if rows.constant else None, row_bound, run)
        high, low = linear_high.reshape(shape), linear_low.reshape(shape)
        found = minimise_sum(sums, l2, high, low, gradient_bound)
    shape = linear_high.shape
    return Minimum(found.high.reshape(shape), found.low.reshape(shape), found.gradient_bound)


def minimise_sum(
    sums: Sums, l2: float, linear_high: FloatArray, linear_low: FloatArray, gradient_bound: float
) -> Minimum:
    """Return a point whose gradient is provably at most ``gradient_bound``, as matrices (outputs, n).

    Parameters
    ----------
    sums
        The records.
    l2
        The ridge penalty Lambda, > 0; constants' coefficients are penalised, too.
    linear_high, linear_low
        b, as the exact sum of two matrices of shape (outputs, n). Zeros: the fit without noise.
    gradient_bound
        tau, > 0, in the Euclidean norm over all coefficients.

    Raises
    ------
    Infeasible
        If this bound cannot be reached at this penalty with pairs of floats. Decided before a record is read.
    NotConverged
        If the bound was not reached although it can be.

    Notes
    -----
    Guaranteed: ``|W - W*| <= gradient_bound / l2`` for the exact minimiser W*.
    """
    norm = float(np.linalg.norm(linear_high)) * (1.0 + 1e-12)
    errors = Errors(sums.loss, sums.count, sums.n_coefficients, sums.total, sums.row_bound)
    check_attainable(errors, l2, norm, gradient_bound)
    objective = _Objective(sums, l2, (linear_high, linear_low))
    w, solve = _float64_minimum(objective, gradient_bound / 4.0)
    found = proved(objective, w, solve, gradient_bound)
    shape = linear_high.shape
    return Minimum(found.high.reshape(shape), found.low.reshape(shape), found.gradient_bound)


def check_attainable(
    errors: Errors, l2: float, linear_norm: float, gradient_bound: float, largest: float = np.inf
) -> None:
    """Refuse a gradient bound that pairs of floats may not reach, whatever the records say.

    Only public sizes are used; every minimiser has a norm of at most ``(reach A R + |b|) / l2``, which must
    lie below ``largest``.
    """
    loss, total, bound = errors.loss, errors.total, errors.row_bound
    size = loss.outputs * errors.n_coefficients
    check_condition(1.0 + loss.curvature * total * bound**2 / l2, size, total, bound, l2)
    norm = 2.0 * (1.1 * loss.reach_2 * total * bound + linear_norm) / l2
    if not norm / 2.0 < largest:
        raise Infeasible("expected coefficients that fit the grid in 52 bits; a larger l2 is needed.")
    sums = 2.0**-96 * (loss.reach_2 * total * bound + l2 * norm + linear_norm)
    check_provable(sums + errors.accurate_gradient_error(norm), gradient_bound)


class _Objective:
    """The objective's derivatives at vectors of all coefficients, output after output."""

    def __init__(self, sums: Sums, l2: float, linear: tuple[FloatArray, FloatArray]) -> None:
        self.sums = sums
        self.l2 = l2
        self.shape = linear[0].shape
        self.linear = (linear[0].ravel(), linear[1].ravel())
        self.linear_norm = float(np.linalg.norm(linear[0]))

    def over(self, sums: Sums) -> _Objective:
        high, low = (part.reshape(self.shape) for part in self.linear)
        return _Objective(sums, self.l2, (high, low))

    def gradient(self, w: FloatArray) -> FloatArray:
        loss = self.sums.gradient(w.reshape(self.shape)).reshape(2, -1)
        return with_penalty(loss, self.linear, self.l2, w)

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient rounded from pairs: a relative error of 2**-52 on top of the stated bound."""
        loss = self.sums.accurate_gradient(w.reshape(self.shape), rest.reshape(self.shape)).reshape(2, -1)
        loss = add_pairs(loss, np.stack([self.l2 * rest, np.zeros_like(w)]))
        return with_penalty(loss, self.linear, self.l2, w)

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        found = self.sums.product(w.reshape(self.shape), v.reshape(self.shape)).ravel()
        return np.asarray(found + self.l2 * v)

    def gradient_error(self, norm: float) -> float:
        return self.sums.gradient_error(norm) + 2.0**-96 * (self.l2 * norm + self.linear_norm)

    def float64_limit(self, norm: float) -> float:
        """Return a gradient norm below which float64 points and gradients need not get."""
        steepest = self.l2 + self.sums.loss.curvature * self.sums.total * self.sums.row_bound**2
        return self.gradient_error(norm) + 8.0 * rounding.UNIT * steepest * norm

    def accurate_gradient_error(self, norm: float) -> float:
        size = self.sums.loss.reach_2 * self.sums.total * self.sums.row_bound
        return self.sums.accurate_gradient_error(norm) + 2.0**-96 * (size + self.l2 * norm + self.linear_norm)

    def product_error(self, norm: float) -> float:
        return self.sums.product_error(norm) + 8.0 * rounding.UNIT * self.l2

    def curvature_change(self, step: float) -> float:
        loss = self.sums.loss
        change = 0.5 * loss.third * self.sums.total * self.sums.row_bound**3 * step**2
        return change * (1.0 + 1e-12)

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
    """Return a point near the minimum, as near as float64 allows or needed, and a preconditioner there."""
    sums = objective.sums
    w = np.zeros(objective.linear[0].size)
    count = max(_SAMPLE, min(100, 10 * sums.loss.outputs) * sums.n_coefficients)
    few = objective if sums.count < 4 * count else objective.over(sums.sample(count))
    size = float(np.linalg.norm(few.gradient(w)))
    rough = 0.01 * sums.loss.reach_2 * sums.total * sums.row_bound / np.sqrt(count)
    goals = (0.02 * size, target) if few is objective else (0.02 * size, rough)
    for goal in goals:
        w, solve = _quasi_newton(few, w, few.preconditioner(w), max(target, goal))
    if few is objective:
        return w, solve
    return _quasi_newton(objective, w, few.preconditioner(w), target)


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
        direction = -bfgs_direction(pairs, solve, gradient)
        if not float(direction @ gradient) < 0.0:
            pairs, direction = [], -solve(gradient)  # only rounding can do this
        following = w + direction
        new_gradient = objective.gradient(following)
        new_size = float(np.linalg.norm(new_gradient))
        if new_size > 0.5 * size and size <= objective.float64_limit(float(np.linalg.norm(w))):
            return w, solve  # float64 can tell no more
        if new_size > 0.9 * size or step > 10 * _REFRESH:
            following, new_gradient = search_line(objective, w, gradient, direction, new_gradient)
        pairs = [*pairs, (following - w, new_gradient - gradient)][-_MEMORY:]
        w, gradient = following, new_gradient
        size = float(np.linalg.norm(gradient))
    raise NotConverged("the quasi-Newton steps did not reach the gradient bound.")
