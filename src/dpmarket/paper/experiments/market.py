"""Fig. 2: error, payments and overall error on breast cancer records, buyer by buyer.

Paper, section "Numerical Results", offline algorithm.

Buyers: ``joint``, the paper's appendix algorithm; ``offline``, which promises and pays without the records
and trains with a real guarantee; ``naive``, the appendix algorithm with ``mu = sigma = 0``; ``baseline``,
without payments and privacy; ``guess``, who buys nothing and names the more frequent public class.

The table keeps, of all settings that were tried, the rows with a mark. ``fixed`` is 1 at the settings
{l2, mu, sigma} that serve all payment weights best on the public part, ``tuned`` is 1 at those that
are best at this payment weight. The naive buyer's objective rises with the noise rate, so that the
paper's line search always ends at its grid's lowest mean epsilon: that is its ``fixed`` row; its ``tuned``
row lets the public part choose the mean epsilon, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import Uniform, virtual_costs
from dpmarket.datasets import PublicData
from dpmarket.datasets.bundled import breast_cancer
from dpmarket.errors import Infeasible
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.mechanisms.joint import ExpectedPayments, JointMechanism, RandomStarts, naive_buyer
from dpmarket.paper.experiments.classifiers import (
    Parts,
    draw_noise,
    error,
    split_records,
    train,
)
from dpmarket.paper.experiments.running import Experiment, Work, plain
from dpmarket.paper.experiments.table import ResultTable, table_from_rows
from dpmarket.paper.figures.market import draw_market
from dpmarket.planning.rows import Row
from dpmarket.planning.scoring import mean_and_standard_error
from dpmarket.privacy import SeededNoise

LOWEST = {"euler": math.exp(-4.0), "ten": 1e-4}  # two readings of "e^-4"; the highest cost is 5 times as much
RATIO = LOWEST["euler"] / LOWEST["ten"]


@dataclass(frozen=True)
class MarketConfig:
    """Settings; payment weights are those of the reading with Euler's number."""

    payment_weights: tuple[float, ...] = tuple(np.geomspace(1e-5, 1e-1, 9).tolist())
    concentrations: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)
    noises: tuple[float, ...] = (1.0, 10.0, 100.0)
    penalties: tuple[float, ...] = (0.01, 0.1, 1.0)
    mean_epsilons: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    weight_cap: float = 4.0
    features: str = "all"
    seller_share: float = 0.6
    public_share: float = 0.2
    noise_draws: int = 15
    seeds: tuple[int, ...] = (0, 1, 2, 3)


FULL = MarketConfig()
QUICK = MarketConfig(
    payment_weights=(1e-5, 1e-3, 1e-1),
    concentrations=(1.0, 100.0),
    noises=(10.0,),
    penalties=(1.0,),
    mean_epsilons=(0.01, 1.0),
    seeds=(0,),
)


@dataclass(frozen=True)
class Task:
    """One buyer with one setting, for all payment weights."""

    config: MarketConfig
    seed: int
    buyer: str
    reading: str = "euler"
    concentration: float = 0.0
    noise: float = 0.0
    l2: float = 0.0
    mean_epsilon: float = 0.0


def compute(config: MarketConfig, work: Work) -> ResultTable:
    """Return one row per split, buyer, setting and payment weight."""
    table = work.table("market", bought_rows, tasks_of(config), config)
    return table_from_rows("market", marked_rows(table, config), plain(config))


def tasks_of(config: MarketConfig) -> list[Task]:
    """Return every buyer with every setting to be tried."""
    grid = list(itertools.product(config.concentrations, config.noises, config.penalties))
    tasks = []
    for seed in config.seeds:
        base = Task(config, seed, "guess")
        tasks.append(base)
        tasks += [replace(base, buyer="baseline", l2=l2) for l2 in (0.001, *config.penalties)]
        for buyer in ("joint", "offline"):
            tasks += [
                replace(base, buyer=buyer, concentration=mu, noise=sigma, l2=l2) for mu, sigma, l2 in grid
            ]
        tasks += [
            replace(base, buyer="naive", l2=l2, mean_epsilon=mean)
            for l2, mean in itertools.product(config.penalties, config.mean_epsilons)
        ]
    # The other reading of the costs, at one setting: the payment weight carries the whole difference.
    mu, sigma, l2 = grid[-1]
    tasks.append(Task(config, config.seeds[0], "joint", "ten", mu, sigma, l2))
    return tasks


