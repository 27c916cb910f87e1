"""Fig. 1: the interaction between sellers and platform, in its order, with the numbers of a small market.

The second part replaces one record and looks whether anybody's payment moves: it must not where sellers are
paid before they hand over their data (Algorithm 2), and it does where the records decide (Algorithm 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.mechanisms.joint import JointMechanism
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.interaction import draw_interaction
from dpmarket.planning.rows import Row
from dpmarket.privacy import SeededNoise


@dataclass(frozen=True)
class InteractionConfig:
    """Settings: three sellers for the picture, forty for the payments; costs from U[1, 5]."""

    costs: tuple[float, ...] = (1.4, 2.6, 4.3)
    sellers: int = 40
    payment_weights: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    replaced: int = 8
    seed: int = 0


FULL = InteractionConfig()
QUICK = InteractionConfig(payment_weights=(1e-2,), replaced=2)


@dataclass(frozen=True)
class _Task:
    config: InteractionConfig
    mechanism: str
    payment_weight: float


def compute(config: InteractionConfig, work: Work) -> ResultTable:
    """Return the steps of the interaction, and one row per mechanism and payment weight."""
    tasks = [_Task(config, "steps", 0.0)]
    tasks += [_Task(config, name, g) for name in ("offline", "joint") for g in config.payment_weights]
    return work.table("interaction", _rows, tasks, config)


def _rows(task: _Task) -> list[Row]:
    if task.mechanism == "steps":
        return _steps(task.config)
    blank = {"step": 0, "sender": "", "receiver": "", "message": "", "detail": ""}
    return [
        {
            **blank,
            "mechanism": task.mechanism,
            "payment_weight": task.payment_weight,
            "moved": _moved(task),
        }
    ]


def _steps(config: InteractionConfig) -> list[Row]:
    dist = Uniform(1.0, 5.0)
    costs = np.array(config.costs)
    outcome = OfflineMechanism(dist, BuyerObjective(1.0, 1.0, 0.05)).run(costs)
    model = PrivateLogisticRegression(classes=(-1.0, 1.0), noise_source=SeededNoise(config.seed))
    records = np.array([[0.5], [-0.4], [0.2]])
    model.fit(records, [1.0, -1.0, 1.0], epsilons=outcome.epsilons)

    def shown(values: object) -> str:
        return ", ".join(f"{value:.2f}" for value in np.ravel(np.asarray(values, dtype=float)))

    phrases = (
        ("sellers", "platform", "report what privacy costs them, c'", f"c' = {shown(costs)}"),
        (
            "platform",
            "sellers",
            "promises ε and pays t, from c' alone",
            f"ε = {shown(outcome.epsilons)};  t = {shown(outcome.payments)}",
        ),
        ("sellers", "platform", "hand over their data (x, y)", f"{len(records)} records"),
        ("platform", "public", "trains with noise, publishes w", "ε-private for each of them"),
    )
    return [
        {
            "step": k + 1,
            "sender": sender,
            "receiver": receiver,
            "message": message,
            "detail": detail,
            "mechanism": "steps",
            "payment_weight": None,
            "moved": None,
        }
        for k, (sender, receiver, message, detail) in enumerate(phrases)
    ]


def _moved(task: _Task) -> float:
    """Return the largest change of anybody's payment, relative to the mean, when one record is replaced."""
    config, dist = task.config, Uniform(1.0, 5.0)
    rng = np.random.default_rng(config.seed)
    costs = dist.sample(config.sellers, rng)
    rows = rng.uniform(-0.5, 0.5, size=(config.sellers, 3))
    signs = np.where(rows[:, 0] + 0.1 * rng.standard_normal(config.sellers) > 0.0, 1.0, -1.0)

    def payments(labels: FloatArray) -> FloatArray:
        if task.mechanism == "offline":
            return OfflineMechanism(dist, BuyerObjective(1.0, 1.0, task.payment_weight)).run(costs).payments
        objective = BuyerObjective(25.0, 1.0, task.payment_weight)
        mechanism = JointMechanism(dist, objective, l2=1.0, noise_source=SeededNoise(0))
        return mechanism.run(costs, rows, labels).payments

    before = payments(signs)
    largest = 0.0
    for who in np.argsort(costs)[: config.replaced]:
        labels = signs.copy()
        labels[who] *= -1.0
        largest = max(largest, float(np.abs(payments(labels) - before).max() / before.mean()))
    return largest


INTERACTION = Experiment(
    "interaction", "Paper Fig. 1: the interaction between sellers and platform",
    FULL, QUICK, compute, draw_interaction,
)  # fmt: skip
