"""Try several buyers on the same sellers, records, budgets and chance, and say who errs least.

Everything that is random (costs, records, noise) is drawn once per repetition and shared by all buyers, so
that differences between them are much better known than their errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, cast

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms import CheapestK, OfflineMechanism, Outcome, PostedPrice, SameForAll
from dpmarket.mechanisms.simple import expected_price
from dpmarket.planning.budgets import plan_payment_weight
from dpmarket.planning.rows import Row, compute_rows
from dpmarket.planning.scoring import Trial, mean_and_standard_error
from dpmarket.progress import Progress

SCHEMA = "dpmarket.comparison/2"
_QUANTILES = (0.05, 0.5, 0.95)
_SHARES = 200  # prices and numbers of winners that the simple buyers choose from


class Buyer(Protocol):
    """A mechanism that buys from all sellers at once."""

    def run(self, reported_costs: object, seller_ids: object = None) -> Outcome:
        """Decide every seller's promise and payment."""
        ...


Builder = Callable[[float], Buyer]


@dataclass(frozen=True)
class Standing:
    """How one buyer did with one budget; every mean with its standard error.

    Attributes
    ----------
    buyer, budget : who, and with how much money in expectation.
    error, error_standard_error : test error.
    payment, payment_error : total payment, money.
    overall, overall_error : test error + payment_weight * payment.
    behind, behind_error : overall error less that of the first buyer, repetition by repetition.
    epsilon_quantiles : the 5%, 50% and 95% quantiles of the promises to those bought from.
    share_bought : of the sellers.
    """

    buyer: str
    budget: float
    error: float
    error_standard_error: float
    payment: float
    payment_error: float
    overall: float
    overall_error: float
    behind: float
    behind_error: float
    epsilon_quantiles: tuple[float, float, float]
    share_bought: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference from the first buyer is more than two standard errors."""
        return abs(self.behind) > 2.0 * self.behind_error


@dataclass(frozen=True)
class Comparison:
    """All buyers with all budgets, and what they shared.

    Attributes
    ----------
    standings : budget by budget, the buyers in the order given.
    payment_weight : error units per unit of money in the overall error.
    repetitions : how often costs, records and noise were drawn.
    sellers : how many there were.
    """

    standings: tuple[Standing, ...]
    payment_weight: float
    repetitions: int
    sellers: int

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        rows = [
            {name: getattr(s, name) for name in s.__dataclass_fields__} | {"is_clear": s.is_clear}
            for s in self.standings
        ]
        return {
            "schema": SCHEMA,
            "payment_weight": self.payment_weight,
            "repetitions": self.repetitions,
            "sellers": self.sellers,
            "standings": rows,
        }


def compare(
    dist: CostDistribution,
    trial: Trial,
    buyers: Mapping[str, Builder],
    budgets: Sequence[float],
    payment_weight: float,
    repetitions: int = 100,
    seed: int = 0,
    processes: int = 1,
    keep_in: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Return how buyers do on the same sellers, records and chance, at equal expected payments.

    Parameters
    ----------
    dist : the distribution of costs, from which sellers' costs are drawn.
    trial : the public records, and how models are trained on them.
    buyers : for every name a function from a budget to a mechanism that spends it in expectation; see
        :func:`standard_buyers`. The others are compared with the first. With ``keep_in`` they have to say
        what they are, by a method ``settings`` that returns plain data or as frozen dataclasses of such.
    budgets : money, each above 0.
    payment_weight : error units per unit of money in the overall error: what money is worth to the reader.
    repetitions : how often costs, split and noise are drawn, at least 2.
    seed : everything random follows from it.
    processes, keep_in, progress
        As in :func:`~dpmarket.planning.rows.compute_rows`.

    Returns
    -------
    Comparison
        Budget by budget, how every buyer did and how far behind the first one it is.

    Raises
    ------
    InvalidInput
        For arguments out of their range, or ``keep_in`` with a buyer who does not say what it is.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.datasets import separable
    >>> trial = Trial(separable(400, 2, np.random.default_rng(0)))
    >>> dist, objective = Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0)
    >>> buyers = standard_buyers(dist, objective, trial.sellers)
    >>> table = compare(dist, trial, buyers, [200.0], payment_weight=1e-4, repetitions=3)
    >>> [standing.buyer for standing in table.standings]
    ['dpmarket', 'posted price', 'cheapest k', 'same for all']
    """
    if not isinstance(trial, Trial):
        raise InvalidInput(f"expected a Trial on public data, got {type(trial).__name__}.")
    if not buyers:
        raise InvalidInput("expected at least one buyer.")
    payment_weight = checks.non_negative("payment_weight", payment_weight)
    repetitions = checks.whole("repetitions", repetitions, minimum=2)
    seed = checks.whole("seed", seed)
    money = [checks.positive("budget", budget) for budget in budgets]
    if not money:
        raise InvalidInput("expected at least one budget.")
    tasks = [
        _Task({name: build(budget) for name, build in buyers.items()}, budget, dist, trial, payment_weight,
              repetitions, seed)
        for budget in money
    ]  # fmt: skip
    description = {
        "distribution": dist.to_dict(),
        "trial": trial.describe(),
        "buyers": [
            [name, None if keep_in is None else _described(name, buyer)]
            for task in tasks
            for name, buyer in task.buyers.items()
        ],
        "settings": [money, payment_weight, repetitions, seed],
    }
    rows = compute_rows(_compare_at, tasks, description, processes, keep_in, progress)
    standings = tuple(
        Standing(**{**standing, "epsilon_quantiles": tuple(standing["epsilon_quantiles"])})
        for row in rows
        for standing in row["standings"]
    )
    return Comparison(standings, payment_weight, repetitions, trial.sellers)


