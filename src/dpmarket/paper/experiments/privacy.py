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
from dpmarket.mechanisms.joint import ExpectedPayments, JointMechanism
from dpmarket.paper import paper_privacy_loss
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.privacy import draw_joint_privacy, draw_privacy
from dpmarket.planning.rows import Row
from dpmarket.privacy import SeededNoise, find_worst_case, log_density, privacy_loss


@dataclass(frozen=True)
class Crowd:
    """So many people of equal weight, and the noise rate eta with which they are trained on."""

    people: int
    noise_rate: float


@dataclass(frozen=True)
class PrivacyConfig:
    """Settings: the first crowd is the one that is drawn; ``products`` are values of l2*eta."""

    crowds: tuple[Crowd, ...] = (
        Crowd(20, 20.0),
        Crowd(5, 20.0),
        Crowd(100, 20.0),
        Crowd(20, 4.0),
        Crowd(20, 100.0),
        Crowd(1_000, 1.0),
    )
    products: tuple[float, ...] = tuple(np.geomspace(2e-3, 20.0, 13).tolist())


@dataclass(frozen=True)
class _Task:
    crowd: Crowd
    product: float


def compute_privacy(config: PrivacyConfig, work: Work) -> ResultTable:
    """Return one row per crowd and value of l2*eta."""
    tasks = [_Task(crowd, float(p)) for crowd in config.crowds for p in config.products]
    return work.table("privacy", _row, tasks, config)


def _row(task: _Task) -> Row:
    m, eta = task.crowd.people, task.crowd.noise_rate
    l2 = task.product / eta
    weights = np.full(m, 1.0 / m)
    return {
        "people": m,
        "noise_rate": eta,
        "product": task.product,
        "l2": l2,
        "people_times_l2": m * l2,
        "without_slack": eta / m,
        "paper": float(paper_privacy_loss(weights, eta, l2, weight_cap=1.0 + 1e-9)[0]),
        "formula": float(privacy_loss(weights, eta, l2)[0]),
        "found": find_worst_case(weights, 0, eta, l2).log_ratio,
    }


@dataclass(frozen=True)
class JointPrivacyConfig:
    """Settings: people with one feature, the last of whom changes the label; weights from the records."""

    people: tuple[int, ...] = (7, 11, 21, 41)
    concentrations: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
    penalties: tuple[float, ...] = (0.5, 0.1, 2.0)
    noise_rates: tuple[float, ...] = (20.0, 5.0)


@dataclass(frozen=True)
class _JointTask:
    people: int
    concentration: float
    l2: float
    noise_rate: float


def compute_joint_privacy(config: JointPrivacyConfig, work: Work) -> ResultTable:
    """Return one row per setting: the exact loss, and what formulas for fixed weights say."""
    tasks = [
        _JointTask(m, mu, l2, eta)
        for l2 in config.penalties
        for eta in config.noise_rates
        for m in config.people
        for mu in config.concentrations
    ]
    return work.table("joint-privacy", _joint_row, tasks, config)


def _joint_row(task: _JointTask) -> Row:
    m, l2 = task.people, task.l2
    mechanism = JointMechanism(
        Uniform(1.0, 5.0),
        BuyerObjective(task.concentration, 1.0, 1e-3),
        l2,
        payments=ExpectedPayments(),
        mean_epsilons=[task.noise_rate / m],
        noise_source=SeededNoise(0),
    )
    rows = np.ones((m, 1))
    signs = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    changed = signs.copy()
    changed[-1] = -signs[-1]
    costs = np.linspace(1.5, 5.0, m)
    outputs = np.linspace(-200.0, 200.0, 8_001)[:, None]
    # The total epsilon is the same for both: it is given.
    eta = task.noise_rate
    one, other = (mechanism.run(costs, rows, labels).loss_weights for labels in (signs, changed))
    ratio = np.abs(
        log_density(outputs, signs[:, None] * rows, one, eta, l2)
        - log_density(outputs, changed[:, None] * rows, other, eta, l2)
    )
    return {
        "people": m,
        "concentration": task.concentration,
        "l2": l2,
        "noise_rate": eta,
        "exact": float(ratio.max()),
        "paper": max(float(paper_privacy_loss(weights, eta, l2)[-1]) for weights in (one, other)),
        "formula": max(float(privacy_loss(weights, eta, l2)[-1]) for weights in (one, other)),
    }


PRIVACY = Experiment(
    "privacy", "Paper, Proposition `algoproof`: the privacy loss of one weight: claimed, bounded, found",
    PrivacyConfig(),
    PrivacyConfig(crowds=(Crowd(20, 20.0), Crowd(1_000, 1.0)), products=(0.02, 0.1, 2.0)),
    compute_privacy, draw_privacy,
)  # fmt: skip
JOINT_PRIVACY = Experiment(
    "joint-privacy", "Paper, appendix: the privacy loss when weights are chosen from the records",
    JointPrivacyConfig(),
    JointPrivacyConfig(
        people=(7, 11), concentrations=(1.0, 100.0), penalties=(0.5,), noise_rates=(20.0,)
    ),
    compute_joint_privacy, draw_joint_privacy,
)  # fmt: skip
