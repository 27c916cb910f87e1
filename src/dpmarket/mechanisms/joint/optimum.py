"""Turn virtual costs and records into the joint optimum, and re-solve it when one virtual cost moves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.allocation.simplex import UNCAPPED, split_cap
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import Infeasible
from dpmarket.mechanisms.joint.newton import minimise_in_ball
from dpmarket.mechanisms.joint.problem import FixedWeights, InnerProblem, cheapest_weights, losses, norm
from dpmarket.mechanisms.joint.readings import Reading
from dpmarket.mechanisms.joint.search import Evaluated, Search, covering_grid, prove, search
from dpmarket.mechanisms.joint.solvers import InnerSolution, InnerSolver

_SAME_POINT = 1e-6
_PROVED = 1e-11


class Moved(NamedTuple):
    """The optimum after one virtual cost moved: the objective, the seller's epsilon, and the way there."""

    value: float
    epsilon: float
    trial: Evaluated


class Exit(NamedTuple):
    """The objective without a seller, and the virtual cost at which that solution would take them in."""

    value: float
    virtual_cost: float


@dataclass(frozen=True, eq=False, repr=False)
class Setting:
    """Everything but the reports: records, noise, objective, and how to solve.

    Attributes
    ----------
    signed_rows : FloatArray of shape (m, n)
    noise : FloatArray of shape (n,)
        b, as drawn.
    objective, l2, reading, solver
        As in the mechanism.
    starts : FloatArray of shape (k, n)
        Further starting points where convexity is not guaranteed.
    mean_epsilons : FloatArray or None
        The grid, or None for one that covers every stationary noise rate.
    """

    signed_rows: FloatArray
    noise: FloatArray
    objective: BuyerObjective
    l2: float
    reading: Reading
    solver: InnerSolver
    starts: FloatArray
    mean_epsilons: FloatArray | None
    choosing_noise: FloatArray = field(init=False)
    convexity: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "choosing_noise", self.reading.choosing_noise(self.noise))
        square = float(np.linalg.norm(self.signed_rows, 2)) ** 2
        wanted = 2.0 * self.l2 * self.objective.concentration
        object.__setattr__(self, "convexity", wanted / square if square > 0.0 else math.inf)

    @property
    def convex(self) -> bool:
        """Whether the problem at each noise rate is strictly convex for certain.

        By Weyl's inequality the reduced Hessian is at least ``l2 - x^2/(2 mu)``, x the spectral norm of the
        rows. The paper's condition has m in place of x^2, which is never more than m.
        """
        return self.convexity > 1.0 and self.objective.concentration > 0.0

    @property
    def provable(self) -> bool:
        """Whether the global minimum over noise rates can be proved (:func:`search.prove`)."""
        return self.convex and not self.choosing_noise.any()

    def problem(self, buyable: BuyableSellers, noise_rate: float) -> InnerProblem:
        """Return the inner problem at one noise rate."""
        price = self.objective.payment_weight * noise_rate
        return InnerProblem(
            buyable.rows,
            price * buyable.psi,
            (2.0 / noise_rate) * self.choosing_noise,
            self.l2,
            self.objective.concentration,
            buyable.layout,
            self.reading.coef_radius,
        )

    def value_error(self, trial: Evaluated) -> float:
        """Return an estimate of a trial's error: rounding, and what the residuals leave to be gained."""
        eta = trial.noise_rate
        rounding = 2.0**-49 * (abs(trial.inner.value) + self.objective.noise / eta)
        return rounding + trial.inner.residual**2 / (2.0 * self.l2)

    def train(self, buyable: BuyableSellers, best: Evaluated) -> InnerSolution:
        """Return the coefficients for the chosen weights and noise rate, with the noise."""
        eta, weights = best.noise_rate, best.inner.weights
        problem = InnerProblem(
            buyable.rows,
            np.zeros(buyable.psi.size),
            (2.0 / eta) * self.noise,
            self.l2,
            0.0,
            buyable.layout,
            self.reading.coef_radius,
        )
        tolerance = 1e-11 * (1.0 + norm(problem.pull))
        found = minimise_in_ball(
            FixedWeights(problem, weights), best.inner.coefficients, problem.radius, tolerance, 200
        )
        return InnerSolution(found.w, weights, found.point.value, found.residual, found.trace)


