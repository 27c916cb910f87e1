r"""Turn sums over rows that lie elsewhere into the minimiser, in as few passes over the rows as can be.

The problem is that of :mod:`dpmarket.learning.solver`. Where a look at all rows is dear, because they lie in
many files, each look returns the gradient and the Hessian together, Newton's method starts from the minimum
on a few rows, and the proof needs no look of its own where float64 can give it: it is the bound on the
gradient of the last look. Where float64 cannot, the gradient is computed in pairs of floats at a point that
is a pair itself, and corrected with the last Hessian until the proof holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve, cholesky

from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import NotConverged
from dpmarket.learning import rounding
from dpmarket.learning.pairs import add_pairs, norm_up, product_rest, two_sum
from dpmarket.learning.proving import Minimum, search_line

_MAX_STEPS = 2000
_TRUSTED_STEPS = 40


class Looks(Protocol):
    """What looks at all rows: sums of kernels over them, in one fixed order."""

    def gradient_and_hessian(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss's gradient as pairs, shape (2, n), and its Hessian's lower triangle."""
        ...

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        """Return the loss's gradient at ``w + rest`` in pairs of floats throughout."""
        ...


@dataclass(frozen=True)
class Sizes:
    """How many rows there are, for bounds on rounding.

    Attributes
    ----------
    n_coefficients
        n, the constant's included.
    rows
        At least as many rows as there are; parts whose sums are added up count as 64 more each.
    total
        A: at least the sum of the weights.
    """

    n_coefficients: int
    rows: int
    total: float

    def __len__(self) -> int:
        return self.rows

    def total_weight(self) -> float:
        """Return the sum of the weights, rounded up."""
        return self.total


@dataclass(frozen=True, eq=False)
class RemoteProblem:
    """A training problem whose rows lie elsewhere, in the unit in which their constant is 1.

    Attributes
    ----------
    sizes
        How many rows there are.
    l2, linear_high, linear_low, row_bound, gradient_bound
        As for :func:`~dpmarket.learning.solver.minimise`.
    """

    sizes: Sizes
    l2: float
    linear_high: FloatArray
    linear_low: FloatArray
    row_bound: float
    gradient_bound: float

    def minimise(self, looks: Looks, start: FloatArray) -> Minimum:
        """Return a point whose gradient is provably at most ``gradient_bound``.

        Parameters
        ----------
        looks
            What looks at the rows.
        start
            A first point, shape (n,); which one decides how many looks there are, not what is found.

        Raises
        ------
        NotConverged
            The bound was not reached although it can be.
        """
        objective = _Objective(self, looks)
        w, is_proved = _newton(objective, start)
        if is_proved:
            bound = norm_up(objective.last_gradient) + objective.gradient_error(_norm(w))
            return Minimum(read_only(w), read_only(np.zeros_like(w)), bound)
        return _corrected(objective, w)


class _Objective:
    """The objective's derivatives; the Hessian of the last look is kept."""

    def __init__(self, problem: RemoteProblem, looks: Looks) -> None:
        self.problem = problem
        self.looks = looks
        self.linear_norm = float(np.linalg.norm(problem.linear_high))
        self.last_gradient = np.zeros(0)
        self._factor = np.zeros((0, 0))

    def gradient(self, w: FloatArray) -> FloatArray:
        loss, hessian = self.looks.gradient_and_hessian(w)
        hessian[np.diag_indices(w.size)] += self.problem.l2
        factor = cholesky(hessian, lower=True, overwrite_a=True, check_finite=False)
        self._factor = np.asarray(factor)
        return self._with_penalty(loss, w)

    def solve(self, right: FloatArray) -> FloatArray:
        """Solve with the Hessian of the last look."""
        return np.asarray(cho_solve((self._factor, True), right, check_finite=False))

    def accurate_gradient(self, w: FloatArray, rest: FloatArray) -> FloatArray:
        loss = self.looks.accurate_gradient(w, rest)
        return self._with_penalty(add_pairs(loss, np.stack([self.problem.l2 * rest, np.zeros_like(w)])), w)

    def gradient_error(self, norm: float) -> float:
        sizes, problem = self.problem.sizes, self.problem
        loss = rounding.gradient_error(sizes.n_coefficients, sizes.rows, norm, problem.row_bound, sizes.total)
        return loss + 2.0**-96 * (problem.l2 * norm + self.linear_norm)

    def accurate_gradient_error(self, norm: float) -> float:
        sizes, problem = self.problem.sizes, self.problem
        sums = 2.0**-96 * (sizes.total * problem.row_bound + problem.l2 * norm + self.linear_norm)
        return sums + rounding.accurate_gradient_error(
            sizes.n_coefficients, sizes.rows, norm, problem.row_bound, sizes.total
        )

    def float64_limit(self, norm: float) -> float:
        """Return a gradient norm below which float64 points and gradients need not get."""
        steepest = self.problem.l2 + self.problem.sizes.total * self.problem.row_bound**2 / 4.0
        return self.gradient_error(norm) + 8.0 * rounding.UNIT * steepest * norm

    def _with_penalty(self, loss: FloatArray, w: FloatArray) -> FloatArray:
        problem = self.problem
        product = problem.l2 * w
        total = add_pairs(loss, np.stack([problem.linear_high, problem.linear_low]))
        total = add_pairs(total, np.stack([product, product_rest(problem.l2, w, product)]))
        return np.asarray(total.sum(axis=0))


def _newton(objective: _Objective, w: FloatArray) -> tuple[FloatArray, bool]:
    """Return a point, and whether float64 proves the bound there; the last look was at this point."""
    bound = objective.problem.gradient_bound
    gradient = objective.gradient(w)
    for step in range(_MAX_STEPS):
        size = float(np.linalg.norm(gradient))
        if norm_up(gradient) + objective.gradient_error(_norm(w)) <= bound:
            objective.last_gradient = gradient
            return w, True
        if size <= objective.float64_limit(_norm(w)):
            return w, False
        direction = -objective.solve(gradient)
        following = w + direction
        new_gradient = objective.gradient(following)
        new_size = float(np.linalg.norm(new_gradient))
        if new_size > 0.5 * size or step > _TRUSTED_STEPS:
            if new_size <= objective.float64_limit(_norm(following)):
                return following, False
            following, new_gradient = search_line(objective, w, gradient, direction, new_gradient)
            new_gradient = objective.gradient(following)  # so that the Hessian is of this point, too
        w, gradient = following, new_gradient
    raise NotConverged("Newton's method did not reach the gradient bound.")


def _corrected(objective: _Objective, w: FloatArray) -> Minimum:
    """Return a point near ``w``, as a pair, with a proof in pairs of floats."""
    bound = objective.problem.gradient_bound
    rest = np.zeros_like(w)
    for _ in range(_MAX_STEPS):
        gradient = objective.accurate_gradient(w, rest)
        found = norm_up(gradient) + objective.accurate_gradient_error(_norm(w))
        if found <= bound:
            return Minimum(read_only(w), read_only(rest), found)
        w, rest = two_sum(w, rest - objective.solve(gradient))
    raise NotConverged("the correction did not reach the gradient bound.")


def _norm(w: FloatArray) -> float:
    return math.sqrt(float(w @ w)) * (1.0 + 1e-12)