def standard_buyers(dist: CostDistribution, objective: BuyerObjective, sellers: int) -> dict[str, Builder]:
    """Return this project's buyer and the simple ones, each at its best for the same objective.

    The offline mechanism gets the payment weight that meets the budget. The posted price and the number of
    cheapest sellers are those with the least excess risk under the same objective, so that the simple buyers
    know all that ours knows. Everything follows from the cost distribution.

    Parameters
    ----------
    dist : the distribution of costs.
    objective : prices of uneven weights and of noise; its payment weight is ignored.
    sellers : how many will report.

    Returns
    -------
    dict
        Name to a function from a budget to a mechanism, as :func:`compare` takes it: "dpmarket",
        "posted price", "cheapest k" and "same for all".

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> buyers = standard_buyers(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0), sellers=1000)
    >>> for name, build in buyers.items():
    ...     outcome = build(40.0).run(np.linspace(1.002, 4.998, 1000))
    ...     print(f"{name:12} {outcome.total_payment:.0f} {(outcome.epsilons > 0).mean():.0%}")
    dpmarket     40 42%
    posted price 40 30%
    cheapest k   40 30%
    same for all 40 100%
    """
    return {
        "dpmarket": lambda budget: OfflineMechanism(
            dist, plan_payment_weight(dist, objective, sellers, budget).objective
        ),
        "posted price": lambda budget: best_posted_price(dist, objective, sellers, budget),
        "cheapest k": lambda budget: best_cheapest_k(dist, objective, sellers, budget),
        "same for all": lambda budget: SameForAll.for_budget(dist, sellers, budget),
    }


def best_posted_price(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, budget: float
) -> PostedPrice:
    """Return the posted price with the least excess risk for a budget, from the distribution alone.

    With a price that a share F accepts, ``sellers * F`` records of equal weight are bought at a total promise
    of ``budget / price``.

    Parameters
    ----------
    dist : the distribution of costs.
    objective : prices of uneven weights and of noise; its payment weight is ignored.
    sellers : how many will report, at least 1.
    budget : expected total payment, money, above 0.

    Returns
    -------
    PostedPrice
        The best of 200 prices.
    """
    shares = np.geomspace(min(2.0 / sellers, 0.5), 1.0, _SHARES)
    if np.isinf(dist.support[1]):
        shares = shares[:-1]
    prices = dist.quantile(shares)
    risks = _risk(objective, sellers * shares, prices, budget)
    return PostedPrice.for_budget(dist, sellers, budget, float(shares[int(np.argmin(risks))]))


