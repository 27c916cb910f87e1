r"""Algorithm `alg:mechanism-base`: where its line search ends, with the noise drawn as printed.

With :math:`w = -2b/(\eta\Lambda)` the objective is about
:math:`\sigma/\eta - 2|b|^2/(\Lambda\eta^2)` for small eta. It is below the best value inside as soon as the
grid reaches down to about :math:`2|b|^2/(\Lambda\sigma)`, and falls without bound below that. Two readings
have a minimum inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import Uniform
from dpmarket.datasets.bundled import breast_cancer
from dpmarket.mechanisms.joint import (
    AsPrinted,
    BoundedCoefficients,
    ExpectedNoise,
    ExpectedPayments,
    JointMechanism,
)
from dpmarket.mechanisms.joint.readings import Reading
from dpmarket.paper.experiments.classifiers import split_records
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.solving import draw_printed
from dpmarket.planning.rows import Row
from dpmarket.privacy import SeededNoise


@dataclass(frozen=True)
class PrintedConfig:
    """Settings: (l2, sigma) pairs, lower ends of the grid of mean epsilons, and draws of the noise."""

    settings: tuple[tuple[float, float], ...] = (
        (1.0, 100.0),
        (1.0, 10.0),
        (1.0, 1_000.0),
        (0.1, 100.0),
        (10.0, 100.0),
    )
    lowest: tuple[float, ...] = (0.1, 1e-4, 1e-3, 1e-2, 0.03, 0.3)
    highest: float = 30.0
    grid: int = 15
    concentration: float = 100.0
    payment_weight: float = 1e-3
    coef_radius: float = 0.5
    draws: int = 6
    seed: int = 0


FULL = PrintedConfig()
QUICK = PrintedConfig(settings=((1.0, 100.0), (10.0, 100.0)), lowest=(0.1, 1e-3), grid=6, draws=2)


@dataclass(frozen=True)
class _Task:
    config: PrintedConfig
    reading: str
    l2: float
    noise: float
    draw: int


def compute(config: PrintedConfig, work: Work) -> ResultTable:
    """Return the objective at every mean epsilon, and where the line search ends, draw by draw."""
    tasks = [
        _Task(config, reading, l2, sigma, draw)
        for l2, sigma in config.settings
        for draw in range(config.draws)
        for reading in ("as printed", "expected noise", "bounded coefficients")
        if reading == "as printed" or ((l2, sigma) == config.settings[0] and draw == 0)
    ]
    return work.table("printed", _rows, tasks, config)


def _rows(task: _Task) -> list[Row]:
    config = task.config
    parts = split_records(breast_cancer(), 0.6, 0.2, config.seed)
    dist = Uniform(math.exp(-4.0), 5.0 * math.exp(-4.0))
    costs = dist.sample(len(parts.sellers[1]), np.random.default_rng(config.seed))
    readings: dict[str, Reading] = {
        "as printed": AsPrinted(),
        "expected noise": ExpectedNoise(),
        "bounded coefficients": BoundedCoefficients(config.coef_radius),
    }
    objective = BuyerObjective(config.concentration, task.noise, config.payment_weight)
    rows: list[Row] = []
    for lowest in config.lowest:
        mechanism = JointMechanism(
            dist,
            objective,
            task.l2,
            reading=readings[task.reading],
            payments=ExpectedPayments(),
            mean_epsilons=np.geomspace(lowest, config.highest, config.grid).tolist(),
            noise_source=SeededNoise(task.draw),
        )
        market = mechanism.with_records(*parts.sellers)
        length = float(np.linalg.norm(market.setting.noise))
        outcome = market.run(costs)
        rows += [
            {
                "reading": task.reading,
                "l2": task.l2,
                "noise": task.noise,
                "draw": task.draw,
                "lowest": lowest,
                "mean_epsilon": float(eta) / costs.size,
                "objective": float(value),
                "chosen": outcome.epsilons.sum() / costs.size,
                "edge": outcome.edge,
                "turning": 2.0 * length**2 / (task.l2 * task.noise * costs.size),
            }
            for eta, value in zip(outcome.grid, outcome.grid_values, strict=True)
        ]
    return rows


PRINTED = Experiment(
    "printed", "Paper, Algorithm `alg:mechanism-base`: where its line search ends",
    FULL, QUICK, compute, draw_printed,
)  # fmt: skip
