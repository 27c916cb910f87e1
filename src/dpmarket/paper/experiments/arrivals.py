"""Theorem `thm: perf bounds`: what it costs that only a fraction xi of the expected sellers arrives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.mechanisms import population_curve
from dpmarket.paper import paper_curve
from dpmarket.paper.experiments.online import density_at_zero, proxy_loss
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.asymptotic import draw_arrivals
from dpmarket.planning.rows import Row
from dpmarket.planning.scoring import mean_and_standard_error


@dataclass(frozen=True)
class ArrivalsConfig:
    """Settings; costs from U[0, 1], where the theorem's assumption holds."""

    low: float = 0.0
    high: float = 1.0
    expected_sellers: tuple[int, ...] = (1_000, 100_000)
    participations: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    concentration: float = 1.0
    noise: float = 1.0
    payment_weight: float = 1e-3
    draws: int = 50
    seed: int = 0


FULL = ArrivalsConfig()
QUICK = ArrivalsConfig(expected_sellers=(10_000,), participations=(0.1, 0.5, 1.0), draws=10)


@dataclass(frozen=True)
class _Task:
    config: ArrivalsConfig
    expected_sellers: int


def compute(config: ArrivalsConfig, work: Work) -> ResultTable:
    """Return one row per expected number, curve and fraction: loss, and loss over that with everybody."""
    return work.table("arrivals", _rows, [_Task(config, m) for m in config.expected_sellers], config)


def _rows(task: _Task) -> list[Row]:
    config, m = task.config, task.expected_sellers
    dist = Uniform(config.low, config.high)
    objective = BuyerObjective(config.concentration, config.noise, config.payment_weight)
    curves = {
        "literal": paper_curve(dist, objective, m, density_at_zero(dist)),
        "population": population_curve(dist, objective, m),
    }
    rows = []
    for name, curve in curves.items():
        losses = np.empty((config.draws, len(config.participations)))
        for draw in range(config.draws):
            costs = dist.sample(m, np.random.default_rng([config.seed, draw, m]))
            epsilons, psi = curve.epsilons(costs), virtual_costs(costs, dist)
            for k, share in enumerate(config.participations):
                came = round(share * m)
                losses[draw, k] = proxy_loss(epsilons[:came], psi[:came], objective)
        for k, share in enumerate(config.participations):
            loss, loss_se = mean_and_standard_error(losses[:, k])
            ratio, ratio_se = mean_and_standard_error(losses[:, k] / losses[:, -1])
            rows.append(
                {
                    "expected_sellers": m,
                    "curve": name,
                    "participation": share,
                    "loss": loss,
                    "loss_se": loss_se,
                    "ratio": ratio,
                    "ratio_se": ratio_se,
                }
            )
    return rows


ARRIVALS = Experiment(
    "arrivals",
    "Paper, theorem `thm: perf bounds`: online loss when only a fraction of the sellers arrives",
    FULL,
    QUICK,
    compute,
    draw_arrivals,
)