def best_cheapest_k(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, budget: float
) -> CheapestK:
    """Return the number of cheapest sellers with the least excess risk for a budget.

    Parameters
    ----------
    dist, objective, sellers, budget : as for :func:`best_posted_price`.

    Returns
    -------
    CheapestK
        The best of up to 200 numbers.
    """
    counts = np.unique(np.geomspace(1, sellers, _SHARES).round().astype(int))
    if np.isinf(dist.support[1]):
        counts = counts[counts < sellers]
    prices = np.array([expected_price(dist, sellers, int(k)) for k in counts])
    risks = _risk(objective, counts.astype(float), prices, budget)
    return CheapestK.for_budget(dist, sellers, budget, int(counts[int(np.argmin(risks))]))


def _risk(objective: BuyerObjective, bought: FloatArray, prices: FloatArray, budget: float) -> FloatArray:
    return objective.concentration / np.sqrt(bought) + objective.noise * prices / budget


def _described(name: str, buyer: object) -> list[Any]:
    """Return plain data by which two buyers can be told apart; refuse a buyer who gives none."""
    kind = f"{type(buyer).__module__}.{type(buyer).__qualname__}"
    settings = getattr(buyer, "settings", None)
    try:
        plain = settings() if callable(settings) else _fields(buyer)
        json.dumps(plain)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"expected a buyer that says what it is, for keep_in, got {name!r} ({kind}): give it "
            "a method settings() that returns plain data, make it a frozen dataclass, or leave out keep_in."
        ) from None
    return [kind, plain]


def _fields(value: object) -> object:
    """Return plain data as it is, and frozen dataclasses by their to_dict or their fields."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_fields(item) for item in value]
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict) and (_is_frozen(value) or isinstance(value, CostDistribution)):
        return [type(value).__qualname__, to_dict()]
    if not _is_frozen(value):
        raise TypeError
    names = [field.name for field in fields(cast(Any, value))]
    return [type(value).__qualname__, {key: _fields(getattr(value, key)) for key in names}]


def _is_frozen(value: object) -> bool:
    return bool(getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False))


@dataclass(frozen=True)
class _Task:
    buyers: Mapping[str, Buyer]
    budget: float
    dist: CostDistribution
    trial: Trial
    payment_weight: float
    repetitions: int
    seed: int


def _compare_at(task: _Task) -> Row:
    """Return the standings of all buyers at one budget."""
    seeds = np.random.SeedSequence(task.seed).generate_state(2 * task.repetitions, np.uint64)
    sellers = task.trial.sellers
    values = np.empty((len(task.buyers), task.repetitions, 3))
    promises: list[list[FloatArray]] = [[] for _ in task.buyers]
    for k in range(task.repetitions):
        costs = task.dist.sample(sellers, np.random.default_rng(seeds[2 * k]))
        for b, buyer in enumerate(task.buyers.values()):
            outcome = buyer.run(costs)
            error = task.trial.run(outcome.epsilons, int(seeds[2 * k + 1]))
            values[b, k] = error, outcome.total_payment, np.mean(outcome.epsilons > 0.0)
            promises[b].append(outcome.epsilons[outcome.epsilons > 0.0])
    standings = []
    overall = values[:, :, 0] + task.payment_weight * values[:, :, 1]
    for b, name in enumerate(task.buyers):
        error, error_standard_error = mean_and_standard_error(values[b, :, 0])
        payment, payment_error = mean_and_standard_error(values[b, :, 1])
        total, total_error = mean_and_standard_error(overall[b])
        behind, behind_error = mean_and_standard_error(overall[b] - overall[0])
        bought = np.concatenate(promises[b])
        quantiles = np.quantile(bought, _QUANTILES) if bought.size else np.zeros(3)
        standings.append(
            {
                "buyer": name,
                "budget": task.budget,
                "error": error,
                "error_standard_error": error_standard_error,
                "payment": payment,
                "payment_error": payment_error,
                "overall": total,
                "overall_error": total_error,
                "behind": behind,
                "behind_error": behind_error,
                "epsilon_quantiles": quantiles.tolist(),
                "share_bought": float(values[b, :, 2].mean()),
            }
        )
    return {"standings": standings}
