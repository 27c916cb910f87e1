"""Section IV, remark: the cap k/m on weights bounds every promise by k times the mean promise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective, allocate
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.payments import draw_cap
from dpmarket.planning.rows import Row


@dataclass(frozen=True)
class CapConfig:
    """Settings: mu = sigma = 1; caps k, of which 0 means none."""

    supports: tuple[tuple[float, float], ...] = ((1.0, 5.0), (0.0, 1.0))
    sellers: tuple[int, ...] = (20, 200, 2_000)
    weight_caps: tuple[float, ...] = (1.0, 1.5, 2.0, 4.0, 8.0, 0.0)
    payment_weights: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    draws: int = 20
    seed: int = 0


FULL = CapConfig()
QUICK = CapConfig(sellers=(200,), weight_caps=(1.0, 2.0, 0.0), payment_weights=(1e-3, 1e-1), draws=3)


@dataclass(frozen=True)
class _Task:
    config: CapConfig
    support: tuple[float, float]
    sellers: int
    weight_cap: float


def compute(config: CapConfig, work: Work) -> ResultTable:
    """Return one row per costs, sellers, cap and payment weight: the largest promise over the mean."""
    tasks = [
        _Task(config, support, m, k)
        for support in config.supports
        for m in config.sellers
        for k in config.weight_caps
    ]
    return work.table("cap", _rows, tasks, config)


def _rows(task: _Task) -> list[Row]:
    config, dist = task.config, Uniform(*task.support)
    rows = []
    for gamma in config.payment_weights:
        objective = BuyerObjective(1.0, 1.0, gamma, task.weight_cap or None)
        ratios, values = np.empty(config.draws), np.empty(config.draws)
        for draw in range(config.draws):
            costs = dist.sample(task.sellers, np.random.default_rng([config.seed, draw, task.sellers]))
            found = allocate(virtual_costs(costs, dist), objective)
            ratios[draw] = found.epsilons.max() / found.epsilons.mean()
            values[draw] = found.objective_value
        rows.append(
            {
                "low": task.support[0],
                "high": task.support[1],
                "sellers": task.sellers,
                "weight_cap": task.weight_cap,
                "payment_weight": gamma,
                "largest": float(ratios.max()),
                "mean": float(ratios.mean()),
                "loss": float(values.mean()),
            }
        )
    return rows


CAP = Experiment(
    "cap", "Paper, remark in section IV: the largest promise over the mean promise, against the cap k",
    FULL, QUICK, compute, draw_cap,
)  # fmt: skip
