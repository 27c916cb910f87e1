r"""Turn a function with a Lipschitz gradient into its minimiser, on all of R^n or within a ball.

Each step minimises the quadratic model :math:`g \cdot (u - w) + (u - w)^T H (u - w)/2` over the ball exactly
and searches the segment to that point for a sufficient fall. H is the function's own Hessian (one of its
limits at a kink) where that is positive definite, and a positive definite matrix above it elsewhere. So every
step goes downhill, every limit point is stationary, and near a minimum with positive definite Hessians the
steps are semismooth Newton steps, which converge faster than linearly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg.lapack import dposv

from dpmarket.arrays import FloatArray
from dpmarket.errors import NotConverged
from dpmarket.mechanisms.joint.problem import Point, norm

_SHARE = 1e-4
_MAX_HALVINGS = 40


class Smooth(Protocol):
    """A function of w with a Lipschitz gradient."""

    def at(self, w: FloatArray) -> Point:
        """Return value and gradient."""
        ...

    def hessian(self, point: Point) -> FloatArray:
        """Return the Hessian or one of its limits."""
        ...

    def safe_hessian(self, point: Point) -> FloatArray:
        """Return a positive definite matrix."""
        ...

    def gradient_rounding(self, w: FloatArray, point: Point) -> float:
        """Return a gradient norm that float64 cannot tell from 0."""
        ...


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Stationary:
    """A stationary point in the ball, how far it is from being one, and the values on the way."""

    w: FloatArray
    point: Point
    residual: float
    trace: tuple[float, ...]


def minimise_in_ball(
    function: Smooth, start: FloatArray, radius: float, tolerance: float, max_iterations: int
) -> Stationary:
    """Return a stationary point of ``function`` over ``|w| <= radius``.

    Parameters
    ----------
    function
        What is minimised.
    start
        Where to begin; moved into the ball if it lies outside.
    radius
        Of the ball; may be infinite.
    tolerance
        The residual at which to stop, in units of the gradient. A residual that is within the gradient's own
        rounding counts as reached.
    max_iterations
        Allowed steps.

    Returns
    -------
    Stationary
        The point, with the residual ``|w - P(w - gradient)|``, P the projection onto the ball: the gradient's
        norm where the ball does not bind.

    Raises
    ------
    NotConverged
        The residual was not reached.
    """
    w = into_ball(start, radius)
    point = function.at(w)
    trace = [point.value]
    for _ in range(max_iterations):
        residual = norm(w - into_ball(w - point.gradient, radius))
        if residual <= tolerance:
            return Stationary(w, point, residual, tuple(trace))
        direction = _model_minimiser(function, w, point, radius) - w
        slope = float(point.gradient @ direction)
        if -slope <= point.value_rounding and residual <= function.gradient_rounding(w, point):
            return Stationary(w, point, residual, tuple(trace))
        length = 1.0
        for _ in range(_MAX_HALVINGS):
            following = into_ball(w + length * direction, radius)
            reached = function.at(following)
            if reached.value <= point.value + _SHARE * length * slope + point.value_rounding:
                break
            length *= 0.5
        else:
            break
        w, point = following, reached
        trace.append(point.value)
    raise NotConverged(
        f"expected the coefficients to converge to a residual of {tolerance:.1e}, they did not: raise l2 or "
        "concentration, or the solver's tolerance."
    )


def into_ball(w: FloatArray, radius: float) -> FloatArray:
    """Return the point of the ball nearest to w."""
    if math.isinf(radius):
        return w
    length = norm(w)
    return w if length <= radius else w * (radius / length)


def _model_minimiser(function: Smooth, w: FloatArray, point: Point, radius: float) -> FloatArray:
    matrix = function.hessian(point)
    _, step, failed = dposv(matrix, point.gradient)
    if failed:
        matrix = function.safe_hessian(point)
        _, step, _ = dposv(matrix, point.gradient)
    free = w - step
    if norm(free) <= radius:
        return np.asarray(free)
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors @ on_sphere(values, vectors.T @ (matrix @ w - point.gradient), radius))


def on_sphere(values: FloatArray, target: FloatArray, radius: float) -> FloatArray:
    """Return ``u = target/(values + nu)`` with the ``nu >= 0`` for which ``|u| = radius``.

    ``values`` are positive, and ``|target/values| > radius``. Newton's method for ``1/|u| - 1/radius``, a
    concave increasing function of nu, started at 0, rises to the root without ever passing it.
    """
    nu = 0.0
    for _ in range(60):
        u = target / (values + nu)
        length = norm(u)
        if length <= radius * (1.0 + 1e-14):
            break
        nu += length**2 / float(u @ (u / (values + nu))) * (length / radius - 1.0)
    return np.asarray(target / (values + nu))
