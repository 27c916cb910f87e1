r"""Turn weighted records and noise into the minimiser, with a proof that the gradient there is small.

.. math:: \min_w \; \sum_i a_i \log(1 + e^{-y_i w \cdot x_i}) + b' \cdot w + \frac{\Lambda}{2} |w|^2

Newton's method on evenly spaced rows finds a start and a Hessian; quasi-Newton steps over all rows, with that
Hessian as a preconditioner, do the rest in float64. The bound on the gradient adds every rounding error
(:mod:`dpmarket.learning.rounding`). If float64 cannot prove the bound, the gradient g is evaluated in pairs
of floats at the point w, a correction d is solved for, and

.. math:: |\nabla(w + d)| \le |g + H d| + \text{rounding} + \frac{A R^3 |d|^2}{12 \sqrt 3}

is proved without a second evaluation; where that is not enough, w + d is the next point, as a pair. Whether a
bound can be reached is decided from public quantities and the noise, before a record is read; after that
there is no way to give up that depends on the records: Newton's method with a line search reaches the minimum
of a smooth, strongly convex function from every start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky

from dpmarket.arrays import FloatArray, read_only, read_only_view
from dpmarket.errors import Infeasible, NotConverged
from dpmarket.learning import kernels, rounding
from dpmarket.learning.rows import Block, Rows

_PARTS = 16
_SMALLEST_PART = 2048
_MANY_ELEMENTS = 200_000
_MAX_STEPS = 2000
_TRUSTED_STEPS = 40
_MAX_HALVINGS = 200
_LARGEST_CONDITION = 1e12


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
    with _threads(taking_part) as run:
        objective = _Objective(taking_part, l2, linear_high, linear_low, row_bound, run)
        w, factor = _float64_minimum(objective, gradient_bound / 4.0)
        return _proved(objective, w, factor, gradient_bound)


def check_attainable(
    rows: Rows, l2: float, linear_norm: float, row_bound: float, gradient_bound: float
) -> None:
    """Refuse a gradient bound that pairs of floats may not reach, whatever the records say.

    Only the shape of the records, their weights and public constants are used; every minimiser has a norm of
    at most ``(A R + |b'|) / l2``.
    """
    total = rows.total_weight()
    condition = 1.0 + total * row_bound**2 / (4.0 * l2)
    if not condition * rows.n_coefficients <= _LARGEST_CONDITION:
        raise Infeasible(
            f"expected l2 > {rows.n_coefficients * total * row_bound**2 / _LARGEST_CONDITION:.1e} for a "
            f"solution in float64, got {l2!r}."
        )
    norm = 2.0 * (total * row_bound + linear_norm) / l2
    error = _accurate_error(rows, norm, row_bound, l2, linear_norm, total)
    if not error <= gradient_bound / 4.0:
        raise Infeasible(
            "expected a gradient bound that pairs of floats can prove; a larger numerical_epsilon or l2 is "
            "needed."
        )


def _accurate_error(
    rows: Rows, norm: float, row_bound: float, l2: float, linear_norm: float, total: float
) -> float:
    sums = 2.0**-96 * (total * row_bound + l2 * norm + linear_norm)
    return sums + rounding.accurate_gradient_error(rows.n_coefficients, len(rows), norm, row_bound, total)


@contextmanager
def _threads(rows: Rows) -> Iterator[Callable[..., list[Any]]]:
    """Give a function like ``map`` that runs in threads if there is work for them."""
    count = kernels.thread_count()
    if count == 1 or len(rows) * rows.n_coefficients < _MANY_ELEMENTS:
        yield lambda function, items: [function(item) for item in items]
        return
    with ThreadPoolExecutor(count) as pool:
        yield lambda function, items: list(pool.map(function, items))


class _Objective:
    """The objective's derivatives, each a sum over all rows in an order that does not depend on threads."""

    def __init__(
        self,
        rows: Rows,
        l2: float,
        linear_high: FloatArray,
        linear_low: FloatArray,
        row_bound: float,
        run: Callable[..., list[Any]],
    ) -> None:
        self.rows = rows
        self.l2 = l2
        self.row_bound = row_bound
        self.total = rows.total_weight()
        self.linear_high = linear_high
        self.linear_low = linear_low
        self.linear_norm = float(np.linalg.norm(linear_high))
        self.run = run

    def on_sample(self, count: int) -> _Objective:
        sample = self.rows.sample(count)
        return _Objective(sample, self.l2, self.linear_high, self.linear_low, self.row_bound, self.run)

    def gradient(self, w: FloatArray) -> FloatArray:
        return self._with_penalty(self._pairs(kernels.gradient, w), w)

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the gradient rounded from pairs: a relative error of 2**-52 on top of the stated bound."""
        loss = self._pairs(kernels.accurate_gradient, w, rest)
        return self._with_penalty(_add_pairs(loss, np.stack([self.l2 * rest, np.zeros_like(w)])), w)

    def product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(self._pairs(kernels.hessian_product, w, v).sum(axis=0) + self.l2 * v)

    def factor(self, w: FloatArray) -> FloatArray:
        """Return the Cholesky factor of the Hessian."""
        total = np.zeros((w.size, w.size))
        for block in self.rows.blocks():
            for part in self._over_parts(kernels.hessian, block, w):
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

    def _pairs(self, kernel: Callable[..., FloatArray], *vectors: FloatArray) -> FloatArray:
        total = np.zeros((2, vectors[0].size))
        for block in self.rows.blocks():
            for part in self._over_parts(kernel, block, *vectors):
                total = _add_pairs(total, part)
        return total

    def _over_parts(
        self, kernel: Callable[..., FloatArray], block: Block, *vectors: FloatArray
    ) -> list[FloatArray]:
        size = len(block.signs)
        height = max(_SMALLEST_PART, -(-size // _PARTS) // 64 * 64 + 64)

        points = [read_only_view(vector) for vector in vectors]

        def part(start: int) -> FloatArray:
            stop = min(start + height, size)
            return kernel(block.x, *points, block.signs, block.weights, block.scales, start, stop)

        return self.run(part, range(0, size, height))

    def _with_penalty(self, loss: FloatArray, w: FloatArray) -> FloatArray:
        product = self.l2 * w
        total = _add_pairs(loss, np.stack([self.linear_high, self.linear_low]))
        total = _add_pairs(total, np.stack([product, _product_rest(self.l2, w, product)]))
        return np.asarray(total.sum(axis=0))


def _add_pairs(a: FloatArray, b: FloatArray) -> FloatArray:
    high, lost = _two_sum(a[0], b[0])
    low, more = _two_sum(a[1], b[1])
    high, lost = _two_sum(high, lost + low)
    high, lost = _two_sum(high, lost + more)
    return np.stack([high, lost])


def _two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product_rest(a: float, b: FloatArray, product: FloatArray) -> FloatArray:
    """Return ``a * b - product`` exactly (Dekker's product, with both factors split)."""
    split = 134217729.0
    a1 = split * a - (split * a - a)
    a2 = a - a1
    b1 = split * b - (split * b - b)
    b2 = b - b1
    return np.asarray(((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)


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
            following, new_gradient = _search_line(objective, w, gradient, direction, new_gradient)
            new_size = float(np.linalg.norm(new_gradient))
        w, gradient, size = following, new_gradient, new_size
    raise NotConverged("Newton's method did not reach the gradient bound.")


def _search_line(
    objective: _Objective,
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


def _quasi_newton(
    objective: _Objective, w: FloatArray, factor: FloatArray, target: float
) -> tuple[FloatArray, FloatArray]:
    """Take BFGS steps with ``factor`` as the first Hessian; turn to Newton's method if one does not help."""
    gradient = objective.gradient(w)
    size = float(np.linalg.norm(gradient))
    pairs: list[tuple[FloatArray, FloatArray]] = []
    while size > target:
        following = w - _bfgs_direction(pairs, factor, gradient)
        new_gradient = objective.gradient(following)
        new_size = float(np.linalg.norm(new_gradient))
        if new_size > 0.5 * size:
            if size <= objective.float64_limit(float(np.linalg.norm(w))):
                return w, factor
            return _newton(objective, w, target)
        pairs.append((following - w, new_gradient - gradient))
        w, gradient, size = following, new_gradient, new_size
    return w, factor


def _bfgs_direction(
    pairs: list[tuple[FloatArray, FloatArray]], factor: FloatArray, gradient: FloatArray
) -> FloatArray:
    direction = gradient.copy()
    kept = []
    for moved, change in reversed(pairs):
        curvature = float(moved @ change)
        if curvature <= 0.0:
            continue  # only rounding can do this
        along = float(moved @ direction) / curvature
        direction -= along * change
        kept.append((moved, change, curvature, along))
    direction = np.asarray(cho_solve((factor, True), direction, check_finite=False))
    for moved, change, curvature, along in reversed(kept):
        direction += (along - float(change @ direction) / curvature) * moved
    return direction


def _proved(objective: _Objective, w: FloatArray, factor: FloatArray, bound: float) -> Minimum:
    """Return a point near w with a proof that the gradient there is at most ``bound``."""
    error = objective.gradient_error(float(np.linalg.norm(w)) * (1.0 + 1e-12))
    if error < bound:
        found = _norm_up(objective.gradient(w)) + error
        if found <= bound:
            return Minimum(read_only(w), read_only(np.zeros_like(w)), found)
    rest = np.zeros_like(w)
    for _ in range(_MAX_STEPS):
        norm = float(np.linalg.norm(w)) * (1.0 + 1e-12)
        gradient = objective.accurate_gradient(w, rest)
        error = objective.accurate_gradient_error(norm)
        found = _norm_up(gradient) + error
        if found <= bound:
            return Minimum(read_only(w), read_only(rest), found)
        correction, found = _correction(objective, w, factor, gradient, error, bound)
        if not rest.any() and found <= bound:
            return Minimum(read_only(w), read_only(correction), found)
        w, rest = _two_sum(w, rest + correction)
    raise NotConverged("the correction did not reach the gradient bound.")


def _correction(
    objective: _Objective,
    w: FloatArray,
    factor: FloatArray,
    gradient: FloatArray,
    error: float,
    bound: float,
) -> tuple[FloatArray, float]:
    """Solve ``H d = -g`` by preconditioned conjugate gradients; return d and the proved bound at w + d."""
    norm = float(np.linalg.norm(w)) * (1.0 + 1e-12)
    correction = np.zeros_like(w)
    residual = gradient.copy()
    solved = np.asarray(cho_solve((factor, True), residual, check_finite=False))
    direction = -solved
    fitness = float(residual @ solved)
    for _ in range(4 * w.size + 16):
        product = objective.product(w, direction)
        length = fitness / float(direction @ product)
        correction = correction + length * direction
        residual = residual + length * product
        if float(np.linalg.norm(residual)) <= bound / 4.0:
            break
        solved = np.asarray(cho_solve((factor, True), residual, check_finite=False))
        fitness, before = float(residual @ solved), fitness
        direction = (fitness / before) * direction - solved
    step = _norm_up(correction)
    left = gradient + objective.product(w, correction)
    found = (
        _norm_up(left)
        + 4.0 * rounding.UNIT * (_norm_up(gradient) + _norm_up(left))
        + error
        + objective.product_error(norm) * step
        + rounding.curvature_change(step, objective.row_bound, objective.total)
    )
    return correction, found


def _norm_up(vector: FloatArray) -> float:
    """Return the Euclidean norm, rounded up, with room for the rounding of the vector itself."""
    return float(np.linalg.norm(vector)) * (1.0 + (vector.size + 8) * 2.0**-52) + 1e-300
