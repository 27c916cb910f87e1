"""Fig. 4: what the noise rate and the price of uneven weights do, on the appendix's synthetic records.

Records are Gaussian, labelled by a linear separator through the origin, and shortened to length 1. Promises
follow costs from U[1, 5]: person i is promised ``scale / c_i``, so that who values privacy more gets more
protection: a smaller promise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.datasets import separable
from dpmarket.learning import PublicScaler
from dpmarket.paper.experiments.classifiers import draw_noise, error, train
from dpmarket.paper.experiments.given_promises import Choice, choose, choose_without_terms
from dpmarket.paper.experiments.running import Experiment, Work
from dpmarket.paper.experiments.table import ResultTable
from dpmarket.paper.figures.hyperparameters import draw_concentration, draw_noise_rate
from dpmarket.planning.rows import Row
from dpmarket.planning.scoring import mean_and_standard_error
from dpmarket.privacy import best_weights


@dataclass(frozen=True)
class NoiseRateConfig:
    """Settings: equal weights, eta = m times the mean epsilon; (features, l2) pairs, the first one drawn."""

    records: int = 500
    test_records: int = 2_000
    settings: tuple[tuple[int, float], ...] = ((10, 0.01), (5, 0.01), (30, 0.01), (10, 0.1), (10, 0.001))
    mean_epsilons: tuple[float, ...] = tuple(np.geomspace(1e-3, 10.0, 13).tolist())
    noise_draws: int = 15
    data_sets: int = 10
    seed: int = 0


@dataclass(frozen=True)
class Given:
    """People with promises: number of features, size of the promises, price of noise, penalty, cap k."""

    features: int = 10
    promise_scale: float = 5.0
    noise: float = 10.0
    l2: float = 0.05
    weight_cap: float = 10.0

    @property
    def name(self) -> str:
        """Its settings in words, short."""
        return (
            f"n = {self.features}, ε = {self.promise_scale:g}/c, σ = {self.noise:g}, Λ = {self.l2:g}, "
            f"k = {self.weight_cap:g}"
        )


@dataclass(frozen=True)
class ConcentrationConfig:
    """Settings: promises given, weights and noise rate chosen with the coefficients; the first one drawn.

    The others are tried at fewer values of mu and on fewer data sets.
    """

    records: int = 300
    test_records: int = 2_000
    given: tuple[Given, ...] = (
        Given(),
        Given(features=5),
        Given(promise_scale=2.0),
        Given(noise=1.0),
        Given(l2=0.2),
        Given(weight_cap=4.0),
    )
    concentrations: tuple[float, ...] = tuple(np.geomspace(0.1, 1e4, 11).tolist())
    other_concentrations: tuple[float, ...] = (0.1, 10.0, 100.0, 1e4)
    grid: int = 16
    starts: int = 3
    noise_draws: int = 15
    data_sets: int = 12
    other_data_sets: int = 6
    seed: int = 0


@dataclass(frozen=True)
class _NoiseTask:
    config: NoiseRateConfig
    features: int
    l2: float
    mean_epsilon: float


@dataclass(frozen=True)
class _ConcentrationTask:
    config: ConcentrationConfig
    given: Given
    method: str
    concentration: float


METHODS = ("without terms", "equal weights", "proportional", "without records")


def synthetic(
    records: int, test_records: int, features: int, seed: int
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return training and test records of one separator, rows of length at most 1."""
    data = separable(records + test_records, features, np.random.default_rng(seed))
    rows = PublicScaler(-3.0, 3.0, radius=1.0).fit_transform(data.features)
    return (rows[:records], data.signs[:records]), (rows[records:], data.signs[records:])


def compute_noise_rate(config: NoiseRateConfig, work: Work) -> ResultTable:
    """Return one row per setting and mean epsilon: train and test error, and the loss without noise."""
    tasks = [
        _NoiseTask(config, features, l2, mean)
        for features, l2 in config.settings
        for mean in config.mean_epsilons
    ]
    return work.table("noise-rate", _noise_row, tasks, config)


def _noise_row(task: _NoiseTask) -> Row:
    config = task.config
    found = []
    for k in range(config.data_sets):
        train_part, test_part = synthetic(config.records, config.test_records, task.features, config.seed + k)
        weights = np.full(config.records, 1.0 / config.records)
        choice = Choice(weights, config.records * task.mean_epsilon, np.empty(0), 0.0, 0.0)
        rng = np.random.default_rng([config.seed, k, 4])
        found.append(_errors(train_part, test_part, choice, task.l2, config.noise_draws, rng))
    return {
        "features": task.features,
        "l2": task.l2,
        "mean_epsilon": task.mean_epsilon,
        **_summaries(np.array(found)[:, :3]),
    }


