"""Turn the joint problem at one noise rate into coefficients and weights: three solvers, one protocol.

:class:`ReducedSolver` puts the best weights into the objective and minimises over the coefficients alone.
:class:`PaperDescent` is the descent of the paper's Algorithm 4, over both. :class:`GreedySolver` is for a
buyer to whom uneven weights cost nothing: the problem is then neither smooth nor convex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import expit

from dpmarket import checks
from dpmarket.allocation.simplex import project
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput, NotConverged
from dpmarket.mechanisms.joint.newton import into_ball, minimise_in_ball
from dpmarket.mechanisms.joint.problem import (
    FixedWeights,
    InnerProblem,
    Reduced,
    cheapest_weights,
    losses,
    norm,
)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class InnerSolution:
    """Coefficients and weights at one noise rate.

    Attributes
    ----------
    coefficients, weights
        FloatArray of shapes (n,) and (m,)
    value : float
        The objective there, without the terms that depend on the noise rate alone.
    residual : float
        Norm of the projected gradient: how far from stationary.
    trace : tuple of float
        The objective at the start and after every step.
    """

    coefficients: FloatArray
    weights: FloatArray
    value: float
    residual: float
    trace: tuple[float, ...]


@runtime_checkable
class InnerSolver(Protocol):
    """A way to solve the joint problem at one noise rate.

    A protocol: :class:`ReducedSolver`, :class:`PaperDescent` and :class:`GreedySolver` obey it. Payments are
    truthful only if what it finds is the global minimum.
    """

    def solve(self, problem: InnerProblem, start: FloatArray) -> InnerSolution:
        """Return a stationary point, looked for from the coefficients ``start``."""
        ...


@dataclass(frozen=True)
class ReducedSolver:
    """Minimise over the coefficients alone: n variables instead of n + m. The default.

    Parameters
    ----------
    tolerance
        Gradient norm at which to stop, relative to ``1 + |2b/eta|``.
    max_iterations
        Allowed steps; a handful is usual, hundreds can be needed where the problem is far from convex and a
        bound on the coefficients holds them.

    Notes
    -----
    The formulas are in :mod:`dpmarket.mechanisms.joint.problem`. A step costs O(m n^2 + m log m).

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=5.0, noise=1.0, payment_weight=0.01)
    >>> mechanism = JointMechanism(Uniform(1, 5), objective, l2=1.0, solver=ReducedSolver())
    >>> outcome = mechanism.run(costs, X, y)
    >>> outcome.residual < 1e-10, len(outcome.trace) < 20
    (True, True)
    """

    tolerance: float = 1e-11
    max_iterations: int = 2_000

    def __post_init__(self) -> None:
        _check(self)

    def solve(self, problem: InnerProblem, start: FloatArray) -> InnerSolution:
        """Return a stationary point, looked for from the coefficients ``start``."""
        if problem.concentration == 0.0:
            raise InvalidInput(
                "expected concentration > 0: without it the best weights jump. Pass solver=GreedySolver()."
            )
        found = minimise_in_ball(
            Reduced(problem), start, problem.radius, self.tolerance * _scale(problem), self.max_iterations
        )
        return InnerSolution(found.w, found.point.weights, found.point.value, found.residual, found.trace)


@dataclass(frozen=True)
class PaperDescent:
    """Projected gradient descent over coefficients and weights, as in the paper's Algorithm 4.

    Weights start equal. The projection is onto the whole constraint set: the sum, the signs and the cap of
    the weights, and the ball of the coefficients where there is one. (The paper's pseudo-code projects onto
    the sum alone, which lets weights fall below 0 and rise above the cap.)

    Parameters
    ----------
    step_size
        In (0, 1], the paper's alpha. None takes 1/K, K a bound on the norm of the Hessian, or 1 if that is
        longer: the step of the paper's proof of linear convergence.
    tolerance
        Length of a step divided by ``step_size`` at which to stop, relative to ``1 + |2b/eta|``.
    max_iterations
        Allowed steps.

    Notes
    -----
    Paper, theorem `convexify`: where ``2*l2*concentration > m`` the gap to the minimum shrinks by a constant
    factor in every step. The trace shows it.

    Examples
    --------
    It finds what :class:`ReducedSolver` finds, in more steps.

    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=5.0, noise=1.0, payment_weight=0.01)
    >>> descent, reduced = (
    ...     JointMechanism(Uniform(1, 5), objective, l2=1.0, solver=solver).run(costs, X, y)
    ...     for solver in (PaperDescent(), ReducedSolver())
    ... )
    >>> abs(descent.objective_value - reduced.objective_value) < 1e-9
    True
    >>> len(descent.trace) > len(reduced.trace)
    True
    """

    step_size: float | None = None
    tolerance: float = 1e-9
    max_iterations: int = 1_000_000

    def __post_init__(self) -> None:
        _check(self)
        if self.step_size is not None and checks.positive("step_size", self.step_size) > 1.0:
            raise InvalidInput(f"expected step_size in (0, 1], got {self.step_size!r}.")

    def solve(self, problem: InnerProblem, start: FloatArray) -> InnerSolution:
        """Return a stationary point, looked for from the coefficients ``start`` and equal weights."""
        rows, mu = problem.signed_rows, problem.concentration
        step = self.step_size if self.step_size is not None else min(1.0, 1.0 / lipschitz(problem))
        enough = self.tolerance * _scale(problem)
        w, a = into_ball(start, problem.radius), np.full(len(rows), 1.0 / len(rows))
        trace = []
        for _ in range(self.max_iterations):
            margins = rows @ w
            scores = np.logaddexp(0.0, -margins) + problem.prices
            pulled = problem.pull + problem.l2 * w
            trace.append(
                float(a @ (scores + mu * a)) + 0.5 * float(w @ (pulled + problem.pull))
            )  # loss, prices and mu|a|^2; then q.w + l2/2 |w|^2
            moved_w = into_ball(w - step * (pulled - (a * expit(-margins)) @ rows), problem.radius)
            moved_a = project(a - step * (scores + 2.0 * mu * a), problem.layout)
            length = math.hypot(norm(moved_w - w), norm(moved_a - a))
            if length <= step * enough:
                return InnerSolution(w, a, trace[-1], length / step, tuple(trace))
            w, a = moved_w, moved_a
        raise NotConverged(
            f"expected projected gradient descent to converge within {self.max_iterations} steps, it did "
            "not: raise max_iterations or tolerance, or use ReducedSolver."
        )


@dataclass(frozen=True)
class GreedySolver:
    """Alternate between the cheapest weights and the best coefficients, for ``concentration = 0``.

    Weights move between corners of the capped simplex, and the objective falls strictly with every change,
    so that the alternation ends after finitely many turns, at a point that is best in the weights and best in
    the coefficients, each with the other fixed. There may be many such points: several starts are needed,
    and even the best of them need not be the global minimum.

    Parameters
    ----------
    tolerance
        Gradient norm of the coefficients' step, relative to ``1 + |2b/eta|``.
    max_iterations
        Allowed turns, and allowed Newton steps in each.

    Examples
    --------
    Without a price of uneven weights, two sellers at the cap have all the weight.

    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.joint import JointMechanism
    >>> X, y = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]], [1, -1, 1, -1]
    >>> costs = [1.5, 2.0, 2.5, 4.9]
    >>> objective = BuyerObjective(concentration=0.0, noise=1.0, payment_weight=0.01, weight_cap=2.0)
    >>> mechanism = JointMechanism(Uniform(1, 5), objective, l2=1.0, solver=GreedySolver())
    >>> mechanism.run(costs, X, y).loss_weights.tolist()
    [0.5, 0.5, 0.0, 0.0]
    """

    tolerance: float = 1e-11
    max_iterations: int = 500

    def __post_init__(self) -> None:
        _check(self)

    def solve(self, problem: InnerProblem, start: FloatArray) -> InnerSolution:
        """Return a point that is best in either block, looked for from the coefficients ``start``."""
        if problem.concentration != 0.0:
            raise InvalidInput("expected concentration = 0 for GreedySolver; use ReducedSolver.")
        w = into_ball(start, problem.radius)
        weights = cheapest_weights(problem, losses(problem, w) + problem.prices)
        trace: list[float] = []
        for _ in range(self.max_iterations):
            found = minimise_in_ball(
                FixedWeights(problem, weights),
                w,
                problem.radius,
                self.tolerance * _scale(problem),
                self.max_iterations,
            )
            w = found.w
            trace.append(found.point.value)
            scores = losses(problem, w) + problem.prices
            chosen = cheapest_weights(problem, scores)
            gain = float((weights - chosen) @ scores)
            if gain <= found.point.value_rounding:
                return InnerSolution(w, weights, trace[-1], found.residual, tuple(trace))
            weights = chosen
        raise NotConverged(
            f"expected the choice of sellers to settle within {self.max_iterations} turns, it did not."
        )


def lipschitz(problem: InnerProblem) -> float:
    """Return a bound on the norm of the objective's Hessian in (w, a) over the constraint set.

    It is the larger eigenvalue of ``[[l2 + d, x], [x, 2*mu]]`` with x the spectral norm of the rows and
    ``d = min(cap*x^2, 1)/4``.
    """
    spectral = float(np.linalg.norm(problem.signed_rows, 2))
    first = problem.l2 + 0.25 * min(problem.layout[0] * spectral**2, 1.0)
    second = 2.0 * problem.concentration
    return 0.5 * (first + second + math.hypot(first - second, 2.0 * spectral))


def _scale(problem: InnerProblem) -> float:
    return 1.0 + norm(problem.pull)


def _check(solver: ReducedSolver | PaperDescent | GreedySolver) -> None:
    checks.positive("tolerance", solver.tolerance)
    checks.whole("max_iterations", solver.max_iterations, 1)
