"""Lemma `mech design`: expected payments equal expected virtual cost, and truth is the best report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.payments import draw_payments, draw_reports
from dpmarket.planning.rows import Row
from dpmarket.planning.scoring import mean_and_standard_error

Support = tuple[float, float]


@dataclass(frozen=True)
class PaymentsConfig:
    """Settings of the comparison of expectations."""

    supports: tuple[Support, ...] = ((1.0, 5.0), (0.0, 1.0))
    sellers: tuple[int, ...] = (5, 20, 100, 500)
    payment_weights: tuple[float, ...] = (1e-3, 1e-1)
    draws: int = 2_000
    seed: int = 0


@dataclass(frozen=True)
class _PaymentTask:
    config: PaymentsConfig
    support: Support
    sellers: int
    payment_weight: float


def compute_payments(config: PaymentsConfig, work: Work) -> ResultTable:
    """Return one row per costs, number of sellers and payment weight: both means, and their difference."""
    tasks = [
        _PaymentTask(config, support, m, gamma)
        for support in config.supports
        for m in config.sellers
        for gamma in config.payment_weights
    ]
    return work.table("payments", _payment_row, tasks, config)


def _payment_row(task: _PaymentTask) -> Row:
    dist = Uniform(*task.support)
    mechanism = OfflineMechanism(dist, BuyerObjective(1.0, 1.0, task.payment_weight))
    paid, virtual = np.empty(task.config.draws), np.empty(task.config.draws)
    for draw in range(task.config.draws):
        costs = dist.sample(task.sellers, np.random.default_rng([task.config.seed, draw, task.sellers]))
        outcome = mechanism.run(costs)
        paid[draw] = outcome.total_payment
        virtual[draw] = virtual_costs(costs, dist) @ outcome.epsilons
    difference, difference_se = mean_and_standard_error(paid - virtual)
    return {
        "low": task.support[0],
        "high": task.support[1],
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
class Town:
    """A market in which a few sellers try every report; ``weight_cap`` is the paper's k, 0 for none."""

    low: float
    high: float
    sellers: int
    payment_weight: float
    weight_cap: float

    @property
    def name(self) -> str:
        """Its settings in words, short."""
        cap = f", k = {self.weight_cap:g}" if self.weight_cap else ""
        return f"U[{self.low:g}, {self.high:g}], m = {self.sellers}, γ = {self.payment_weight:g}{cap}"


@dataclass(frozen=True)
class ReportsConfig:
    """Settings: the first market is the one that is drawn."""

    towns: tuple[Town, ...] = (
        Town(1.0, 5.0, 100, 1e-3, 0.0),
        Town(1.0, 5.0, 100, 1e-1, 0.0),
        Town(1.0, 5.0, 10, 1e-3, 0.0),
        Town(1.0, 5.0, 100, 1e-3, 2.0),
        Town(0.0, 1.0, 100, 1e-3, 0.0),
        Town(0.0, 1.0, 1_000, 1e-2, 4.0),
    )
    quantiles: tuple[float, ...] = (0.1, 0.3, 0.6)
    reports: int = 161
    seed: int = 0


@dataclass(frozen=True)
class _ReportTask:
    config: ReportsConfig
    town: Town
    quantile: float


def compute_reports(config: ReportsConfig, work: Work) -> ResultTable:
    """Return one row per market, seller and report: epsilon, payment, and utility at the true cost."""
    tasks = [_ReportTask(config, town, q) for town in config.towns for q in config.quantiles]
    return work.table("reports", _report_rows, tasks, config)


def _report_rows(task: _ReportTask) -> list[Row]:
    config, town = task.config, task.town
    dist = Uniform(town.low, town.high)
    objective = BuyerObjective(1.0, 1.0, town.payment_weight, town.weight_cap or None)
    mechanism = OfflineMechanism(dist, objective)
    costs = dist.sample(town.sellers, np.random.default_rng(config.seed))
    who = int(np.argsort(costs)[round(task.quantile * (town.sellers - 1))])
    true = float(costs[who])
    reports = np.unique(np.append(np.linspace(town.low, town.high, config.reports), true))
    curve = mechanism.response_curve(costs, who, reports)
    utilities = curve.utilities(true)
    return [
        {
            "market": town.name,
            "seller": f"cost {true:.2f}",
            "cost": true,
            "report": float(reports[k]),
            "epsilon": float(curve.epsilons[k]),
            "payment": float(curve.payments[k]),
            "utility": float(utilities[k]),
        }
        for k in range(reports.size)
    ]


PAYMENTS = Experiment(
    "payments", "Paper, lemma `mech design`: expected payments and expected virtual cost",
    PaymentsConfig(),
    PaymentsConfig(supports=((1.0, 5.0),), sellers=(5,), payment_weights=(1e-1,), draws=300),
    compute_payments, draw_payments,
)  # fmt: skip
REPORTS = Experiment(
    "reports", "Paper, lemma `mech design`: a seller's utility against the report",
    ReportsConfig(), ReportsConfig(towns=ReportsConfig().towns[:3], reports=41),
    compute_reports, draw_reports,
)  # fmt: skip
