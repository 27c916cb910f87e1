"""Section IV, discussion: payments do not depend on the loss, nor on how the model is trained.

First, one purchase and several learners that keep its promises: payments and best reports are decided before
any of them reads a record. Then, one payment identity and several buyers, each with a loss of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform
from dpmarket.datasets.bundled import breast_cancer
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.learning.learner import Learner
from dpmarket.learning.reference import OutputPerturbation, SmallestEpsilon
from dpmarket.mechanisms import CheapestK, Mechanism, OfflineMechanism, PostedPrice
from dpmarket.mechanisms.joint import JointMechanism
from dpmarket.paper.experiments.classifiers import split_records
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.payments import draw_independence
from dpmarket.planning.rows import Row
from dpmarket.planning.scoring import mean_and_standard_error
from dpmarket.privacy import NoiseSource, SeededNoise

LEARNERS = {
    "noise in the objective": "noise in the objective (Algorithm 1)",
    "noise on the coefficients": "noise on the coefficients",
    "one epsilon for all": "one epsilon for all, the smallest bought",
}
BUYERS = {
    "excess risk": "excess risk μ|a| + σ/η (the paper)",
    "noise only": "noise only, μ = 0",
    "loss on the records": "loss on the records (Algorithm 4)",
    "posted price": "posted price",
    "cheapest k": "the cheapest k, at the next price",
}


@dataclass(frozen=True)
class IndependenceConfig:
    """Settings of a purchase of breast cancer records, and of a market in which reports are tried."""

    payment_weight: float = 1e-3
    concentration: float = 1.0
    noise: float = 1.0
    noise_draws: int = 15
    seeds: tuple[int, ...] = (0, 1, 2)
    sellers: int = 40
    reports: int = 41
    quantiles: tuple[float, ...] = (0.0, 0.2, 0.5)


FULL = IndependenceConfig()
QUICK = IndependenceConfig(noise_draws=2, seeds=(0,), reports=9, quantiles=(0.2,))


@dataclass(frozen=True)
class _Task:
    config: IndependenceConfig
    kind: str
    name: str
    seed: int


def compute(config: IndependenceConfig, work: Work) -> ResultTable:
    """Return one row per split and learner, and one per buyer: payments, what lying gains, test error."""
    tasks = [_Task(config, "learner", name, seed) for name in LEARNERS for seed in config.seeds]
    tasks += [_Task(config, "buyer", name, 0) for name in BUYERS]
    return work.table("independence", _row, tasks, config)


def _row(task: _Task) -> Row:
    found = _learner(task) if task.kind == "learner" else _buyer(task)
    return {"kind": task.kind, "name": task.name, "seed": task.seed, **found}


def _learner(task: _Task) -> Row:
    config = task.config
    parts = split_records(breast_cancer(), 0.6, 0.2, task.seed)
    low = math.exp(-4.0)
    dist = Uniform(low, 5.0 * low)
    objective = BuyerObjective(config.concentration, config.noise, config.payment_weight)
    mechanism = OfflineMechanism(dist, objective)
    costs = dist.sample(len(parts.sellers[1]), np.random.default_rng([7, task.seed]))
    before = mechanism.run(costs)
    rows, signs = (part[before.epsilons > 0.0] for part in parts.sellers)
    bought = before.epsilons[before.epsilons > 0.0]
    # The split's rows end with a constant, which the learners add themselves.
    rows, test, labels = rows[:, :-1], parts.test[0][:, :-1], parts.test[1]
    errors = []
    for draw in range(config.noise_draws):
        learner = _LEARNERS[task.name](SeededNoise(1_000 * task.seed + draw))
        errors.append(float(np.mean(learner.fit(rows, signs, bought).predict(test) != labels)))
    after = mechanism.run(costs)
    mean, spread = mean_and_standard_error(errors)
    gain, worst = _lies(mechanism, costs, dist, config)
    return {
        "payments": after.total_payment,
        "moved": float(np.abs(after.payments - before.payments).max()),
        "gain": gain,
        "worst": worst,
        "test_error": mean,
        "test_error_se": spread,
    }


def _objective_noise(noise: NoiseSource) -> Learner:
    return PrivateLogisticRegression(classes=(-1.0, 1.0), noise_source=noise)


def _coefficient_noise(noise: NoiseSource) -> Learner:
    return OutputPerturbation(classes=(-1.0, 1.0), noise_source=noise)


def _one_epsilon(noise: NoiseSource) -> Learner:
    return SmallestEpsilon(_objective_noise(noise))


_LEARNERS: dict[str, Callable[[NoiseSource], Learner]] = dict(
    zip(LEARNERS, (_objective_noise, _coefficient_noise, _one_epsilon), strict=True)
)


def _buyer(task: _Task) -> Row:
    config = task.config
    dist = Uniform(1.0, 5.0)
    rng = np.random.default_rng(task.seed)
    costs = dist.sample(config.sellers, rng)
    rows = rng.uniform(-0.5, 0.5, size=(config.sellers, 3))
    signs = np.where(rows[:, 0] + 0.1 * rng.standard_normal(config.sellers) > 0.0, 1.0, -1.0)
    buyers: dict[str, Callable[[], Mechanism]] = {
        "excess risk": lambda: OfflineMechanism(dist, BuyerObjective(1.0, 1.0, 0.01)),
        "noise only": lambda: OfflineMechanism(dist, BuyerObjective(0.0, 1.0, 0.01, weight_cap=4.0)),
        "loss on the records": lambda: JointMechanism(
            dist, BuyerObjective(25.0, 1.0, 0.01), l2=1.0, noise_source=SeededNoise(0)
        ).with_records(rows, signs),
        "posted price": lambda: PostedPrice(dist, epsilon=0.5, price=2.5),
        "cheapest k": lambda: CheapestK(dist, epsilon=0.5, k=10),
    }
    mechanism = buyers[task.name]()
    gain, worst = _lies(mechanism, costs, dist, config)
    return {
        "payments": sum(mechanism.respond(costs, i, cost).payment for i, cost in enumerate(costs.tolist())),
        "moved": None,
        "gain": gain,
        "worst": worst,
        "test_error": None,
        "test_error_se": None,
    }


def _lies(
    mechanism: Mechanism, costs: FloatArray, dist: Uniform, config: IndependenceConfig
) -> tuple[float, float]:
    """Return the largest gain of a lie, as a share of the payment, and the smallest utility of the truth."""
    gain, worst = -math.inf, math.inf
    order = np.argsort(costs)
    for quantile in config.quantiles:
        who = int(order[round(quantile * (costs.size - 1))])
        true = float(costs[who])
        truth = mechanism.respond(costs, who, true)
        honest = truth.payment - true * truth.epsilon
        worst = min(worst, honest)
        for report in np.linspace(*dist.support, config.reports).tolist():
            lie = mechanism.respond(costs, who, report)
            scale = max(truth.payment, lie.payment, 1e-12)
            gain = max(gain, (lie.payment - true * lie.epsilon - honest) / scale)
    return gain, worst


INDEPENDENCE = Experiment(
    "independence", "Paper, discussion in section IV: payments do not depend on the loss",
    FULL, QUICK, compute, draw_independence,
)  # fmt: skip
