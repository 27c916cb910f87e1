r"""Turn losses and prices into the best weights, and the joint problem into a function of w alone.

At a fixed noise rate :math:`\eta` the appendix of the paper minimises, over coefficients w and weights a,

.. math:: \sum_i a_i \ell_i(w) + q \cdot w + \frac{\Lambda}{2}|w|^2 + \mu |a|^2 + \langle a, p \rangle,
   \qquad \ell_i(w) = \log(1 + e^{-w \cdot u_i}),

with signed rows :math:`u_i = y_i x_i`, the pull of the noise :math:`q = 2b/\eta` and prices
:math:`p = \gamma \eta \psi`. For given w the best a is the projection of :math:`-(\ell(w) + p)/(2\mu)` onto
the capped simplex. What is left is a function of w with a Lipschitz gradient
:math:`\sum_i a_i \nabla \ell_i + q + \Lambda w` (envelope theorem). Where the set of sellers strictly
between 0 and the cap changes, its second derivative jumps; elsewhere the Hessian is

.. math:: \Lambda I + \sum_i d_i u_i u_i^T + \frac{g g^T}{2 \mu |F|},
   \qquad d_i = a_i s_i (1 - s_i) - [i \in F] \frac{s_i^2}{2\mu}, \quad g = \sum_{i \in F} s_i u_i,

F being that set and :math:`s_i = 1/(1 + e^{w \cdot u_i})`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dpmarket.allocation.simplex import project
from dpmarket.arrays import FloatArray

_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class InnerProblem:
    """The joint problem at one noise rate.

    Attributes
    ----------
    signed_rows : FloatArray of shape (m, n)
        ``y_i * x_i``, each of norm at most 1.
    prices : FloatArray of shape (m,)
        What a unit of each seller's weight costs: ``payment_weight * noise_rate * virtual_cost``.
    pull : FloatArray of shape (n,)
        The linear term's vector, ``2*b/noise_rate``; zeros without noise.
    l2 : float
        The ridge penalty Lambda, > 0.
    concentration : float
        mu, at least 0; multiplies the squared norm of the weights.
    layout : tuple
        The cap on weights, as :func:`dpmarket.allocation.simplex.split_cap` splits it.
    radius : float
        Largest norm of the coefficients; may be infinite.
    """

    signed_rows: FloatArray
    prices: FloatArray
    pull: FloatArray
    l2: float
    concentration: float
    layout: tuple[float, int, float]
    radius: float


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Point:
    """A function's value and gradient at w, and what its Hessian is made of.

    ``slopes`` are the s_i, ``scores`` are losses plus prices; ``value_rounding`` bounds what float64 may have
    lost of the value.
    """

    value: float
    gradient: FloatArray
    weights: FloatArray
    slopes: FloatArray
    scores: FloatArray
    value_rounding: float


def norm(vector: FloatArray) -> float:
    """Return the Euclidean norm of a vector within the range of floats."""
    return math.sqrt(float(vector @ vector))


def losses(problem: InnerProblem, w: FloatArray) -> FloatArray:
    """Return every record's logistic loss at w."""
    return np.logaddexp(0.0, -(problem.signed_rows @ w))


def objective_value(problem: InnerProblem, w: FloatArray, weights: FloatArray) -> float:
    """Return the objective at coefficients and weights that need not belong together."""
    return (
        float(weights @ (losses(problem, w) + problem.prices))
        + float(problem.pull @ w)
        + 0.5 * problem.l2 * float(w @ w)
        + problem.concentration * float(weights @ weights)
    )


def projected_weights(problem: InnerProblem, scores: FloatArray) -> FloatArray:
    """Return the weights that minimise ``<a, scores> + mu*|a|^2``, for mu > 0: a projection."""
    return project(scores * (-0.5 / problem.concentration), problem.layout)


