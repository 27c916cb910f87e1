"""Algorithm `alg:mechanism-base`: the printed objective has no minimum, two readings of it have one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import Uniform
from dpmarket.datasets.bundled import breast_cancer
from dpmarket.paper.experiments.classifiers import split_records
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.lines import draw_printed
from dpmarket.paper.joint import (
    AsPrinted,
    BoundedCoefficients,
    ExpectedNoise,
    ExpectedPayments,
    JointMechanism,
)
from dpmarket.paper.joint.readings import Reading
from dpmarket.planning.rows import Row
from dpmarket.privacy import SeededNoise


@dataclass(frozen=True)
class PrintedConfig:
    """Settings: one market on the breast cancer records, one noise vector, ever smaller noise rates."""

    mean_epsilons: tuple[float, ...] = tuple(np.geomspace(1e-4, 10.0, 21).tolist())
    concentration: float = 100.0
    noise: float = 100.0
    l2: float = 1.0
    payment_weight: float = 1e-3
    coef_radius: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class _Task:
    config: PrintedConfig
    reading: str


def compute(config: PrintedConfig, work: Work) -> ResultTable:
    """Return the objective, minimised over coefficients and weights, at every mean epsilon and reading."""
    tasks = [_Task(config, name) for name in ("as printed", "expected noise", "bounded coefficients")]
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
    mechanism = JointMechanism(
        dist,
        BuyerObjective(config.concentration, config.noise, config.payment_weight),
        config.l2,
        reading=readings[task.reading],
        payments=ExpectedPayments(),
        mean_epsilons=list(config.mean_epsilons),
        noise_source=SeededNoise(config.seed),
    )
    outcome = mechanism.run(costs, *parts.sellers)
    return [
        {
            "reading": task.reading,
            "mean_epsilon": mean,
            "objective": float(value),
            "chosen": outcome.noise_rate / costs.size,
            "edge": outcome.edge,
        }
        for mean, value in zip(config.mean_epsilons, outcome.grid_values, strict=True)
    ]


PRINTED = Experiment(
    "printed", "The appendix objective against the noise rate, in three readings",
    PrintedConfig(), PrintedConfig(mean_epsilons=(1e-3, 1e-2, 0.1, 1.0, 10.0)), compute, draw_printed,
)  # fmt: skip
