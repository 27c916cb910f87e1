"""Lemma `thm: offline perf` and its footnote: how fast the proxy loss falls, and how sure that is.

Costs have a density that is finite and above 0 at 0 (three shapes), or one that rises like ``c^n`` from 0
there, as the footnote to the lemma's assumption allows. Virtual costs are known in closed form for all:

- power n: ``f(c) = (n + 1) c^n`` on [0, 1], ``psi(c) = c (n + 2)/(n + 1)``; n = 0 is U[0, 1];
- wide: U[0, 3], ``psi(c) = 2c``;
- falling: ``f(c)`` proportional to ``exp(-c)`` on [0, 1], ``psi(c) = c + exp(c) - 1``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective, allocate
from dpmarket.arrays import FloatArray
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.rate import draw_rate
from dpmarket.planning.rows import Row


@dataclass(frozen=True)
class RateConfig:
    """Settings: mu = sigma = 1; excess is what lies above ``1 + margin * m**-excess`` leading terms."""

    shapes: tuple[str, ...] = ("power 0", "wide", "falling", "power 1", "power 2")
    payment_weights: tuple[float, ...] = (1e-2, 1e-3)
    sellers: tuple[int, ...] = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
    excess: float = 0.125
    margin: float = 0.05
    draws: int = 1_000
    seed: int = 0


FULL = RateConfig()
QUICK = RateConfig(payment_weights=(1e-2,), sellers=(300, 3_000, 30_000), draws=60)


@dataclass(frozen=True)
class _Task:
    config: RateConfig
    shape: str
    payment_weight: float
    sellers: int


def compute(config: RateConfig, work: Work) -> ResultTable:
    """Return one row per shape, payment weight and number of sellers: mean, spread and excess of the loss."""
    tasks = [
        _Task(config, shape, gamma, m)
        for shape in config.shapes
        for gamma in config.payment_weights
        for m in config.sellers
    ]
    return work.table("rate", _row, tasks, config)


def virtual_quantile(shape: str, shares: FloatArray) -> FloatArray:
    """Return the virtual costs at these shares of the population.

    Examples
    --------
    >>> virtual_quantile("power 1", np.array([0.25, 1.0])).tolist()
    [0.75, 1.5]
    """
    if shape == "wide":
        return 6.0 * shares
    if shape == "falling":
        costs = -np.log1p(-shares * (1.0 - math.exp(-1.0)))
        return np.asarray(costs + np.expm1(costs))
    n = power(shape)
    return np.asarray(shares ** (1.0 / (n + 1)) * ((n + 2) / (n + 1)))


def power(shape: str) -> int:
    """Return the power with which the density of costs rises from 0: 0 where it is above 0 there."""
    return int(shape.split()[1]) if shape.startswith("power") else 0


def density_of_virtual_costs(shape: str) -> float:
    """Return the density of virtual costs at 0, half of that of costs; 0 where it rises from 0."""
    if power(shape):
        return 0.0
    return {"wide": 1.0 / 6.0, "falling": 0.5 / (1.0 - math.exp(-1.0))}.get(shape, 0.5)


def leading_term(mu: float, sigma: float, gamma: float, density: float, sellers: float) -> float:
    """Return the lemma's leading term for ever more sellers, where ``E2`` tends to ``4 f^(-1/4)``.

    Paper, lemma `thm: offline perf`, Eq. `Eq: const`: the densities in it are taken at points that tend to 0.

    Examples
    --------
    >>> round(leading_term(1.0, 1.0, 1e-3, 0.5, 1e4), 4)
    0.0488
    """
    constant = 4.0 * density**-0.25 / math.sqrt(3.0)
    return float(constant * (sigma * mu**2 * gamma / sellers) ** 0.25)


def _row(task: _Task) -> Row:
    config, m = task.config, task.sellers
    objective = BuyerObjective(1.0, 1.0, task.payment_weight)
    losses = np.empty(config.draws)
    for draw in range(config.draws):
        shares = np.random.default_rng([config.seed, draw, m]).random(m)
        losses[draw] = allocate(virtual_quantile(task.shape, shares), objective).objective_value
    density = density_of_virtual_costs(task.shape)
    lead = leading_term(1.0, 1.0, task.payment_weight, density, m) if density else None
    limit = None if lead is None else lead * (1.0 + config.margin * m**-config.excess)
    return {
        "shape": task.shape,
        "power": power(task.shape),
        "scale": round(1.0 / task.payment_weight),
        "sellers": m,
        "loss": float(losses.mean()),
        "loss_se": float(losses.std(ddof=1) / math.sqrt(config.draws)),
        "spread": float(losses.std(ddof=1) / losses.mean()),
        "leading": lead,
        "exceeding": None if limit is None else float(np.mean(losses > limit)),
        "largest": float(losses.max() / losses.mean()),
    }


RATE = Experiment(
    "rate", "Paper, lemma `thm: offline perf`: how fast the proxy loss falls, and how sure that is",
    FULL, QUICK, compute, draw_rate,
)  # fmt: skip
