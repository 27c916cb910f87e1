"""Proposition `algoproof`: the claimed privacy loss, this library's, and the largest that was found.

The first table replaces one record of weight a while everything else is fixed, as the proposition assumes.
The second lets the weights depend on the records, as the appendix algorithm does, and compares the exact loss
with what the formulas say about the weights of either data set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import Uniform
from dpmarket.paper import paper_privacy_loss
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.privacy import draw_joint_privacy, draw_privacy
from dpmarket.paper.joint import ExpectedPayments, JointMechanism
from dpmarket.planning.rows import Row
from dpmarket.privacy import SeededNoise, find_worst_case, log_density, privacy_loss


@dataclass(frozen=True)
class PrivacyConfig:
    """Settings: twenty people, one of whom has the whole weight a, the others the rest in equal parts."""

    weight: float = 0.05
    noise_rate: float = 20.0
    products: tuple[float, ...] = tuple(np.geomspace(2e-3, 20.0, 13).tolist())


@dataclass(frozen=True)
class _Task:
    config: PrivacyConfig
    product: float


def compute_privacy(config: PrivacyConfig, work: Work) -> ResultTable:
    """Return one row per value of l2*eta."""
    return work.table("privacy", _row, [_Task(config, float(p)) for p in config.products], config)


def _row(task: _Task) -> Row:
    config = task.config
    eta, l2 = config.noise_rate, task.product / config.noise_rate
    weights = np.full(round(1.0 / config.weight), config.weight)
    return {
        "product": task.product,
        "l2": l2,
        "without_slack": config.weight * eta,
        "paper": float(paper_privacy_loss(weights, eta, l2, weight_cap=1.0 + 1e-9)[0]),
        "formula": float(privacy_loss(weights, eta, l2)[0]),
        "found": find_worst_case(weights, 0, eta, l2).log_ratio,
    }


@dataclass(frozen=True)
class JointPrivacyConfig:
    """Settings: people with one feature, the last of whom changes the label; weights from the records."""

    people: tuple[int, ...] = (7, 11, 21)
    concentrations: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
    l2: float = 0.5
    noise_rate: float = 20.0


@dataclass(frozen=True)
class _JointTask:
    config: JointPrivacyConfig
    people: int
    concentration: float


def compute_joint_privacy(config: JointPrivacyConfig, work: Work) -> ResultTable:
    """Return one row per number of people and concentration: the exact loss, and what formulas say."""
    tasks = [_JointTask(config, m, mu) for m in config.people for mu in config.concentrations]
    return work.table("joint-privacy", _joint_row, tasks, config)


def _joint_row(task: _JointTask) -> Row:
    config, m = task.config, task.people
    mechanism = JointMechanism(
        Uniform(1.0, 5.0),
        BuyerObjective(task.concentration, 1.0, 1e-3),
        config.l2,
        payments=ExpectedPayments(),
        mean_epsilons=[config.noise_rate / m],
        noise_source=SeededNoise(0),
    )
    rows = np.ones((m, 1))
    signs = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    changed = signs.copy()
    changed[-1] = -signs[-1]
    costs = np.linspace(1.5, 5.0, m)
    outputs = np.linspace(-200.0, 200.0, 8_001)[:, None]
    one, other = (mechanism.run(costs, rows, labels) for labels in (signs, changed))
    ratio = np.abs(
        log_density(outputs, signs[:, None] * rows, one.loss_weights, one.noise_rate, config.l2)
        - log_density(outputs, changed[:, None] * rows, other.loss_weights, other.noise_rate, config.l2)
    )
    both = (one, other)
    return {
        "people": m,
        "concentration": task.concentration,
        "exact": float(ratio.max()),
        "paper": max(float(paper_privacy_loss(o.loss_weights, o.noise_rate, config.l2)[-1]) for o in both),
        "formula": max(float(privacy_loss(o.loss_weights, o.noise_rate, config.l2)[-1]) for o in both),
    }


PRIVACY = Experiment(
    "privacy", "The privacy loss of one weight: claimed, bounded, found",
    PrivacyConfig(), PrivacyConfig(products=(0.02, 2.0)), compute_privacy, draw_privacy,
)  # fmt: skip
JOINT_PRIVACY = Experiment(
    "joint-privacy", "The privacy loss when weights are chosen from the records",
    JointPrivacyConfig(), JointPrivacyConfig(people=(7, 11), concentrations=(1.0, 100.0)),
    compute_joint_privacy, draw_joint_privacy,
)  # fmt: skip
