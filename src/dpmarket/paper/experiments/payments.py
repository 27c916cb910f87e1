"""Lemma `mech design`: expected payments equal expected virtual cost, and truth is the best report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.payments import draw_budget_lie, draw_payments, draw_reports
from dpmarket.planning.rows import Row
from dpmarket.planning.scoring import mean_and_standard_error


@dataclass(frozen=True)
class PaymentsConfig:
    """Settings of the comparison of expectations; costs from U[1, 5]."""

    sellers: tuple[int, ...] = (5, 20, 100, 500)
    payment_weights: tuple[float, ...] = (1e-3, 1e-1)
    draws: int = 2_000
    seed: int = 0


@dataclass(frozen=True)
class _PaymentTask:
    config: PaymentsConfig
    sellers: int
    payment_weight: float


def compute_payments(config: PaymentsConfig, work: Work) -> ResultTable:
    """Return one row per number of sellers and payment weight: both means, and their difference's error."""
    tasks = [_PaymentTask(config, m, gamma) for m in config.sellers for gamma in config.payment_weights]
    return work.table("payments", _payment_row, tasks, config)


def _payment_row(task: _PaymentTask) -> Row:
    dist = Uniform(1.0, 5.0)
    mechanism = OfflineMechanism(dist, BuyerObjective(1.0, 1.0, task.payment_weight))
    paid, virtual = np.empty(task.config.draws), np.empty(task.config.draws)
    for draw in range(task.config.draws):
        costs = dist.sample(task.sellers, np.random.default_rng([task.config.seed, draw, task.sellers]))
        outcome = mechanism.run(costs)
        paid[draw] = outcome.total_payment
        virtual[draw] = virtual_costs(costs, dist) @ outcome.epsilons
    difference, difference_se = mean_and_standard_error(paid - virtual)
    return {
        "sellers": task.sellers,
        "payment_weight": task.payment_weight,
        "draws": task.config.draws,
        "payments": float(paid.mean()),
        "virtual": float(virtual.mean()),
        "difference": difference,
        "difference_se": difference_se,
        "single_market": float(np.abs(paid / virtual - 1.0).mean()),
    }


@dataclass(frozen=True)
class ReportsConfig:
    """Settings of one market of 100 sellers from U[1, 5], in which three sellers try every report."""

    sellers: int = 100
    payment_weight: float = 1e-3
    quantiles: tuple[float, ...] = (0.1, 0.3, 0.6)
    reports: int = 161
    seed: int = 0


@dataclass(frozen=True)
class _ReportTask:
    config: ReportsConfig
    quantile: float


def compute_reports(config: ReportsConfig, work: Work) -> ResultTable:
    """Return one row per seller and report: epsilon, payment, and utility at the seller's true cost."""
    return work.table("reports", _report_rows, [_ReportTask(config, q) for q in config.quantiles], config)


def _report_rows(task: _ReportTask) -> list[Row]:
    config = task.config
    dist = Uniform(1.0, 5.0)
    mechanism = OfflineMechanism(dist, BuyerObjective(1.0, 1.0, config.payment_weight))
    costs = dist.sample(config.sellers, np.random.default_rng(config.seed))
    who = int(np.argsort(costs)[round(task.quantile * (config.sellers - 1))])
    true = float(costs[who])
    reports = np.unique(np.append(np.linspace(1.0, 5.0, config.reports), true))
    curve = mechanism.response_curve(costs, who, reports)
    utilities = curve.utilities(true)
    return [
        {
            "seller": f"cost {true:.2f}",
            "cost": true,
            "report": float(reports[k]),
            "epsilon": float(curve.epsilons[k]),
            "payment": float(curve.payments[k]),
            "utility": float(utilities[k]),
        }
        for k in range(reports.size)
    ]


@dataclass(frozen=True)
class BudgetLieConfig:
    """Settings of a market of three whose payment weight is adjusted, after the reports, to a budget."""

    costs: tuple[float, float, float] = (0.2, 0.5, 0.7)
    budget: float = 0.3
    weight_cap: float = 1.8
    reports: int = 61


@dataclass(frozen=True)
class _LieTask:
    config: BudgetLieConfig
    report: float


def compute_budget_lie(config: BudgetLieConfig, work: Work) -> ResultTable:
    """Return one row per report of the first seller: payment weight, and the seller's utility."""
    reports: FloatArray = np.unique(np.append(np.linspace(0.05, 0.95, config.reports), config.costs[0]))
    return work.table("budget-lie", _lie_row, [_LieTask(config, float(r)) for r in reports], config)


def _lie_row(task: _LieTask) -> Row:
    config, dist = task.config, Uniform(0.0, 1.0)
    costs = np.array([task.report, *config.costs[1:]])

    def market(log_weight: float) -> OfflineMechanism:
        return OfflineMechanism(dist, BuyerObjective(1.0, 1.0, float(np.exp(log_weight)), config.weight_cap))

    weight = brentq(lambda at: market(at).run(costs).total_payment - config.budget, -6.0, 8.0, xtol=1e-12)
    adjusted = market(weight).run(costs)
    truthful = np.array(config.costs)
    announced = brentq(
        lambda at: market(at).run(truthful).total_payment - config.budget, -6.0, 8.0, xtol=1e-12
    )
    fixed = market(announced).run(costs)
    true = config.costs[0]
    return {
        "report": task.report,
        "cost": true,
        "payment_weight": float(np.exp(weight)),
        "utility": float(adjusted.payments[0] - true * adjusted.epsilons[0]),
        "utility_fixed_weight": float(fixed.payments[0] - true * fixed.epsilons[0]),
    }


PAYMENTS = Experiment(
    "payments", "Expected payments and expected virtual cost",
    PaymentsConfig(), PaymentsConfig(sellers=(5,), payment_weights=(1e-1,), draws=300),
    compute_payments, draw_payments,
)  # fmt: skip
REPORTS = Experiment(
    "reports", "A seller's utility against the report", ReportsConfig(), ReportsConfig(reports=41),
    compute_reports, draw_reports,
)  # fmt: skip
BUDGET_LIE = Experiment(
    "budget-lie", "A payment weight adjusted to a budget after the reports makes lying pay",
    BudgetLieConfig(), BudgetLieConfig(reports=13), compute_budget_lie, draw_budget_lie,
)  # fmt: skip
