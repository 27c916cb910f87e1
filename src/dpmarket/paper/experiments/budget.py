"""Contributions: the budget for a given loss is bounded, because the buyer can choose whom to buy from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import Uniform
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.bounds import draw_budget
from dpmarket.planning.rows import Row
from dpmarket.planning.targets import budget_for_loss


@dataclass(frozen=True)
class BudgetConfig:
    """Settings; the target is the excess risk mu*|a| + sigma/eta."""

    supports: tuple[tuple[float, float], ...] = ((1.0, 5.0), (0.0, 1.0))
    targets: tuple[float, ...] = (0.1, 0.2)
    sellers: tuple[int, ...] = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
    concentration: float = 1.0
    noise: float = 1.0
    seed: int = 0


FULL = BudgetConfig()
QUICK = BudgetConfig(targets=(0.1,), sellers=(100, 1_000, 10_000))


@dataclass(frozen=True)
class _Task:
    config: BudgetConfig
    support: tuple[float, float]
    target: float
    sellers: int


def compute(config: BudgetConfig, work: Work) -> ResultTable:
    """Return one row per cost distribution, target and number of sellers."""
    tasks = [
        _Task(config, support, target, m)
        for support in config.supports
        for target in config.targets
        for m in config.sellers
    ]
    return work.table("budget", _row, tasks, config)


def _row(task: _Task) -> Row:
    config = task.config
    objective = BuyerObjective(config.concentration, config.noise, 1.0)
    rng = np.random.default_rng(config.seed)
    found = budget_for_loss(Uniform(*task.support), objective, task.target, (task.sellers,), rng)
    budget = found.budgets[0]
    return {
        "low": task.support[0],
        "high": task.support[1],
        "target": task.target,
        "sellers": task.sellers,
        "budget": budget if math.isfinite(budget) else None,
        "limit": found.limit,
    }


BUDGET = Experiment(
    "budget", "Paper, contributions: the budget that a given excess risk takes, against the number of "
    "sellers",
    FULL, QUICK, compute, draw_budget,
)  # fmt: skip
