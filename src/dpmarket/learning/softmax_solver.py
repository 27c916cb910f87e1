r"""Turn weighted records of K classes and noise into the minimiser, with a proof that the gradient is small.

.. math:: \min_W \; \sum_i a_i \left(\log \sum_k e^{w_k \cdot x_i} - w_{y_i} \cdot x_i\right)
          + \langle b, W \rangle + \frac{\Lambda}{2} |W|^2

Quasi-Newton steps (limited memory) with a preconditioner; first on evenly spaced rows, then on all. For few
coefficients that is their Hessian on these rows. The Hessian of many is never formed: with :math:`C_i` the
covariance of the classes at row i it is :math:`\Lambda I + \sum_i a_i C_i \otimes x_i x_i^T`. The
preconditioner replaces the sum by the one product :math:`G \otimes S / t` with the same partial traces,
:math:`G = \sum_i a_i |x_i|^2 C_i`,
:math:`S = \sum_i a_i \mathrm{tr}(C_i) x_i x_i^T`, :math:`t = \mathrm{tr} S`, which two small eigenvalue
problems solve (exactly the Hessian where all rows have the same probabilities, as at W = 0). The proof is
that of :mod:`dpmarket.learning.proving`, with the bounds of :mod:`dpmarket.learning.softmax_rounding`.

Whether a bound can be reached is decided from public quantities and the noise, before a record is read; after
that there is no way to give up that depends on the records: quasi-Newton steps of limited memory with a line
search reach the minimum of a smooth, strongly convex function from every start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh
from scipy.special import softmax

from dpmarket.arrays import FloatArray
from dpmarket.errors import NotConverged
from dpmarket.learning import rounding, softmax_kernels, softmax_rounding
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

_MAX_STEPS = 20_000
_TRUSTED_STEPS = 300
_MEMORY = 30
_SMALLEST_SAMPLE = 4096
_FEW_COEFFICIENTS = 512


def softmax_minimise(
    rows: Rows,
    classes: int,
    l2: float,
    linear_high: FloatArray,
    linear_low: FloatArray,
    *,
    row_bound: float,
    gradient_bound: float,
) -> Minimum:
    """Return a point whose gradient is provably at most ``gradient_bound``, as matrices of shape (K, n).

    Parameters
    ----------
    rows
        The records, their weights and the numbers of their classes. No row may be longer than ``row_bound``.
    classes
        K, at least 2.
    l2
        The ridge penalty Lambda, > 0; the constants' coefficients are penalised, too.
    linear_high, linear_low
        b, as the exact sum of two matrices of shape (K, n), the constants' coefficients last.
    row_bound
        R: no row, with its constant, has a larger norm.
    gradient_bound
        tau, > 0, in the Frobenius norm.

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
    Guaranteed, as by :func:`~dpmarket.learning.solver.minimise`: ``|W - W*| <= gradient_bound / l2`` for the
    exact minimiser, records of weight 0 have no influence, threads do not matter, and memory of the order of
    ``K * n + n**2`` numbers besides one block of rows.

    Examples
    --------
    >>> rows = Rows(np.eye(3), np.array([0.0, 1.0, 2.0]), np.full(3, 1 / 3), constant=False)
    >>> minimum = softmax_minimise(rows, 3, 0.1, *np.zeros((2, 3, 3)), row_bound=1.0, gradient_bound=1e-20)
    >>> minimum.high.round(4).tolist()[0], minimum.gradient_bound <= 1e-20
    ([1.0138, -0.5069, -0.5069], True)
    """
    taking_part = rows.active()
    norm = float(np.linalg.norm(linear_high)) * (1.0 + 1e-12)
    check_softmax_attainable(taking_part, classes, l2, norm, row_bound, gradient_bound)
    with threads(taking_part) as run:
        linear = (linear_high.ravel(), linear_low.ravel())
        objective = _Objective(taking_part, classes, l2, linear, row_bound, run=run)
        w, solve = _float64_minimum(objective, gradient_bound / 4.0)
        found = proved(objective, w, solve, gradient_bound)
    shape = linear_high.shape
    return Minimum(found.high.reshape(shape), found.low.reshape(shape), found.gradient_bound)


def check_softmax_attainable(
    rows: Rows, classes: int, l2: float, linear_norm: float, row_bound: float, gradient_bound: float
) -> None:
    """Refuse a gradient bound that pairs of floats may not reach, whatever the records say.

    Only the shape of the records, their weights and public constants are used; every minimiser has a norm of
    at most ``(sqrt(2) A R + |b|) / l2``.
    """
    total = rows.total_weight()
    size = rows.n_coefficients * classes
    condition = 1.0 + total * row_bound**2 / (2.0 * l2)
    check_condition(condition, size, total, row_bound, l2)
    norm = 2.0 * (1.5 * total * row_bound + linear_norm) / l2
    sums = 2.0**-96 * (total * row_bound + l2 * norm + linear_norm)
    error = sums + softmax_rounding.accurate_gradient_error(
        classes, rows.n_coefficients, len(rows), norm, row_bound, total
    )
    check_provable(error, gradient_bound)


class _Objective:
    """The objective's derivatives at vectors of K n coefficients, class after class."""

    def __init__(
        self,
        rows: Rows,
        classes: int,
        l2: float,
        linear: tuple[FloatArray, FloatArray],
        row_bound: float,
        *,
        run: Callable[..., list[Any]],
    ) -> None:
        self.rows = rows
        self.classes = classes
        self.l2 = l2
        self.row_bound = row_bound
        self.total = rows.total_weight()
        self.linear = linear
        self.linear_norm = float(np.linalg.norm(linear[0]))
        self.run = run
        self.sums = RowSums(rows, run)

    def on_sample(self, count: int) -> _Objective:
        sample = self.rows.sample(count)
        return _Objective(sample, self.classes, self.l2, self.linear, self.row_bound, run=self.run)

    def gradient(self, w: FloatArray) -> FloatArray:
        return with_penalty(self._pairs(softmax_kernels.gradient, w), self.linear, self.l2, w)

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient rounded from pairs: a relative error of 2**-52 on top of the stated bound."""
        loss = self._pairs(softmax_kernels.accurate_gradient, w, rest)
        loss = add_pairs(loss, np.stack([self.l2 * rest, np.zeros_like(w)]))
        return with_penalty(loss, self.linear, self.l2, w)

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(self._pairs(softmax_kernels.hessian_product, w, v).sum(axis=0) + self.l2 * v)

    def gradient_error(self, norm: float) -> float:
        loss = softmax_rounding.gradient_error(*self._sizes(), norm, self.row_bound, self.total)
        return loss + 2.0**-96 * (self.l2 * norm + self.linear_norm)

    def float64_limit(self, norm: float) -> float:
        """Return a gradient norm below which float64 points and gradients need not get."""
        steepest = self.l2 + self.total * self.row_bound**2 / 2.0
        return self.gradient_error(norm) + 8.0 * rounding.UNIT * steepest * norm

    def accurate_gradient_error(self, norm: float) -> float:
        loss = softmax_rounding.accurate_gradient_error(*self._sizes(), norm, self.row_bound, self.total)
        return loss + 2.0**-96 * (self.total * self.row_bound + self.l2 * norm + self.linear_norm)

    def product_error(self, norm: float) -> float:
        loss = softmax_rounding.product_error(*self._sizes(), norm, self.row_bound, self.total)
        return loss + 8.0 * rounding.UNIT * self.l2

    def curvature_change(self, step: float) -> float:
        return softmax_rounding.curvature_change(step, self.row_bound, self.total)

    def _sizes(self) -> tuple[int, int, int]:
        return self.classes, self.rows.n_coefficients, len(self.rows)

    def _pairs(self, kernel: Callable[..., FloatArray], *vectors: FloatArray) -> FloatArray:
        points = [vector.reshape(self.classes, -1) for vector in vectors]
        return self.sums.pairs(kernel, *points).reshape(2, -1)


def _float64_minimum(objective: _Objective, target: float) -> tuple[FloatArray, Solve]:
    """Return a point near the minimum, as near as float64 allows or needed, and a preconditioner there."""
    n, rows = objective.rows.n_coefficients, len(objective.rows)
    start = np.zeros(n * objective.classes)
    count = 2 * _SMALLEST_SAMPLE if start.size <= _FEW_COEFFICIENTS else max(_SMALLEST_SAMPLE, 10 * n)
    sample = objective if rows < 4 * count else objective.on_sample(count)
    size = float(np.linalg.norm(objective.gradient(start)))
    w = _quasi_newton(sample, start, _preconditioner(sample, start), max(target, 0.02 * size))
    solve = _preconditioner(sample, w)
    if sample is not objective:
        rough = 0.1 * objective.total * objective.row_bound / np.sqrt(count)
        w = _quasi_newton(sample, w, solve, max(target, rough))
        solve = _preconditioner(sample, w)
    return _quasi_newton(objective, w, solve, target), solve


def _preconditioner(objective: _Objective, w: FloatArray) -> Solve:
    """Return a function that solves with what stands in for the Hessian at ``w``."""
    if w.size <= _FEW_COEFFICIENTS:
        return _with_whole_hessian(objective, w)
    return _with_product(objective, w)


def _with_whole_hessian(objective: _Objective, w: FloatArray) -> Solve:
    classes = objective.classes
    n = w.size // classes
    hessian = np.zeros((classes, n, classes, n))
    for x, weights, p in _pieces(objective, w):
        for k in range(classes):
            for m in range(k + 1):
                factors = weights * p[:, k] * (float(k == m) - p[:, m])
                hessian[k, :, m, :] += (x * factors[:, None]).T @ x
    square = hessian.reshape(w.size, w.size)
    square[np.diag_indices(w.size)] += objective.l2
    factor = cholesky(square, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: np.asarray(cho_solve((factor, True), right, check_finite=False))


def _with_product(objective: _Objective, w: FloatArray) -> Solve:
    classes = objective.classes
    n = w.size // classes
    between, among, trace = np.zeros((classes, classes)), np.zeros((n, n)), 0.0
    for x, weights, p in _pieces(objective, w):
        squares = np.einsum("ij,ij->i", x, x)
        lengths = weights * squares
        spread = weights * (1.0 - np.einsum("ik,ik->i", p, p))
        between += np.diag(lengths @ p) - (p * lengths[:, None]).T @ p
        among += (x * spread[:, None]).T @ x
        trace += float(spread @ squares)
    g, left = eigh(between)
    s, right = eigh(among)
    scale = 1.0 / trace if trace > 0.0 else 0.0
    values = np.maximum(g, 0.0)[:, None] * np.maximum(s, 0.0) * scale + objective.l2

    def solve(vector: FloatArray) -> FloatArray:
        turned = left.T @ vector.reshape(classes, n) @ right
        return np.asarray(left @ (turned / values) @ right.T).ravel()

    return solve


def _pieces(objective: _Objective, w: FloatArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield rows with their constant, their weights and the probabilities of their classes."""
    point = w.reshape(objective.classes, -1)
    for block in objective.rows.blocks():
        for first in range(0, len(block.x), _SMALLEST_SAMPLE):
            chosen = slice(first, first + _SMALLEST_SAMPLE)
            x = block.x[chosen]
            x = x * block.scales[chosen, None] if block.scales.size else x
            x = np.column_stack([x, np.ones(len(x))]) if objective.rows.constant else x
            yield x, block.weights[chosen], softmax(x @ point.T, axis=1)


def _quasi_newton(objective: _Objective, w: FloatArray, solve: Solve, target: float) -> FloatArray:
    gradient = objective.gradient(w)
    size = float(np.linalg.norm(gradient))
    pairs: list[tuple[FloatArray, FloatArray]] = []
    for step in range(_MAX_STEPS):
        if size <= target or size <= objective.float64_limit(float(np.linalg.norm(w))):
            return w
        direction = -bfgs_direction(pairs, solve, gradient)
        if not float(direction @ gradient) < 0.0:
            pairs, direction = [], -solve(gradient)  # only rounding can do this
        following = w + direction
        new_gradient = objective.gradient(following)
        if float(np.linalg.norm(new_gradient)) > 0.9 * size or step > _TRUSTED_STEPS:
            following, new_gradient = search_line(objective, w, gradient, direction, new_gradient)
        pairs = [*pairs, (following - w, new_gradient - gradient)][-_MEMORY:]
        w, gradient = following, new_gradient
        size = float(np.linalg.norm(gradient))
    raise NotConverged("the quasi-Newton steps did not reach the gradient bound.")
