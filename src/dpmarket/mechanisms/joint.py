r"""The joint mechanism (the paper's Algorithm 4): weights, total and coefficients chosen from the records.

**Not private.** Weights that are chosen by looking at the records are themselves a release, and payments are
functions of everybody's records. It is here for the paper's experiments, and as a yardstick for what looking
at the data could gain. It minimises, over coefficients w, weights a and the total :math:`\eta`,

.. math:: \langle a, \ell(w) \rangle + \frac{2 b \cdot w}{\eta} + \frac{\Lambda}{2}|w|^2 + \mu |a|^2
          + \frac{\sigma}{\eta} + \gamma \eta \langle a, \psi \rangle, \qquad
          \ell_i(w) = \log(1 + e^{-w \cdot u_i}),

with signed rows :math:`u_i = y_i x_i`. At one total the best weights for given w are a projection onto the
capped simplex; what is left is a function of w with a Lipschitz gradient whose Hessian, between kinks, is

.. math:: \Lambda I + \sum_i d_i u_i u_i^T + \frac{g g^T}{2 \mu |F|}, \qquad
          d_i = a_i s_i (1 - s_i) - [i \in F] \frac{s_i^2}{2\mu}, \quad g = \sum_{i \in F} s_i u_i,

F the sellers strictly between 0 and the cap and :math:`s_i = 1/(1 + e^{w \cdot u_i})`. Totals come from the
public menu. The minimum J is concave in each virtual cost with slope :math:`\gamma \epsilon_i`, as in the
exact mechanism, and pays the same way. Truth is the best report where each solution is the global minimum;
that is certain where the problem is strictly convex (:attr:`JointMechanism.convexity` above 1).

As printed, with the noise b drawn and w free, the objective falls like :math:`-2|b|^2/(\Lambda \eta^2)` for
small :math:`\eta`. So the choice is made without the noise, and coefficients are trained with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.costs.virtual_cost import VirtualCost
from dpmarket.errors import Infeasible, InvalidInput, NotConverged
from dpmarket.mechanisms.groups import weight_cap
from dpmarket.mechanisms.objective import MENU
from dpmarket.mechanisms.outcome import with_report
from dpmarket.numerics import project_to_capped_simplex
from dpmarket.privacy.noise import NoiseSource, checked_source, radial_noise

_STARTS = 8  # random ones beside the origin, where strict convexity is not certain
_COARSE = 64  # entries of the menu between those that are tried first
_TOLERANCE = 1e-11  # of a gradient, relative to 1 + |2b/eta|
_CLOSE = 1e-6  # the same, where the value no longer falls
_NEWTON_STEPS = 2_000
_SUFFICIENT = 1e-4  # share of the predicted fall that a step must reach
_HALVINGS = 40
_SAME_POINT = 1e-6
_ROUNDING = 2.0**-49
_ACCURACY = 1e-14  # of the noise


@dataclass(frozen=True, eq=False, repr=False)
class Inner:
    """The problem at one total: rows, prices, the noise's pull, constants and the cap."""

    rows: FloatArray
    prices: FloatArray
    pull: FloatArray
    l2: float
    mu: float
    cap: float

    def scores(self, w: FloatArray) -> FloatArray:
        """Return each seller's loss plus price."""
        return np.logaddexp(0.0, -(self.rows @ w)) + self.prices

    def value(self, w: FloatArray, weights: FloatArray) -> float:
        """Return the objective, without terms of the total alone."""
        quadratic = 0.5 * self.l2 * float(w @ w) + self.mu * float(weights @ weights)
        return float(weights @ self.scores(w)) + float(self.pull @ w) + quadratic

    def best_weights(self, scores: FloatArray) -> FloatArray:
        """Return the weights that minimise ``<a, scores> + mu |a|^2``: a projection."""
        return project_to_capped_simplex(scores * (-0.5 / self.mu), self.cap)

    def gradient(self, w: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the gradient in w, at fixed weights or (the same) at the best ones."""
        return np.asarray(self.pull + self.l2 * w - (weights * self.slopes(w)) @ self.rows)

    def slopes(self, w: FloatArray) -> FloatArray:
        """Return s, minus the derivative of each loss in its margin."""
        return 1.0 / (1.0 + np.exp(np.minimum(self.rows @ w, 700.0)))

    def hessian(self, w: FloatArray, weights: FloatArray, *, moving: bool) -> FloatArray:
        """Return the Hessian in w; ``moving`` weights follow w, and it may then be indefinite."""
        s = self.slopes(w)
        diagonal = weights * s * (1.0 - s)
        free = (weights > 0.0) & (weights < self.cap)
        if moving:
            diagonal = diagonal - free * s * s / (2.0 * self.mu)
        matrix = self.rows.T @ (diagonal[:, None] * self.rows) + self.l2 * np.eye(w.size)
        if moving and free.any():
            g = (s * free) @ self.rows
            matrix += np.outer(g, g) / (2.0 * self.mu * np.count_nonzero(free))
        return np.asarray(matrix)

    @property
    def scale(self) -> float:
        """What gradients are compared with."""
        return 1.0 + float(np.linalg.norm(self.pull))


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """Coefficients and weights at one total, the objective there, and its values on the way."""

    coefficients: FloatArray
    weights: FloatArray
    value: float
    trace: tuple[float, ...]


def solve_newton(inner: Inner, start: FloatArray, fixed: FloatArray | None = None) -> Solution:
    """Return a stationary point by semismooth Newton steps on the reduced function of w.

    A step is halved until the function falls enough. Its matrix is the Hessian where that is positive
    definite, else the one at fixed weights, which lies above it. With ``fixed`` weights it is weighted
    logistic regression.
    """
    w = start
    tolerance = _TOLERANCE * inner.scale

    def at(w: FloatArray) -> tuple[float, FloatArray]:
        weights = inner.best_weights(inner.scores(w)) if fixed is None else fixed
        return inner.value(w, weights), weights

    value, weights = at(w)
    trace = [value]
    for _ in range(_NEWTON_STEPS):
        gradient = inner.gradient(w, weights)
        residual = float(np.linalg.norm(gradient))
        if residual <= tolerance:
            return Solution(w, weights, value, tuple(trace))
        try:
            factor = np.linalg.cholesky(inner.hessian(w, weights, moving=fixed is None))
        except np.linalg.LinAlgError:
            factor = np.linalg.cholesky(inner.hessian(w, weights, moving=False))
        direction = -np.linalg.solve(factor.T, np.linalg.solve(factor, gradient))
        slope = float(gradient @ direction)
        rounding = _ROUNDING * (1.0 + abs(value))
        is_close = residual <= _CLOSE * inner.scale
        if -slope <= rounding and is_close:
            return Solution(w, weights, value, tuple(trace))
        length = 1.0
        for _ in range(_HALVINGS):
            following = w + length * direction
            reached, moved = at(following)
            if reached <= value + _SUFFICIENT * length * slope + rounding:
                break
            length *= 0.5
        else:
            break
        if is_close and length < 1.0 and value - reached <= rounding:
            # The fall that is left drowns in the rounding of the sums over all sellers.
            return Solution(w, weights, value, tuple(trace))
        w, value, weights = following, reached, moved
        trace.append(value)
    raise NotConverged("expected the coefficients to converge, they did not: raise l2 or mu.")


@dataclass(frozen=True, eq=False, repr=False)
class JointOutcome:
    """Epsilons, payments and coefficients that were chosen by looking at the records: **not private**."""

    epsilons: FloatArray  # weights * total: what is paid for, not a loss that anybody has proved
    payments: FloatArray
    weights: FloatArray
    total: float
    coefficients: FloatArray  # trained with the noise
    objective_value: float

    def __repr__(self) -> str:
        return f"JointOutcome({self.epsilons.size} sellers, not private)"


class JointMechanism:
    """Choose weights, total and coefficients together from reports and records: not private.

    Parameters
    ----------
    X, y
        The sellers' records: rows of Euclidean norm at most 1 (for a constant, make it a column), and labels
        -1 and +1.
    costs
        The announced table of virtual costs.
    mu, sigma, gamma, l2
        Prices of uneven weights (of their *squared* norm, as in the appendix), of noise and of money, and the
        ridge penalty Lambda; above 0.
    weight_cap, max_mean_epsilon
        No weight above k/m; the total is at most m L.
    noise_source
        Where the noise comes from, the same for all reports; None: the operating system's entropy.

    Notes
    -----
    Paper: appendix "Data Dependent Payments", Algorithm 4 and theorem `convexify`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> X = [[0.6, 0.1], [-0.5, 0.4], [0.7, -0.2], [-0.6, 0.1]]
    >>> table = VirtualCost.of(Uniform(1, 5))
    >>> mechanism = JointMechanism(X, [1, -1, 1, -1], table, mu=5.0, sigma=1.0, gamma=0.01, l2=1.0)
    >>> outcome = mechanism.run([1.5, 2.0, 2.5, 4.9])
    >>> bool((outcome.payments >= outcome.epsilons * [1.5, 2.0, 2.5, 4.9]).all()), outcome
    (True, JointOutcome(4 sellers, not private))
    """

    def __init__(
        self, X: object, y: object, costs: VirtualCost, *, mu: float, sigma: float, gamma: float, l2: float,
        weight_cap: float | None = None, max_mean_epsilon: float | None = None,
        noise_source: NoiseSource | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(costs, VirtualCost):
            raise InvalidInput(f"expected costs to be a VirtualCost, got {type(costs).__name__}.")
        rows = checks.finite_numbers("X", X)
        if rows.ndim != 2 or 0 in rows.shape:
            raise InvalidInput(f"expected X of shape (records, features), none of them 0, got {rows.shape}.")
        signs = checks.finite_vector("y", y)
        checks.same_length("y", signs, "X", rows)
        if not (np.abs(signs) == 1.0).all():
            raise InvalidInput("expected every label in y to be -1 or +1.")
        longer = int((np.linalg.norm(rows, axis=1) > 1.0 + 1e-12).sum())
        if longer:
            raise InvalidInput(f"expected rows of norm at most 1, found {longer} longer: take PublicScaler.")
        self.costs, self.rows = costs, read_only(np.ascontiguousarray(signs[:, None] * rows))
        self.mu, self.sigma = checks.positive("mu", mu), checks.positive("sigma", sigma)
        self.gamma, self.l2 = checks.positive("gamma", gamma), checks.positive("l2", l2)
        self.multiple = None if weight_cap is None else checks.at_least("weight_cap", weight_cap, 1.0)
        self.most = math.inf
        if max_mean_epsilon is not None:
            self.most = checks.positive("max_mean_epsilon", max_mean_epsilon)
        stream = checked_source(noise_source).bits()
        # At a rate of 2 the noise of the objective, 2b/eta, is b itself.
        self.noise, _ = radial_noise(stream, rows.shape[1], 2.0, _ACCURACY).high_low()

    @cached_property
    def convexity(self) -> float:
        """``2 l2 mu`` over the rows' squared spectral norm x^2: Hessians are at least ``l2 - x^2/(2 mu)``."""
        square = float(np.linalg.norm(self.rows, 2)) ** 2
        return 2.0 * self.l2 * self.mu / square if square > 0.0 else math.inf

    def run(self, reported_costs: object) -> JointOutcome:
        """Decide, pay and train, given one reported cost per record."""
        costs = self._costs(reported_costs)
        chosen = _Choice(self, np.asarray(self.costs(costs)))
        payments = np.zeros(costs.size)
        for i in np.flatnonzero(chosen.epsilons > 0.0):
            payments[i] = self._payment(chosen, int(i), float(costs[i]))
        pull = (2.0 / chosen.total) * self.noise
        training = Inner(chosen.rows, np.zeros(chosen.psi.size), pull, self.l2, 0.0, 1.0)
        trained = solve_newton(training, chosen.best.coefficients, chosen.best.weights)
        arrays = read_only(chosen.epsilons), read_only(payments), read_only(chosen.epsilons / chosen.total)
        return JointOutcome(*arrays, chosen.total, trained.coefficients, chosen.value)

    def respond(self, reported_costs: object, i: int, report: float) -> tuple[float, float]:
        """Return seller ``i``'s epsilon and payment for another report, the others' as given."""
        costs = self._costs(with_report(reported_costs, i, report))
        psi = np.asarray(self.costs(costs))
        if math.isinf(psi[i]):
            return 0.0, 0.0
        chosen = _Choice(self, psi)
        epsilon = float(chosen.epsilons[i])
        return epsilon, self._payment(chosen, i, float(costs[i])) if epsilon > 0.0 else 0.0

    def _costs(self, reported_costs: object) -> FloatArray:
        costs = checks.non_negative_vector("reported_costs", reported_costs)
        checks.same_length("reported_costs", costs, "X", self.rows)
        return costs

    def _payment(self, chosen: _Choice, i: int, cost: float) -> float:
        """Return ``c eps`` plus the rents: increases of the minimum over the pieces of the table."""
        table = self.costs
        at = max(cost, float(table.knots[0]))
        epsilon, value = float(chosen.epsilons[i]), chosen.value
        payment = at * epsilon
        psi, before = chosen.all_psi.copy(), chosen
        for k in range(int(np.searchsorted(table.knots, at, side="right")), table.knots.size):
            width = float(table.knots[k]) - at
            slope = float(table.slopes[k - 1])
            if slope == 0.0:
                payment += epsilon * width
            else:
                psi[i] = table.values[k]
                before = _Choice(self, psi, before)
                left, risen = min(float(before.epsilons[i]), epsilon), before.value
                rent = (risen - value) / (self.gamma * slope)
                payment += min(max(rent, left * width), epsilon * width)
                epsilon, value = left, risen
            at = float(table.knots[k])
            if epsilon == 0.0:
                break
        return payment


class _Choice:
    """The joint optimum for given virtual costs; a ``near`` one, for other costs, is where solvers start."""

    def __init__(self, market: JointMechanism, all_psi: FloatArray, near: _Choice | None = None) -> None:
        self.market, self.all_psi = market, all_psi
        sells = np.isfinite(all_psi)
        if not sells.any():
            raise Infeasible("expected at least one report up to the reserve price.")
        self.rows, self.psi = market.rows[sells], all_psi[sells]
        self.cap = weight_cap(1.0, self.psi.size, self.psi.size, market.multiple)
        self.tried: dict[int, Solution] = {}
        origin, self.starts = np.zeros(market.noise.size), list[FloatArray]()
        self.entries, first, last = self._menu()
        marks = [*range(first, last, _COARSE), last]
        if near is not None:
            self.starts = [near.best.coefficients, *near.starts]
        elif market.convexity <= 1.0:
            drawn = np.random.default_rng(0).standard_normal((_STARTS, origin.size))
            ends = sorted({marks[0], marks[len(marks) // 2], marks[-1]})
            self.starts = _distinct([self._solve(k, start) for k in ends for start in (origin, *drawn)])
        for k in marks:
            self._try(k, origin)
        self._halve()
        index = min(self.tried, key=self.value_at)
        self.best: Solution = self.tried[index]
        self.total, self.value = float(self.entries[index]), self.value_at(index)
        self.epsilons = np.zeros(all_psi.size)
        self.epsilons[sells] = self.best.weights * self.total

    def value_at(self, k: int) -> float:
        return self.tried[k].value + self.market.sigma / float(self.entries[k])

    def _menu(self) -> tuple[FloatArray, int, int]:
        """Return the public entries, and the ends of those around ``eta^2 = sigma/(gamma <a, psi>)``."""
        bound = self.psi.size * self.market.most
        with np.errstate(divide="ignore"):
            stationary = np.sqrt(self.market.sigma / (self.market.gamma * np.sort(self.psi)[[-1, 0]]))
        ends = np.minimum(stationary, bound)
        if math.isinf(ends[1]):
            raise Infeasible("expected a best total, but sellers cost nothing: set max_mean_epsilon.")
        entries = MENU if bound > MENU[-1] else np.append(MENU[bound > MENU], bound)
        first, last = np.searchsorted(entries, ends).tolist()
        return entries, max(first - 1, 0), min(last + 1, entries.size - 1)

    def _solve(self, k: int, start: FloatArray) -> Solution:
        m = self.market
        prices = (m.gamma * float(self.entries[k])) * self.psi
        return solve_newton(Inner(self.rows, prices, np.zeros_like(m.noise), m.l2, m.mu, self.cap), start)

    def _try(self, k: int, start: FloatArray) -> None:
        if k not in self.tried:
            found = [self._solve(k, each) for each in (start, *self.starts)]
            self.tried[k] = min(found, key=lambda solution: solution.value)

    def _halve(self) -> None:
        """Try entries until none can be better: minima less sigma/eta are concave, and lie above chords."""
        sigma = self.market.sigma
        while True:
            marks, split = sorted(self.tried), list[tuple[int, int]]()
            best = min(map(self.value_at, marks))
            for a, b in pairwise(marks):
                low, high = float(self.entries[a]), float(self.entries[b])
                first, last = self.tried[a].value, self.tried[b].value
                rise = max((last - first) / (high - low), 0.0)
                at = min(max(math.sqrt(sigma / rise), low), high) if rise > 0.0 else high
                bound = sigma / at + first + rise * (at - low)
                if b - a > 1 and bound < best - _ROUNDING * abs(best):
                    split.append((a, b))
            if not split:
                return
            for a, b in split:
                self._try((a + b) // 2, self.tried[a].coefficients)


def _distinct(solutions: list[Solution]) -> list[FloatArray]:
    """Return one of each group of solutions that are the same point, the lowest first."""
    kept: list[FloatArray] = []
    for solution in sorted(solutions, key=lambda solution: solution.value):
        w = solution.coefficients
        near = _SAME_POINT * (1.0 + float(np.linalg.norm(w)))
        if not any(float(np.linalg.norm(w - other)) <= near for other in kept):
            kept.append(w)
    return kept