@dataclass(frozen=True, eq=False, repr=False)
class BuyableSellers:
    """Sellers who can be bought from at all: those with a finite virtual cost.

    ``positions`` are theirs among all m sellers; ``layout`` is the cap, k/m with all m counted.
    """

    rows: FloatArray
    psi: FloatArray
    positions: IntArray
    layout: tuple[float, int, float]
    largest: float

    @classmethod
    def of(cls, setting: Setting, virtual_costs: FloatArray) -> BuyableSellers:
        """Return who can be bought from at these virtual costs, some of which may be infinite."""
        m, objective = virtual_costs.size, setting.objective
        layout = UNCAPPED
        if objective.weight_cap is not None:
            layout = split_cap(Fraction(objective.weight_cap) / m)
        positions = np.flatnonzero(virtual_costs < np.inf)
        if positions.size < layout[1] + (layout[2] > 0.0):
            raise Infeasible(
                f"expected enough sellers with costs within the support for weights that sum to 1, found "
                f"{positions.size} of {m}: raise weight_cap."
            )
        rows = setting.signed_rows if positions.size == m else setting.signed_rows[positions]
        bound = math.inf if objective.max_mean_epsilon is None else m * objective.max_mean_epsilon
        return cls(rows, virtual_costs[positions], positions, layout, bound)

    def grid(self, setting: Setting) -> FloatArray:
        """Return the grid asked for, or one from the lowest to the highest possible stationary point.

        Stationary noise rates satisfy ``eta^2 = (sigma + 2 b.w)/(gamma <a, psi>)``; the reading bounds the
        numerator, the dearest and the cheapest weights bound the denominator.
        """
        total = setting.signed_rows.shape[0]
        if setting.mean_epsilons is not None:
            return np.asarray(total * setting.mean_epsilons)
        lowest, highest = setting.reading.slack(setting.noise, setting.objective.noise)
        gamma = setting.objective.payment_weight
        problem = setting.problem(self, 1.0)
        cheapest, dearest = (
            float(cheapest_weights(problem, sign * self.psi) @ self.psi) for sign in (1.0, -1.0)
        )
        high = math.sqrt(highest / (gamma * cheapest)) if gamma * cheapest > 0.0 else math.inf
        high = min(high * (1.0 + 1e-9), self.largest)
        if math.isinf(high):
            raise Infeasible(
                "expected a best noise rate, found that more is always better, as sellers cost nothing: "
                "set max_mean_epsilon or pass mean_epsilons."
            )
        low = math.sqrt(lowest / (gamma * dearest)) if gamma * dearest > 0.0 else high
        return covering_grid(min(low * (1.0 - 1e-9), high), high)


@dataclass(frozen=True, eq=False, repr=False)
class Solved:
    """The joint optimum for given virtual costs, with the search that found it."""

    setting: Setting
    buyable: BuyableSellers
    search: Search
    starts: tuple[FloatArray, ...]
    stationary_points: int

    @property
    def best(self) -> Evaluated:
        """The optimum."""
        return self.search.best

    def spread(self, values: FloatArray) -> FloatArray:
        """Return a value for each of all m sellers: 0 for those who cannot be bought from."""
        full = np.zeros(self.setting.signed_rows.shape[0])
        full[self.buyable.positions] = values
        return full

    def moved(self, seller: int, virtual_cost: float) -> Moved:
        """Return the optimum if one bought seller's virtual cost were higher.

        Where the global minimum can be proved, it is. Elsewhere: a higher virtual cost raises the objective
        at every noise rate and every point, so that a noise rate at which the objective already was
        above what the moved problem reaches near the old optimum cannot win; the others are tried again.
        """
        full = np.full(self.setting.signed_rows.shape[0], np.inf)
        full[self.buyable.positions] = self.buyable.psi
        full[seller] = virtual_cost
        buyable = BuyableSellers.of(self.setting, full)
        found = self._best_of(buyable)
        own = np.searchsorted(buyable.positions, seller)
        return Moved(found.value, float(found.inner.weights[own]) * found.noise_rate, found)

    def _best_of(self, buyable: BuyableSellers) -> Evaluated:
        """Return the optimum of a market in which somebody's virtual cost is higher than in this one."""
        evaluate = _Evaluation(self.setting, buyable, self.starts)
        first = self.best.inner.coefficients
        etas = np.array([trial.noise_rate for trial in self.search.grid])
        nearest = int(np.searchsorted(etas, self.best.noise_rate))
        tried = np.zeros(etas.size, dtype=bool)
        tried[max(nearest - 1, 0) : nearest + 2] = True
        near = np.append(etas[tried], self.best.noise_rate)
        if self.setting.provable:
            # The moved market's own range may begin below the grid of this one, and never ends above it.
            lowest = etas[0] if self.setting.mean_epsilons is not None else buyable.grid(self.setting)[0]
            around = np.unique(np.append(near, (min(lowest, etas[0]), etas[-1])))
            return _proved(search(evaluate, around, first), evaluate).best
        found = search(evaluate, np.unique(near), first).best
        possible = np.array([trial.value for trial in self.search.grid]) < found.value
        if self.setting.mean_epsilons is None and possible[0]:
            return search(evaluate, buyable.grid(self.setting), first).best
        if (possible & ~tried).any():
            # Neighbours of what is possible close the valleys.
            wide = possible.copy()
            wide[:-1] |= possible[1:]
            wide[1:] |= possible[:-1]
            again = search(evaluate, etas[wide], first).best
            found = min(found, again, key=lambda trial: trial.value)
        return found

    def without(self, seller: int) -> Exit:
        """Return the optimum without a seller, and the virtual cost at which it lets the seller in.

        The solution without the seller stays stationary as long as the seller's score is no better than the
        worst score that is bought.

        Raises
        ------
        Infeasible
            The others' weights cannot sum to 1.
        """
        full = np.full(self.setting.signed_rows.shape[0], np.inf)
        full[self.buyable.positions] = self.buyable.psi
        full[seller] = np.inf
        buyable = BuyableSellers.of(self.setting, full)
        evaluate = _Evaluation(self.setting, buyable, self.starts)
        found = search(evaluate, buyable.grid(self.setting), self.best.inner.coefficients)
        trial = (_proved(found, evaluate) if self.setting.provable else found).best
        problem = self.setting.problem(buyable, trial.noise_rate)
        w, weights = trial.inner.coefficients, trial.inner.weights
        scores = losses(problem, w) + problem.prices + 2.0 * problem.concentration * weights
        own = float(np.logaddexp(0.0, -(self.setting.signed_rows[seller] @ w)))
        room = float(scores[weights > 0.0].max()) - own
        return Exit(trial.value, max(room / (self.setting.objective.payment_weight * trial.noise_rate), 0.0))


