"""Theorem `gen loss`: the printed error bound, with its ``log`` read to base e and to base 2.

Two cases in which the bound has little room. In the first all records are alike (one feature of value 1,
label +1) and the coefficient is a small negative number: every prediction is wrong, while the loss is close
to log 2, which is below 1 in natural logarithms. In the second every record has a direction of its own and
the coefficients fit the labels as well as their length allows: what was learned says nothing about new
records.
The theorem speaks of every coefficient vector in the ball, so of these, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpmarket.paper import paper_bound_constants, paper_bound_constants_in_bits
from dpmarket.paper.experiments.classifiers import draw_noise
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.bounds import draw_error_bound
from dpmarket.planning import bound_constants, sharp_bound_constants
from dpmarket.planning.rows import Row

_LN2 = math.log(2.0)


@dataclass(frozen=True)
class ErrorBoundConfig:
    """Settings: equal weights, a mean epsilon of 1; other deltas and radii for the comparison."""

    records: tuple[int, ...] = (100, 300, 1_000, 3_000, 10_000, 100_000)
    deltas: tuple[float, ...] = (0.1, 0.01, 0.05, 0.11, 0.2, 0.3, 0.46, 0.6)
    coef_radii: tuple[float, ...] = (0.01, 0.1, 1.0, 5.0, 20.0)
    noise_delta: float = 0.1
    draws: int = 2_000
    seed: int = 0


FULL = ErrorBoundConfig()
QUICK = ErrorBoundConfig(
    records=(1_000, 100_000), deltas=(0.1, 0.46, 0.6), coef_radii=(0.01, 1.0, 20.0), draws=200
)


@dataclass(frozen=True)
class _Task:
    config: ErrorBoundConfig
    case: str
    delta: float
    coef_radius: float
    records: int


def compute(config: ErrorBoundConfig, work: Work) -> ResultTable:
    """Return one row per case, delta, radius and number of records: three bounds, and how often they fail."""
    tasks = [
        _Task(config, case, delta, radius, m)
        for case in ("all alike", "all different")
        for delta in config.deltas
        for radius in config.coef_radii
        for m in config.records
    ]
    return work.table("error-bound", _row, tasks, config)


def _row(task: _Task) -> Row:
    config, m, beta = task.config, task.records, task.coef_radius
    features = 1 if task.case == "all alike" else m
    # The margin of every training record: the wrong sign, or the best fit with |w| = beta in m directions.
    margin = -beta if task.case == "all alike" else beta / math.sqrt(m)
    loss, eta = float(np.logaddexp(0.0, -margin)), float(m)
    settings = (beta, task.delta, config.noise_delta, features)
    rng = np.random.default_rng([config.seed, m])
    if task.case == "all alike":
        pulls = np.array([2.0 * draw_noise(1, rng)[0] / eta * -beta for _ in range(config.draws)])
    else:
        pulls = np.zeros(1)  # as good a case for the bound as there is: no noise was drawn
    readings = {
        "natural": (loss, paper_bound_constants(*settings)),
        "bits": (loss / _LN2, paper_bound_constants_in_bits(*settings)),
        "corrected": (loss / _LN2, bound_constants(*settings)),
    }
    row: Row = {
        "case": task.case,
        "delta": task.delta,
        "coef_radius": beta,
        "records": m,
        "allowed": task.delta + config.noise_delta,
    }
    for name, (training, (mu, sigma)) in readings.items():
        priced = sigma / eta if task.case == "all alike" else 0.0
        bounds = training + pulls + mu / math.sqrt(m) + priced
        row |= {name: float(bounds.mean()), f"{name}_broken": float(np.mean(bounds < 1.0))}
    sharp = sharp_bound_constants(*settings).concentration
    return row | {
        "printed_mu": readings["bits"][1].concentration,
        "corrected_mu": readings["corrected"][1].concentration,
        "sharp_mu": sharp,
    }


ERROR_BOUND = Experiment(
    "error-bound", "Paper, theorem `gen loss`: the bound on the error where every prediction is wrong",
    FULL, QUICK, compute, draw_error_bound,
)  # fmt: skip
