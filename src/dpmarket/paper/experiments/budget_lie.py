"""Numerical Results, practical usage: a payment weight that is adjusted to a budget after the reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.payments import draw_budget_lie
from dpmarket.planning.rows import Row


@dataclass(frozen=True)
class Room:
    """A small market with costs from U[0, 1] whose first seller tries other reports than the truth."""

    costs: tuple[float, ...]
    budget: float
    weight_cap: float

    @property
    def name(self) -> str:
        """Its settings in words, short."""
        return f"{len(self.costs)} sellers, budget {self.budget:g}, k = {self.weight_cap:g}"


_TEN = tuple(np.linspace(0.08, 0.98, 10).round(2).tolist())


@dataclass(frozen=True)
class BudgetLieConfig:
    """Settings: the first market is the one that is drawn."""

    rooms: tuple[Room, ...] = (
        Room((0.2, 0.5, 0.7), 0.3, 1.8),
        Room((0.2, 0.5, 0.7), 0.1, 1.8),
        Room((0.2, 0.5, 0.7), 1.0, 1.8),
        Room((0.2, 0.5, 0.7), 0.3, 2.4),
        Room((0.6, 0.5, 0.7), 0.3, 1.8),
        Room(_TEN, 0.3, 2.0),
        Room(_TEN, 1.0, 4.0),
    )
    reports: int = 61


@dataclass(frozen=True)
class _Task:
    room: Room
    report: float


def compute(config: BudgetLieConfig, work: Work) -> ResultTable:
    """Return one row per market and report of its first seller: payment weight, and the seller's utility."""
    tasks = []
    for room in config.rooms:
        reports: FloatArray = np.unique(np.append(np.linspace(0.05, 0.95, config.reports), room.costs[0]))
        tasks += [_Task(room, float(report)) for report in reports]
    return work.table("budget-lie", _row, tasks, config)


def _row(task: _Task) -> Row:
    room, dist = task.room, Uniform(0.0, 1.0)
    costs = np.array([task.report, *room.costs[1:]])

    def market(log_weight: float) -> OfflineMechanism:
        return OfflineMechanism(dist, BuyerObjective(1.0, 1.0, float(np.exp(log_weight)), room.weight_cap))

    def adjusted_to(reports: FloatArray) -> OfflineMechanism:
        at = brentq(lambda log: market(log).run(reports).total_payment - room.budget, -8.0, 10.0, xtol=1e-12)
        return market(at)

    after = adjusted_to(costs)
    adjusted, announced = after.run(costs), adjusted_to(np.array(room.costs)).run(costs)
    true = room.costs[0]
    return {
        "market": room.name + f", cost {true:g}",
        "report": task.report,
        "cost": true,
        "payment_weight": after.objective.payment_weight,
        "utility": float(adjusted.payments[0] - true * adjusted.epsilons[0]),
        "utility_fixed_weight": float(announced.payments[0] - true * announced.epsilons[0]),
    }


BUDGET_LIE = Experiment(
    "budget-lie", "Paper, practical usage: a payment weight adjusted to a budget after the reports",
    BudgetLieConfig(), BudgetLieConfig(rooms=BudgetLieConfig().rooms[:2], reports=13), compute,
    draw_budget_lie,
)  # fmt: skip
