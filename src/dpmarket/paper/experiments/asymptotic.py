"""Theorem `thm: asymptotic`: the buyer's objective, error plus payments, on separable data with a margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform
from dpmarket.mechanisms import Curve, OfflineMechanism, population_curve
from dpmarket.paper import paper_curve
from dpmarket.paper.experiments.classifiers import draw_noise, error, train
from dpmarket.paper.experiments.online import density_at_zero
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.asymptotic import draw_asymptotic
from dpmarket.planning.rows import Row
from dpmarket.planning.scoring import mean_and_standard_error

_LENGTH = 4.0  # standard deviations beyond which a row is shortened
_L2 = 1e-6  # the ball bounds the coefficients; this only makes the minimiser unique


@dataclass(frozen=True)
class AsymptoticConfig:
    """Settings; costs from U[0, 1], where the theorem's assumption holds."""

    sellers: tuple[int, ...] = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
    features: int = 5
    margin: float = 1.0
    coef_radii: tuple[float, ...] = (5.0, 20.0)
    concentration: float = 1.0
    noise: float = 1.0
    payment_weight: float = 1e-3
    allowance: float = 0.1
    test_records: int = 4_000
    draws: int = 40
    seed: int = 0


FULL = AsymptoticConfig()
QUICK = AsymptoticConfig(sellers=(100, 10_000), coef_radii=(20.0,), draws=8)


@dataclass(frozen=True)
class _Task:
    config: AsymptoticConfig
    sellers: int


def compute(config: AsymptoticConfig, work: Work) -> ResultTable:
    """Return one row per number of sellers, buyer and coefficient radius."""
    return work.table("asymptotic", _rows, [_Task(config, m) for m in config.sellers], config)


def separable_rows(
    records: int, normal: FloatArray, margin: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, float]:
    """Return rows in the unit ball, labels by ``normal``, and their margin (`assumption: sep`)."""
    x = rng.standard_normal((records, normal.size))
    signs = np.where(x @ normal > 0.0, 1.0, -1.0)
    x += (signs * margin)[:, None] * normal
    rows = x / np.maximum(np.linalg.norm(x, axis=1), _LENGTH)[:, None]
    return rows, signs, float((signs * (rows @ normal)).min())


def _rows(task: _Task) -> list[Row]:
    config, m = task.config, task.sellers
    dist = Uniform(0.0, 1.0)
    objective = BuyerObjective(config.concentration, config.noise, config.payment_weight)
    curves = {
        "literal": paper_curve(dist, objective, m, density_at_zero(dist)),
        "population": population_curve(dist, objective, m),
    }
    found: dict[tuple[str, float], list[tuple[float, float, float]]] = {}
    for draw in range(config.draws):
        rng = np.random.default_rng([config.seed, draw, m])
        normal = rng.standard_normal(config.features)
        normal /= np.linalg.norm(normal)
        rows, signs, margin = separable_rows(m, normal, config.margin, rng)
        test = separable_rows(config.test_records, normal, config.margin, rng)[:2]
        costs = dist.sample(m, rng)
        noise = draw_noise(config.features, rng)
        outcome = OfflineMechanism(dist, objective).run(costs)
        promises = {"offline": (outcome.epsilons, outcome.total_payment)}
        promises |= {name: _online(curve, costs) for name, curve in curves.items()}
        for name, (epsilons, paid) in promises.items():
            eta = float(epsilons.sum())
            for radius in config.coef_radii:
                w = train(rows, signs, epsilons / eta, 2.0 * noise / eta, _L2, radius)
                found.setdefault((name, radius), []).append((error(w, *test), paid, margin))
    return [_row(config, m, name, radius, np.array(values)) for (name, radius), values in found.items()]


def _online(curve: Curve, costs: FloatArray) -> tuple[FloatArray, float]:
    offers = curve.offers(costs)
    return offers.epsilons, float(offers.payments.sum())


def _row(config: AsymptoticConfig, m: int, name: str, radius: float, values: FloatArray) -> Row:
    errors, payments, margins = values.T
    totals = errors + config.payment_weight * payments
    floors = np.logaddexp(0.0, -margins * radius)
    mean, spread = mean_and_standard_error(totals)
    return {
        "sellers": m,
        "buyer": name,
        "coef_radius": radius,
        "objective": mean,
        "objective_se": spread,
        "error": float(errors.mean()),
        "payments": float(payments.mean()),
        "margin": float(margins.mean()),
        "floor": float(floors.mean()),
        "exceeding": float(np.mean(totals >= floors + config.allowance)),
        "draws": config.draws,
    }


ASYMPTOTIC = Experiment(
    "asymptotic", "Paper, theorem `thm: asymptotic`: the buyer's objective on separable data",
    FULL, QUICK, compute, draw_asymptotic,
)  # fmt: skip
