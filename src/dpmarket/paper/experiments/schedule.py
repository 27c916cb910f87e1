r"""Theorem `thm: asymptotic`: the proof's own choice of delta and delta', and what it gives.

The proof lets the hyper-parameters grow with the number of sellers:
:math:`\delta = \exp(-E_3 \nu m^{1/4})` with :math:`E_3 = \sqrt2/(\sqrt3 E_2 \gamma^{1/4} \log(1 + e^\beta))`,
:math:`\mu(\delta)` from theorem `gen loss`, :math:`\sigma = \mu^2`, and :math:`\delta'` such that theorem
`gen loss` has that sigma. The proxy loss then tends to :math:`\nu`. Logarithms of the loss are to base 2, as
theorem `gen loss` needs them. One table has the schedule itself, for numbers of sellers that no computer
holds; where it does hold them the market is run and the model trained, on separable records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.paper.experiments.asymptotic import separable_rows
from dpmarket.paper.experiments.classifiers import draw_noise, error, train
from dpmarket.paper.experiments.rate import leading_term
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.asymptotic import draw_schedule
from dpmarket.planning.rows import Row

_LN2 = math.log(2.0)
_DENSITY = 0.5  # of virtual costs at 0, for costs from U[0, 1]
_L2 = 1e-6


@dataclass(frozen=True)
class ScheduleConfig:
    """Settings: (nu, beta, gamma) triples; exponents of ten of the numbers of sellers; costs from U[0, 1]."""

    choices: tuple[tuple[float, float, float], ...] = (
        (0.1, 5.0, 1e-5),
        (0.1, 20.0, 1e-5),
        (0.2, 5.0, 1e-5),
        (0.1, 5.0, 1e-2),
        (0.1, 5.0, 1e-3),
        (0.1, 5.0, 1e-7),
    )
    exponents: tuple[float, ...] = (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0)
    simulated: float = 5.0
    features: int = 5
    margin: float = 1.0
    test_records: int = 2_000
    draws: int = 20
    seed: int = 0


FULL = ScheduleConfig()
QUICK = ScheduleConfig(choices=((0.1, 5.0, 1e-5),), simulated=3.0, draws=5)


@dataclass(frozen=True)
class _Task:
    config: ScheduleConfig
    nu: float
    coef_radius: float
    payment_weight: float
    exponent: float


def compute(config: ScheduleConfig, work: Work) -> ResultTable:
    """Return one row per choice and number of sellers: the schedule, and the market where it is small."""
    tasks = [_Task(config, *choice, exponent) for choice in config.choices for exponent in config.exponents]
    return work.table("schedule", _row, tasks, config)


@dataclass(frozen=True)
class Schedule:
    """The proof's choice for one number of sellers.

    Attributes
    ----------
    surprise
        ``-ln delta``.
    concentration, noise
        Mu and sigma.
    noise_surprise
        ``-ln delta'``.
    """

    surprise: float
    concentration: float
    noise: float
    noise_surprise: float


def proof_schedule(nu: float, beta: float, gamma: float, n_features: int, sellers: float) -> Schedule:
    """Return delta, mu, sigma and delta' as the proof of theorem `thm: asymptotic` chooses them.

    Examples
    --------
    >>> chosen = proof_schedule(nu=0.1, beta=5.0, gamma=1e-5, n_features=5, sellers=1e6)
    >>> round(chosen.surprise, 2), round(chosen.concentration, 1), round(chosen.noise / 27.7**2, 2)
    (1.34, 27.7, 1.0)
    """
    steep = float(np.logaddexp(0.0, beta)) / _LN2
    e2 = 4.0 * _DENSITY**-0.25
    surprise = math.sqrt(2.0) / (math.sqrt(3.0) * e2 * gamma**0.25 * steep) * nu * sellers**0.25
    mu = 3.0 * surprise / math.sqrt(2.0) * steep + beta / _LN2
    quantile = mu * mu / ((6.0 * surprise / math.sqrt(2.0) + 1.0) * 2.0 * beta)
    tail = float(gammaincc(n_features, 0.5 * quantile))
    # Beyond the range of floats the tail is exp(-t/2) times a power of t.
    far = 0.5 * quantile - (n_features - 1) * math.log(0.5 * quantile) + math.lgamma(n_features)
    return Schedule(surprise, mu, mu * mu, -math.log(tail) if tail > 1e-280 else far)


def _row(task: _Task) -> Row:
    config, m = task.config, 10.0**task.exponent
    chosen = proof_schedule(task.nu, task.coef_radius, task.payment_weight, config.features, m)
    probability = math.exp(-chosen.surprise) + math.exp(-chosen.noise_surprise)
    proxy = leading_term(chosen.concentration, chosen.noise, task.payment_weight, _DENSITY, m)
    row: Row = {
        "nu": task.nu,
        "coef_radius": task.coef_radius,
        "payment_weight": task.payment_weight,
        "sellers": m,
        "surprise": chosen.surprise,
        "noise_surprise": chosen.noise_surprise,
        "stated": task.nu * m**0.25 / (2.0 * task.coef_radius),
        "concentration": chosen.concentration,
        "noise": chosen.noise,
        "proxy": proxy,
        "probability": probability,
        "objective": None,
        "objective_se": None,
        "floor": None,
        "exceeding": None,
        "above": None,
    }
    if task.exponent <= config.simulated:
        row |= _market(task, round(m), chosen, proxy)
    return row


def _market(task: _Task, m: int, chosen: Schedule, proxy: float) -> Row:
    """Return the buyer's objective, and how often it exceeds its floor plus nu, and the whole bound."""
    config, dist = task.config, Uniform(0.0, 1.0)
    objective = BuyerObjective(chosen.concentration, chosen.noise, task.payment_weight)
    totals, floors = np.empty(config.draws), np.empty(config.draws)
    for draw in range(config.draws):
        rng = np.random.default_rng([config.seed, draw, m])
        normal = rng.standard_normal(config.features)
        normal /= np.linalg.norm(normal)
        rows, signs, margin = separable_rows(m, normal, config.margin, rng)
        test = separable_rows(config.test_records, normal, config.margin, rng)[:2]
        outcome = OfflineMechanism(dist, objective).run(dist.sample(m, rng))
        eta = float(outcome.epsilons.sum())
        pull = 2.0 * draw_noise(config.features, rng) / eta
        w = train(rows, signs, outcome.epsilons / eta, pull, _L2, task.coef_radius)
        totals[draw] = error(w, *test) + task.payment_weight * outcome.total_payment
        floors[draw] = float(np.logaddexp(0.0, -margin * task.coef_radius)) / _LN2
    return {
        "objective": float(totals.mean()),
        "objective_se": float(totals.std(ddof=1) / math.sqrt(config.draws)),
        "floor": float(floors.mean()),
        "exceeding": float(np.mean(totals >= floors + task.nu)),
        "above": float(np.mean(totals >= floors + proxy)),
    }


SCHEDULE = Experiment(
    "schedule", "Paper, theorem `thm: asymptotic`: the proof's own choice of δ and δ'",
    FULL, QUICK, compute, draw_schedule,
)  # fmt: skip