def solve(setting: Setting, virtual_costs: FloatArray) -> Solved:
    """Return the joint optimum for these virtual costs.

    Where convexity is not certain, the starting points are followed to stationary points at the lowest, a
    middle and the highest noise rate of the grid; from then on, whatever was found is tried everywhere.
    """
    buyable = BuyableSellers.of(setting, virtual_costs)
    grid, origin = buyable.grid(setting), np.zeros(setting.noise.size)
    everywhere = _Evaluation(setting, buyable, ())
    if setting.convex:
        found = search(everywhere, grid, origin)
        return Solved(setting, buyable, _proved(found, everywhere) if setting.provable else found, (), 1)
    drawn = (origin, *setting.starts)
    ends = np.unique(grid[[0, grid.size // 2, -1]])
    pool = [point for eta in ends.tolist() for point in _distinct(everywhere.all_from(eta, drawn))]
    known = tuple(point.coefficients for point in _distinct(pool))
    found = search(_Evaluation(setting, buyable, known), grid, origin)
    last = found.best
    starts = (last.inner.coefficients, *known, *drawn)
    points = _distinct(everywhere.all_from(last.noise_rate, starts))
    return Solved(setting, buyable, found, tuple(point.coefficients for point in points), len(points))


class _Evaluation:
    """The inner problem at any noise rate, from the given start and some others; the best one wins."""

    def __init__(self, setting: Setting, buyable: BuyableSellers, extra: tuple[FloatArray, ...]) -> None:
        self.setting, self.buyable, self.extra = setting, buyable, extra

    def all_from(self, noise_rate: float, starts: tuple[FloatArray, ...]) -> list[InnerSolution]:
        problem = self.setting.problem(self.buyable, noise_rate)
        return [self.setting.solver.solve(problem, start) for start in (*starts, *self.extra)]

    def __call__(self, noise_rate: float, start: FloatArray) -> Evaluated:
        inner = min(self.all_from(noise_rate, (start,)), key=lambda solution: solution.value)
        sigma, gamma = self.setting.objective.noise, self.setting.objective.payment_weight
        pull = 2.0 * float(self.setting.choosing_noise @ inner.coefficients)
        spent = gamma * float(inner.weights @ self.buyable.psi)
        return Evaluated(
            noise_rate,
            inner.value + sigma / noise_rate,
            spent - (sigma + pull) / noise_rate**2,
            inner,
        )


def _proved(found: Search, evaluate: _Evaluation) -> Search:
    return prove(found, evaluate, evaluate.setting.objective.noise, _PROVED)


def _distinct(solutions: list[InnerSolution]) -> list[InnerSolution]:
    """Return one of each group of solutions that are the same point, the lowest first."""
    kept: list[InnerSolution] = []
    for solution in sorted(solutions, key=lambda solution: solution.value):
        size = 1.0 + norm(solution.coefficients)
        gaps = [norm(solution.coefficients - other.coefficients) for other in kept]
        if not any(gap <= _SAME_POINT * size for gap in gaps):
            kept.append(solution)
    return kept
