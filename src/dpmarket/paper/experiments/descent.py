"""Theorem `convexify`: projected gradient descent on coefficients and weights, from several starts.

On the breast cancer records: settings that meet the theorem's condition ``2*l2*mu > m``, settings that do not
but are strictly convex by the sharper condition with the rows' squared spectral norm in the place of m, and
settings that meet neither. Several have the same ``2*l2*mu/m`` and differ in how it is divided between l2 and
mu: that, and not the condition, decides how many steps are taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.datasets.bundled import breast_cancer
from dpmarket.mechanisms.joint import JointMechanism, PaperDescent, ReducedSolver
from dpmarket.mechanisms.joint.optimum import BuyableSellers
from dpmarket.mechanisms.joint.solvers import InnerSolution
from dpmarket.paper.experiments.classifiers import split_records
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.solving import draw_descent
from dpmarket.planning.rows import Row
from dpmarket.privacy import SeededNoise


@dataclass(frozen=True)
class DescentConfig:
    """Settings; (l2, mu) pairs are chosen for the 341 sellers of the split."""

    settings: tuple[tuple[float, float], ...] = (
        (20.0, 10.0),
        (1.0, 200.0),
        (5.0, 40.0),
        (100.0, 2.0),
        (10.0, 10.0),
        (1.0, 100.0),
        (1.0, 2.0),
        (0.1, 20.0),
        (1.0, 1.0),
        (0.3, 0.3),
        (0.1, 0.1),
        (0.01, 0.1),
    )
    noise: float = 10.0
    payment_weight: float = 1e-3
    noise_rate: float = 300.0
    starts: int = 5
    points: int = 40
    tolerance: float = 1e-8
    max_iterations: int = 400_000
    seed: int = 0


FULL = DescentConfig()
QUICK = DescentConfig(
    settings=((20.0, 10.0), (1.0, 200.0), (10.0, 10.0), (1.0, 2.0), (0.1, 0.1)),
    starts=2,
    points=12,
    tolerance=1e-5,
)


@dataclass(frozen=True)
class _Task:
    config: DescentConfig
    l2: float
    concentration: float


def compute(config: DescentConfig, work: Work) -> ResultTable:
    """Return, for each setting and start, the gap to the minimum after ever more steps."""
    tasks = [_Task(config, l2, mu) for l2, mu in config.settings]
    return work.table("descent", _rows, tasks, config)


def _rows(task: _Task) -> list[Row]:
    config = task.config
    parts = split_records(breast_cancer(), 0.6, 0.2, config.seed)
    rng = np.random.default_rng([config.seed, 8])
    dist = Uniform(math.exp(-4.0), 5.0 * math.exp(-4.0))
    costs = dist.sample(len(parts.sellers[1]), rng)
    mechanism = JointMechanism(
        dist,
        BuyerObjective(task.concentration, config.noise, config.payment_weight),
        task.l2,
        noise_source=SeededNoise(config.seed),
    )
    setting = mechanism.with_records(*parts.sellers).setting
    problem = setting.problem(BuyableSellers.of(setting, virtual_costs(costs, dist)), config.noise_rate)
    starts = rng.standard_normal((config.starts, parts.n_features))
    newton = [ReducedSolver().solve(problem, start) for start in starts]
    exact = min(newton, key=lambda found: found.value)
    descents = [
        PaperDescent(tolerance=config.tolerance, max_iterations=config.max_iterations).solve(problem, start)
        for start in starts
    ]
    apart = _apart(descents)
    rows = []
    for k, descent in enumerate(descents):
        gaps = np.array(descent.trace) - exact.value
        for step in _steps(gaps.size, config.points):
            rows.append(
                {
                    "l2": task.l2,
                    "concentration": task.concentration,
                    "condition": 2.0 * task.l2 * task.concentration / len(costs),
                    "sharp_condition": setting.convexity,
                    "start": k,
                    "step": step,
                    "gap": float(max(gaps[step], 0.0)),
                    "steps": gaps.size - 1,
                    "newton_steps": len(newton[k].trace) - 1,
                    "apart": apart,
                    "end_gap": float(max(gaps[-1], 0.0)),
                }
            )
    return rows


def _apart(found: list[InnerSolution]) -> float:
    """Return the largest distance between end points (w, a), relative to their length."""
    ends = np.array([np.concatenate([one.coefficients, one.weights]) for one in found])
    distances = np.linalg.norm(ends[:, None] - ends[None, :], axis=2)
    return float(distances.max() / np.linalg.norm(ends, axis=1).max())


def _steps(count: int, points: int) -> list[int]:
    chosen: FloatArray = np.linspace(0, count - 1, points)
    return sorted({round(float(step)) for step in chosen})


DESCENT = Experiment(
    "descent",
    "Paper, theorem `convexify`: projected gradient descent, gap to the minimum against steps",
    FULL,
    QUICK,
    compute,
    draw_descent,
)
