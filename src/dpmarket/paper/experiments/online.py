"""Fig. 3: the proxy loss of online and offline buying, and their ratio, against the number of sellers.

On U[1, 5], as in the paper, where virtual costs have no mass at 0, and on U[0, 1], where the assumption of
the paper's theory holds. The paper does not print its mu, sigma and gamma. Measured in units of
``sqrt(sigma*gamma)`` every loss depends on them through ``mu/sqrt(sigma*gamma)`` alone, whose square is the
column ``scale``, so that several values of gamma stand for all choices.

``literal`` is the paper's Algorithm 3 with the density of virtual costs at the lower end of their range where
it has none at 0, ``literal, f_C`` the same with the density of costs there; ``population`` and ``adaptive``
are this library's curves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective, allocate
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.mechanisms import AdaptiveMechanism, population_curve
from dpmarket.paper import paper_curve
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.online import draw_online
from dpmarket.planning.rows import Row
from dpmarket.planning.scoring import mean_and_standard_error


@dataclass(frozen=True)
class OnlineConfig:
    """Settings: mu = sigma = 1; several gammas, at one of which the adaptive curve is tried as well."""

    supports: tuple[tuple[float, float], ...] = ((1.0, 5.0), (0.0, 1.0))
    sellers: tuple[int, ...] = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    payment_weights: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
    shown_payment_weight: float = 1e-5
    concentration: float = 1.0
    noise: float = 1.0
    draws: int = 12
    seed: int = 0


FULL = OnlineConfig()
QUICK = OnlineConfig(sellers=(30, 100, 1_000, 10_000), payment_weights=(1e-3, 1e-5), draws=2)


@dataclass(frozen=True)
class _Task:
    config: OnlineConfig
    support: tuple[float, float]
    payment_weight: float
    sellers: int


def compute(config: OnlineConfig, work: Work) -> ResultTable:
    """Return one row per cost distribution, payment weight, number of sellers and buyer."""
    tasks = [
        _Task(config, support, gamma, m)
        for support in config.supports
        for gamma in config.payment_weights
        for m in config.sellers
    ]
    return work.table("online", _rows, tasks, config)


def proxy_loss(epsilons: FloatArray, psi: FloatArray, objective: BuyerObjective) -> float:
    """Return ``mu*|eps|/sum(eps) + sigma/sum(eps) + gamma*<eps, psi>``; infinite where nothing is bought.

    Paper, Eq. `Eq: utility privacy tradeoff`.
    """
    total = float(epsilons.sum())
    if total == 0.0:
        return math.inf
    bought = epsilons > 0.0  # virtual costs of others may be infinite
    return (
        objective.concentration * float(np.linalg.norm(epsilons)) / total
        + objective.noise / total
        + objective.payment_weight * float(epsilons[bought] @ psi[bought])
    )


def density_at_zero(dist: Uniform) -> float:
    """Return the density of virtual costs at the lower end of their range: at 0 for costs from 0 on."""
    return 1.0 / (2.0 * (dist.high - dist.low))


def _rows(task: _Task) -> list[Row]:
    config = task.config
    dist = Uniform(*task.support)
    objective = BuyerObjective(config.concentration, config.noise, task.payment_weight)
    curves = {
        "literal": paper_curve(dist, objective, task.sellers, density_at_zero(dist)),
        "population": population_curve(dist, objective, task.sellers),
    }
    if dist.low > 0.0:
        curves["literal, f_C"] = paper_curve(dist, objective, task.sellers, 2.0 * density_at_zero(dist))
    losses: dict[str, list[float]] = {name: [] for name in ("offline", *curves)}
    shown = task.payment_weight == config.shown_payment_weight
    if shown:
        losses["adaptive"] = []
    for draw in range(config.draws):
        costs = dist.sample(task.sellers, np.random.default_rng([config.seed, draw, task.sellers]))
        psi = virtual_costs(costs, dist)
        losses["offline"].append(allocate(psi, objective).objective_value)
        for name, curve in curves.items():
            losses[name].append(proxy_loss(curve.epsilons(costs), psi, objective))
        if shown:
            adaptive = AdaptiveMechanism(dist, objective, task.sellers)
            losses["adaptive"].append(proxy_loss(adaptive.quote_many(costs).epsilons, psi, objective))
    best = np.array(losses["offline"])
    return [
        {
            "low": task.support[0],
            "high": task.support[1],
            "payment_weight": task.payment_weight,
            "scale": round(config.concentration**2 / (config.noise * task.payment_weight)),
            "sellers": task.sellers,
            "buyer": name,
            **_summary("loss", np.array(values)),
            **_summary("ratio", np.array(values) / best),
            "nobody": float(np.mean(np.isinf(values))),
        }
        for name, values in losses.items()
    ]


def _summary(name: str, values: FloatArray) -> Row:
    """Return mean and standard error, or none where a market without purchases makes the mean infinite."""
    if not np.isfinite(values).all():
        return {name: None, f"{name}_se": None}
    mean, spread = mean_and_standard_error(values)
    return {name: mean, f"{name}_se": spread}


ONLINE = Experiment(
    "online", "Paper Fig. 3: online and offline loss, and their ratio, against the number of sellers",
    FULL, QUICK, compute, draw_online,
)  # fmt: skip
