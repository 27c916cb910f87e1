"""Theorem `gen loss`: the printed error bound and the corrected one, where the printed one fails.

All records are alike (one feature of value 1, label +1) and the coefficient is a small negative number: every
prediction is wrong, while the loss is close to log 2, which is below 1 in natural logarithms. The theorem
speaks of every coefficient in the ball, so of this one, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.paper import paper_bound_constants
from dpmarket.paper.experiments.classifiers import draw_noise
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.lines import draw_error_bound
from dpmarket.planning import bound_constants
from dpmarket.planning.rows import Row


@dataclass(frozen=True)
class ErrorBoundConfig:
    """Settings: equal weights, a mean epsilon of 1."""

    records: tuple[int, ...] = (100, 300, 1_000, 3_000, 10_000, 100_000)
    coef_radius: float = 0.01
    delta: float = 0.1
    noise_delta: float = 0.1
    draws: int = 2_000
    seed: int = 0


@dataclass(frozen=True)
class _Task:
    config: ErrorBoundConfig
    records: int


def compute(config: ErrorBoundConfig, work: Work) -> ResultTable:
    """Return one row per number of records: the error, both bounds, and how often each is broken."""
    return work.table("error-bound", _row, [_Task(config, m) for m in config.records], config)


def _row(task: _Task) -> Row:
    config, m = task.config, task.records
    w, eta, norm = -config.coef_radius, float(m), 1.0 / math.sqrt(m)
    loss = float(np.logaddexp(0.0, -w))
    settings = (config.coef_radius, config.delta, config.noise_delta, 1)
    rng = np.random.default_rng([config.seed, m])
    pulls = np.array([2.0 * draw_noise(1, rng)[0] / eta * w for _ in range(config.draws)])
    mu, sigma = paper_bound_constants(*settings)
    printed = loss + pulls + mu * norm + sigma / eta
    mu, sigma = bound_constants(*settings)
    corrected = loss / math.log(2.0) + pulls + mu * norm + sigma / eta
    return {
        "records": m,
        "error": 1.0,
        "printed": float(printed.mean()),
        "corrected": float(corrected.mean()),
        "printed_broken": float(np.mean(printed < 1.0)),
        "corrected_broken": float(np.mean(corrected < 1.0)),
        "allowed": config.delta + config.noise_delta,
    }


ERROR_BOUND = Experiment(
    "error-bound", "The bound on the error, as printed and corrected, where every prediction is wrong",
    ErrorBoundConfig(), ErrorBoundConfig(records=(1_000, 100_000), draws=200), compute, draw_error_bound,
)  # fmt: skip