def cheapest_weights(problem: InnerProblem, scores: FloatArray) -> FloatArray:
    """Return the weights that minimise ``<a, scores>``: the lowest scores up to the cap.

    Where a tie straddles the last place, those who come first in the order of sellers are taken: any choice
    is as good.
    """
    limit, capped, rest = problem.layout
    weights = np.zeros(scores.size)
    needed = capped + (rest > 0.0)
    order = np.argsort(scores, kind="stable")[:needed]
    weights[order[:capped]] = limit
    if rest > 0.0:
        weights[order[capped]] = rest
    return weights


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FixedWeights:
    """The objective as a function of w for given weights: weighted, penalised logistic regression."""

    problem: InnerProblem
    weights: FloatArray

    def at(self, w: FloatArray) -> Point:
        """Return value and gradient."""
        margins = self.problem.signed_rows @ w
        scores = np.logaddexp(0.0, -margins) + self.problem.prices
        return _point(self.problem, w, margins, scores, self.weights)

    def hessian(self, point: Point) -> FloatArray:
        """Return the Hessian, positive definite."""
        return _hessian(self.problem, point.weights * point.slopes * (1.0 - point.slopes))

    safe_hessian = hessian

    def gradient_rounding(self, w: FloatArray, point: Point) -> float:
        """Return a gradient norm that float64 cannot tell from 0."""
        return _gradient_rounding(self.problem, w)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Reduced:
    """The objective as a function of w, with the best weights for each w; needs mu > 0."""

    problem: InnerProblem

    def at(self, w: FloatArray) -> Point:
        """Return value and gradient, with the best weights."""
        margins = self.problem.signed_rows @ w
        scores = np.logaddexp(0.0, -margins) + self.problem.prices
        return _point(self.problem, w, margins, scores, projected_weights(self.problem, scores))

    def hessian(self, point: Point) -> FloatArray:
        """Return the Hessian, or one of its limits at a kink; it may be indefinite."""
        twice = 2.0 * self.problem.concentration
        free = (point.weights > 0.0) & (point.weights < self.problem.layout[0])
        s = point.slopes
        moving = s * free
        matrix = _hessian(self.problem, point.weights * s * (1.0 - s) - moving * s / twice)
        count = int(np.count_nonzero(free))
        if count:
            mean = moving @ self.problem.signed_rows
            matrix += mean[:, None] * (mean / (twice * count))
        return matrix

    def safe_hessian(self, point: Point) -> FloatArray:
        """Return the Hessian at frozen weights: positive definite, and above the true one."""
        return _hessian(self.problem, point.weights * point.slopes * (1.0 - point.slopes))

    def gradient_rounding(self, w: FloatArray, point: Point) -> float:
        """Return a gradient norm that float64 cannot tell from 0: an error in a score moves the weights."""
        blur = float(np.abs(point.scores).max()) / (2.0 * self.problem.concentration)
        bought = np.count_nonzero(point.weights)
        return _gradient_rounding(self.problem, w) + 16.0 * _UNIT * blur * math.sqrt(bought)


def _point(
    problem: InnerProblem, w: FloatArray, margins: FloatArray, scores: FloatArray, weights: FloatArray
) -> Point:
    slopes = expit(-margins)
    product = float(weights @ scores)
    ridge = 0.5 * problem.l2 * float(w @ w)
    pull = float(problem.pull @ w)
    spread = problem.concentration * float(weights @ weights)
    return Point(
        value=product + ridge + pull + spread,
        gradient=problem.pull + problem.l2 * w - (weights * slopes) @ problem.signed_rows,
        weights=weights,
        slopes=slopes,
        scores=scores,
        value_rounding=8.0 * _UNIT * (abs(product) + ridge + abs(pull) + spread),
    )


def _gradient_rounding(problem: InnerProblem, w: FloatArray) -> float:
    return 16.0 * _UNIT * (1.0 + norm(problem.pull) + problem.l2 * norm(w))


def _hessian(problem: InnerProblem, diagonal: FloatArray) -> FloatArray:
    used = np.flatnonzero(diagonal)
    rows = problem.signed_rows
    if used.size < diagonal.size:
        rows, diagonal = rows[used], diagonal[used]
    matrix = np.asarray(rows.T @ (diagonal[:, None] * rows))
    matrix.flat[:: matrix.shape[0] + 1] += problem.l2
    return matrix