def records(features: str) -> PublicData:
    """Return the diagnostic breast cancer set: all 30 features, or the ten that are means over a cell image.

    The other Wisconsin set (nine grades from 1 to 10) is not shipped with any library used here; ten plain
    measurements are the closest to it.
    """
    data = breast_cancer()
    if features == "all":
        return data
    means = np.array([name.startswith("mean") for name in data.feature_names])
    names = tuple(name for name in data.feature_names if name.startswith("mean"))
    return replace(
        data,
        features=data.features[:, means],
        low=data.low[means],
        high=data.high[means],
        feature_names=names,
    )


def bought_rows(task: Task) -> list[Row]:
    """Return what a buyer gets at each payment weight."""
    config = task.config
    data = records(config.features)
    parts = split_records(data, config.seller_share, config.public_share, task.seed)
    rng = np.random.default_rng([14, task.seed])
    m, n = parts.sellers[0].shape
    low = LOWEST[task.reading]
    # Drawn as shares of the range, so that both readings have the same sellers.
    costs = np.asarray(low * (1.0 + 4.0 * rng.random(m)), dtype=np.float64)
    noises = [draw_noise(n, rng) for _ in range(config.noise_draws)]
    scale = 1.0 if task.reading == "euler" else RATIO
    rows = []
    for weight in config.payment_weights:
        gamma = weight * scale
        bought = _BUYERS[task.buyer](task, parts, Uniform(low, 5.0 * low), costs, gamma, noises)
        row = {
            "seed": task.seed,
            "buyer": task.buyer,
            "reading": task.reading,
            "payment_weight": gamma,
            "concentration": task.concentration,
            "noise": task.noise,
            "l2": task.l2,
            "mean_epsilon": task.mean_epsilon,
        }
        rows.append(row | bought)
    return rows


def _bought(
    parts: Parts,
    gamma: float,
    models: list[FloatArray],
    *,
    payments: float,
    expected: float,
    objective: float | None,
    noise_rate: float,
) -> Row:
    public = [error(w, *parts.public) for w in models]
    test, spread = mean_and_standard_error([error(w, *parts.test) for w in models])
    return {
        "noise_rate": noise_rate,
        "objective": objective,
        "public_overall": float(np.mean(public)) + gamma * expected,
        "test_error": test,
        "test_error_se": spread,
        "payments": payments,
        "expected_payments": expected,
        "overall": test + gamma * expected,
    }


_Buyer = Callable[[Task, Parts, Uniform, FloatArray, float, list[FloatArray]], Row]


def _joint(
    task: Task, parts: Parts, dist: Uniform, costs: FloatArray, gamma: float, noises: list[FloatArray]
) -> Row:
    if task.buyer == "naive":
        mechanism = naive_buyer(
            dist,
            gamma,
            task.l2,
            [task.mean_epsilon],
            weight_cap=task.config.weight_cap,
            starts=RandomStarts(4),
            noise_source=SeededNoise(0),
        )
    else:
        objective = BuyerObjective(task.concentration, task.noise, gamma, task.config.weight_cap)
        # Promises do not depend on the noise here, so that its realisation may be left to the training below.
        mechanism = JointMechanism(
            dist, objective, task.l2, payments=ExpectedPayments(), noise_source=SeededNoise(0)
        )
    rows, signs = parts.sellers
    outcome = mechanism.run(costs, rows, signs)
    eta = outcome.noise_rate
    models = [train(rows, signs, outcome.loss_weights, 2.0 * b / eta, task.l2) for b in noises]
    paid = outcome.total_payment
    return _bought(
        parts, gamma, models, payments=paid, expected=paid, objective=outcome.objective_value, noise_rate=eta
    )


def _offline(
    task: Task, parts: Parts, dist: Uniform, costs: FloatArray, gamma: float, noises: list[FloatArray]
) -> Row:
    objective = BuyerObjective(task.concentration, task.noise, gamma, task.config.weight_cap)
    outcome = OfflineMechanism(dist, objective).run(costs)
    assert outcome.optimality is not None  # the offline mechanism always says how good its choice is
    expected = float(virtual_costs(costs, dist) @ outcome.epsilons)
    rows, signs = parts.sellers
    models = []
    try:
        for draw in range(task.config.noise_draws):
            model = PrivateLogisticRegression(
                l2=task.l2,
                classes=(-1.0, 1.0),
                fit_intercept=False,
                numerical_epsilon=1e-9,
                noise_source=SeededNoise(1_000 * task.seed + draw),
            ).fit(rows, signs, epsilons=outcome.epsilons)
            models.append(model.coef_[0])
    except Infeasible:  # the penalty is too small for promises this strong: nothing can be trained
        models = [np.zeros(parts.n_features)]
    return _bought(
        parts,
        gamma,
        models,
        payments=outcome.total_payment,
        expected=expected,
        objective=outcome.optimality.objective_value,
        noise_rate=outcome.planned_noise_rate,
    )