def compute_concentration(config: ConcentrationConfig, work: Work) -> ResultTable:
    """Return one row per price of uneven weights, and one for each simpler way to keep the promises."""
    tasks = []
    for given in config.given:
        prices = config.concentrations if given == config.given[0] else config.other_concentrations
        tasks += [_ConcentrationTask(config, given, "joint", mu) for mu in prices]
        tasks += [_ConcentrationTask(config, given, method, 0.0) for method in METHODS]
    return work.table("concentration", _concentration_row, tasks, config)


def _concentration_row(task: _ConcentrationTask) -> Row:
    config, given = task.config, task.given
    found, rates = [], []
    for k in range(config.data_sets if given == config.given[0] else config.other_data_sets):
        train_part, test_part = synthetic(
            config.records, config.test_records, given.features, config.seed + k
        )
        rng = np.random.default_rng([config.seed, k, 5])
        epsilons = given.promise_scale / rng.uniform(1.0, 5.0, config.records)
        choice = _choice(task, train_part, epsilons, rng)
        rates.append(choice.noise_rate)
        draws = np.random.default_rng([config.seed, k, 6])
        found.append(_errors(train_part, test_part, choice, given.l2, config.noise_draws, draws))
    return {
        "given": given.name,
        "method": task.method,
        "concentration": task.concentration,
        "noise_rate": float(np.mean(rates)),
        **_summaries(np.array(found)),
    }


def _choice(
    task: _ConcentrationTask,
    records: tuple[FloatArray, FloatArray],
    epsilons: FloatArray,
    rng: np.random.Generator,
) -> Choice:
    config, given = task.config, task.given
    m, largest = config.records, float(epsilons.sum())
    grid = np.geomspace(largest / 30.0, largest * (1.0 - 1e-9), config.grid)
    starts = np.vstack([np.zeros(given.features), rng.standard_normal((config.starts - 1, given.features))])
    nothing = np.empty(0)
    if task.method == "joint":
        return choose(
            *records,
            epsilons,
            concentration=task.concentration,
            noise=given.noise,
            l2=given.l2,
            weight_cap=given.weight_cap,
            grid=grid,
            starts=starts,
        )
    if task.method == "without terms":
        return choose_without_terms(
            *records, epsilons, l2=given.l2, weight_cap=given.weight_cap, grid=grid, starts=starts
        )
    if task.method == "equal weights":
        return Choice(np.full(m, 1.0 / m), m * float(epsilons.min()), nothing, 0.0, 0.0)
    if task.method == "proportional":
        return Choice(epsilons / largest, largest, nothing, 0.0, 0.0)
    best = best_weights(epsilons, given.l2, concentration=1.0, noise=given.noise)
    return Choice(best.loss_weights, best.noise_rate, nothing, 0.0, 0.0)


def _errors(
    records: tuple[FloatArray, FloatArray],
    test: tuple[FloatArray, FloatArray],
    choice: Choice,
    l2: float,
    noise_draws: int,
    rng: np.random.Generator,
) -> tuple[float, float, float, float]:
    """Return train error, test error and weighted loss with noise, and the loss at the choice itself."""
    rows, signs = records
    values = []
    for _ in range(noise_draws):
        pull = 2.0 * draw_noise(rows.shape[1], rng) / choice.noise_rate
        w = train(rows, signs, choice.loss_weights, pull, l2)
        loss = float(choice.loss_weights @ np.logaddexp(0.0, -signs * (rows @ w)))
        values.append((error(w, rows, signs), error(w, *test), loss))
    train_error, test_error, loss = np.mean(values, axis=0).tolist()
    return train_error, test_error, loss, choice.training_loss


def _summaries(values: FloatArray) -> Row:
    row: Row = {}
    names = ("train_error", "test_error", "empirical_loss", "chosen_loss")
    for k, name in enumerate(names[: values.shape[1]]):
        row[name], row[f"{name}_se"] = mean_and_standard_error(values[:, k])
    return row


NOISE_RATE = Experiment(
    "noise-rate", "Paper Fig. 4a: error against the mean epsilon, with equal weights",
    NoiseRateConfig(),
    NoiseRateConfig(settings=((10, 0.01),), mean_epsilons=(1e-3, 0.1, 1.0, 10.0), data_sets=2),
    compute_noise_rate, draw_noise_rate,
)  # fmt: skip
CONCENTRATION = Experiment(
    "concentration", "Paper Fig. 4b: error and loss against the price of uneven weights, promises given",
    ConcentrationConfig(),
    ConcentrationConfig(
        given=(Given(),), concentrations=(1.0, 100.0, 1e4), grid=6, starts=1, data_sets=3
    ),
    compute_concentration, draw_concentration,
)  # fmt: skip
