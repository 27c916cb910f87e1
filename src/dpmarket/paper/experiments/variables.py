r"""Contributions: the usefulness of the change of variables from epsilons to weights and noise rate.

The appendix objective, with the noise left out of the choice, in two sets of variables: weights a and noise
rate eta, as the paper has it (descent over (w, a) at each eta of a grid), and the promises themselves,
:math:`\epsilon_i = a_i \eta` (descent over (w, epsilon), epsilon at least 0). The direct descent chooses its
step by backtracking, which favours it: no step size is safe everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.datasets.bundled import breast_cancer
from dpmarket.mechanisms.joint import ExpectedPayments, JointMechanism, PaperDescent
from dpmarket.mechanisms.joint.optimum import BuyableSellers
from dpmarket.paper.experiments.classifiers import split_records
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.solving import draw_variables
from dpmarket.planning.rows import Row
from dpmarket.privacy import SeededNoise


@dataclass(frozen=True)
class VariablesConfig:
    """Settings: (l2, mu, sigma); mean epsilons to start from, and a grid of them for the line search."""

    settings: tuple[tuple[float, float, float], ...] = (
        (20.0, 10.0, 10.0),
        (1.0, 200.0, 10.0),
        (1.0, 100.0, 100.0),
        (1.0, 2.0, 10.0),
    )
    payment_weight: float = 1e-3
    starts: tuple[float, ...] = (0.1, 1.0, 10.0)
    grid: tuple[float, ...] = tuple(np.geomspace(0.1, 10.0, 21).tolist())
    accuracy: float = 1e-6
    most: int = 20_000
    points: int = 30
    seed: int = 0


FULL = VariablesConfig()
QUICK = VariablesConfig(settings=((20.0, 10.0, 10.0),), starts=(1.0,), most=500, points=10)


@dataclass(frozen=True)
class _Task:
    config: VariablesConfig
    l2: float
    concentration: float
    noise: float


@dataclass(frozen=True, eq=False)
class _Direct:
    """The objective as a function of coefficients and promises."""

    rows: FloatArray
    psi: FloatArray
    l2: float
    mu: float
    sigma: float
    gamma: float

    def value(self, w: FloatArray, epsilons: FloatArray) -> float:
        total = float(epsilons.sum())
        if not total > 0.0:
            return math.inf
        losses = np.logaddexp(0.0, -(self.rows @ w))
        return (
            float(epsilons @ losses) / total
            + 0.5 * self.l2 * float(w @ w)
            + self.mu * float(epsilons @ epsilons) / total**2
            + self.sigma / total
            + self.gamma * float(epsilons @ self.psi)
        )

    def gradient(self, w: FloatArray, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        total = float(epsilons.sum())
        margins = self.rows @ w
        losses = np.logaddexp(0.0, -margins)
        by_w = self.l2 * w - ((epsilons / total) * expit(-margins)) @ self.rows
        shared = float(epsilons @ losses) / total**2 + 2.0 * self.mu * float(epsilons @ epsilons) / total**3
        by_epsilons = losses / total + 2.0 * self.mu * epsilons / total**2 - shared
        return by_w, by_epsilons - self.sigma / total**2 + self.gamma * self.psi


def descend(problem: _Direct, w: FloatArray, epsilons: FloatArray, enough: float, most: int) -> list[float]:
    """Return the objective after every step of projected descent, until it is low enough or for ``most``."""
    step, value = 1.0, problem.value(w, epsilons)
    trace = [value]
    for _ in range(most):
        by_w, by_epsilons = problem.gradient(w, epsilons)
        step *= 2.0
        while True:
            moved = (w - step * by_w, np.maximum(epsilons - step * by_epsilons, 0.0))
            by = (moved[0] - w, moved[1] - epsilons)
            model = float(by_w @ by[0]) + float(by_epsilons @ by[1])
            length = float(by[0] @ by[0]) + float(by[1] @ by[1])
            reached = problem.value(*moved)
            if reached <= value + model + length / (2.0 * step) + 1e-15:
                break
            step *= 0.5
        (w, epsilons), value = moved, reached
        trace.append(value)
        if value <= enough:
            break
    return trace


def compute(config: VariablesConfig, work: Work) -> ResultTable:
    """Return, for each setting and way of descending, the gap to the optimum after ever more steps."""
    return work.table("variables", _rows, [_Task(config, *setting) for setting in config.settings], config)


def _rows(task: _Task) -> list[Row]:
    config = task.config
    rows, signs = split_records(breast_cancer(), 0.6, 0.2, config.seed).sellers
    m, n = rows.shape
    rng = np.random.default_rng([config.seed, 9])
    low = math.exp(-4.0)
    dist = Uniform(low, 5.0 * low)
    costs = dist.sample(m, rng)
    psi = virtual_costs(costs, dist)
    objective = BuyerObjective(task.concentration, task.noise, config.payment_weight)
    mechanism = JointMechanism(
        dist, objective, task.l2, payments=ExpectedPayments(), noise_source=SeededNoise(0)
    )
    market = mechanism.with_records(rows, signs)
    best = market.run(costs).objective_value
    enough = best + config.accuracy * abs(best)
    w = rng.standard_normal((n,))
    found = []
    direct = _Direct(
        signs[:, None] * rows, psi, task.l2, task.concentration, task.noise, config.payment_weight
    )
    for mean in config.starts:
        trace = descend(direct, w, np.full(m, mean), enough, config.most)
        found += _traced(task, "promises", mean, np.array(trace) / best - 1.0, len(trace) - 1)
    # The paper's way: descent over (w, a) at each noise rate of a grid; the line search keeps the best.
    setting = market.setting
    steps, lowest, longest = 0, math.inf, np.empty(0)
    for mean in config.grid:
        problem = setting.problem(BuyableSellers.of(setting, psi), m * mean)
        solution = PaperDescent(tolerance=1e-7, max_iterations=400_000).solve(problem, w)
        gaps = np.array(solution.trace) - solution.value
        used = int(np.argmax(gaps <= config.accuracy * abs(best)))
        steps += used
        lowest = min(lowest, solution.value + task.noise / (m * mean))
        if used >= longest.size - 1:
            longest = gaps[: used + 1] / best
    found += _traced(task, "weights", 0.0, np.maximum(longest, 0.0), longest.size - 1)
    for row in found:
        row |= {"line_search_steps": steps, "line_search_gap": lowest / best - 1.0}
    return found


def _traced(task: _Task, variables: str, start: float, gaps: FloatArray, steps: int) -> list[Row]:
    chosen = sorted({round(float(k)) for k in np.linspace(0, gaps.size - 1, task.config.points)})
    return [
        {
            "l2": task.l2,
            "concentration": task.concentration,
            "noise": task.noise,
            "variables": variables,
            "start": start,
            "step": k,
            "gap": float(max(gaps[k], 0.0)),
            "steps": steps,
            "end_gap": float(max(gaps[-1], 0.0)),
        }
        for k in chosen
    ]


VARIABLES = Experiment(
    "variables", "Paper, contributions: descent over promises, and over weights at a given noise rate",
    FULL, QUICK, compute, draw_variables,
)  # fmt: skip