def _baseline(
    task: Task, parts: Parts, dist: Uniform, costs: FloatArray, gamma: float, noises: list[FloatArray]
) -> Row:
    rows, signs = parts.sellers
    weights = np.full(signs.size, 1.0 / signs.size)
    model = train(rows, signs, weights, np.zeros(parts.n_features), task.l2)
    return _bought(parts, gamma, [model], payments=0.0, expected=0.0, objective=None, noise_rate=math.inf) | {
        "noise_rate": None
    }


def _guess(
    task: Task, parts: Parts, dist: Uniform, costs: FloatArray, gamma: float, noises: list[FloatArray]
) -> Row:
    model = np.zeros(parts.n_features)
    model[-1] = float(np.sign(parts.public[1].sum()))  # the constant alone
    return _bought(parts, gamma, [model], payments=0.0, expected=0.0, objective=None, noise_rate=math.inf) | {
        "noise_rate": None
    }


_BUYERS: dict[str, _Buyer] = {
    "joint": _joint,
    "naive": _joint,
    "offline": _offline,
    "baseline": _baseline,
    "guess": _guess,
}


def marked_rows(table: ResultTable, config: MarketConfig) -> list[Row]:
    """Return the rows with the marks ``fixed`` and ``tuned``, chosen on the public part alone."""
    names = list(table.columns)
    rows: list[Row] = [
        {name: _cell(table.columns[name][i]) for name in names} | {"fixed": 0, "tuned": 0}
        for i in range(len(table))
    ]
    for seed, buyer in itertools.product(config.seeds, _BUYERS):
        mine = [row for row in rows if (row["seed"], row["buyer"], row["reading"]) == (seed, buyer, "euler")]
        for weight in config.payment_weights:
            here = [row for row in mine if row["payment_weight"] == weight]
            min(here, key=lambda row: row["public_overall"])["tuned"] = 1
        printed = mine
        if buyer == "naive":
            printed = [row for row in mine if row["mean_epsilon"] == _lowest_objective(mine)]
        best = _best_for_all(printed)
        for row in printed:
            row["fixed"] = int(_setting(row) == best)
    return [row for row in rows if row["fixed"] or row["tuned"] or _compared(row, config)]


def _compared(row: Row, config: MarketConfig) -> bool:
    """Whether a row is there to compare the two readings of the costs."""
    last = (config.concentrations[-1], config.noises[-1], config.penalties[-1], 0.0)
    return bool(row["buyer"] == "joint" and row["seed"] == config.seeds[0] and _setting(row) == last)


def _lowest_objective(rows: list[Row]) -> float:
    """Return the mean epsilon at which a naive buyer's line search ends, at the first penalty and weight."""
    first = rows[0]
    same = [r for r in rows if (r["l2"], r["payment_weight"]) == (first["l2"], first["payment_weight"])]
    return float(min(same, key=lambda row: row["objective"])["mean_epsilon"])


def _best_for_all(rows: list[Row]) -> tuple[float, ...]:
    """Return the setting with the smallest mean ratio of overall error to the best at each weight."""
    best: dict[float, float] = {}
    for row in rows:
        weight = row["payment_weight"]
        best[weight] = min(best.get(weight, math.inf), row["public_overall"])
    totals: dict[tuple[float, ...], float] = {}
    for row in rows:
        regret = row["public_overall"] / max(best[row["payment_weight"]], 1e-6)
        totals[_setting(row)] = totals.get(_setting(row), 0.0) + regret
    return min(totals, key=lambda setting: totals[setting])


def _setting(row: Row) -> tuple[float, ...]:
    return (row["concentration"], row["noise"], row["l2"], row["mean_epsilon"])


def _cell(value: object) -> object:
    if isinstance(value, str):
        return value
    number = float(value)  # type: ignore[arg-type]
    return None if math.isnan(number) else number


MARKET = Experiment(
    "market",
    "Paper Fig. 2: error, payments and overall error against the payment weight",
    FULL,
    QUICK,
    compute,
    draw_market,
)
