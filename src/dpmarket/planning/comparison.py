"""Try several buyers on the same sellers, records, budgets and chance, and say who errs least.

Everything that is random (costs, records, noise) is drawn once per repetition and shared by all buyers, so
that differences between them are much better known than their errors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution
from dpmarket.display import html_grid, short_repr
from dpmarket.errors import InvalidInput
from dpmarket.planning.buyers import Builder, Buyer
from dpmarket.planning.rows import Row, compute_rows
from dpmarket.planning.scoring import Trial, mean_and_standard_error
from dpmarket.progress import Progress

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.comparison/2"
_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Standing:
    """How one buyer did with one budget; every mean with its standard error.

    Attributes
    ----------
    buyer, budget
        Who, and with how much money in expectation.
    error, error_standard_error
        Test error.
    log_loss, log_loss_standard_error
        Test log loss.
    payment, payment_error
        Total payment, money.
    overall, overall_error
        Test error + payment_weight * payment.
    behind, behind_error
        Overall error less that of the first buyer, repetition by repetition.
    log_loss_behind, log_loss_behind_error
        Log loss less that of the first buyer, alike.
    epsilon_quantiles
        The 5%, 50% and 95% quantiles of the promises to those bought from.
    share_bought
        Of the sellers.
    """

    buyer: str
    budget: float
    error: float
    error_standard_error: float
    log_loss: float
    log_loss_standard_error: float
    payment: float
    payment_error: float
    overall: float
    overall_error: float
    behind: float
    behind_error: float
    log_loss_behind: float
    log_loss_behind_error: float
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
    standings
        Budget by budget, the buyers in the order given.
    payment_weight
        Error units per unit of money in the overall error.
    repetitions
        How often costs, records and noise were drawn.
    sellers
        How many there were.
    """

    standings: tuple[Standing, ...]
    payment_weight: float
    repetitions: int
    sellers: int

    def __repr__(self) -> str:
        buyers = dict.fromkeys(standing.buyer for standing in self.standings)
        budgets = {standing.budget for standing in self.standings}
        rows = [
            ("sellers", f"{self.sellers:,}"),
            ("repetitions", f"{self.repetitions:,}"),
            ("budgets", f"{len(budgets)}"),
            ("buyers", " | ".join(buyers)),
        ]
        return short_repr(self, rows)

    def _repr_html_(self) -> str:
        return html_grid(f"Buyers compared, {self.sellers:,} sellers", self._rows())

    def to_frame(self) -> pl.DataFrame:
        """Return a row for every budget and buyer: the fields of a :class:`Standing`."""
        import polars as pl

        return pl.DataFrame(self._rows(), infer_schema_length=None)

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {name: getattr(s, name) for name in s.__dataclass_fields__} | {"is_clear": s.is_clear}
            for s in self.standings
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        return {
            "schema": SCHEMA,
            "payment_weight": self.payment_weight,
            "repetitions": self.repetitions,
            "sellers": self.sellers,
            "standings": self._rows(),
        }


def compare(
    dist: CostDistribution,
    trial: Trial,
    buyers: Mapping[str, Builder],
    budgets: Sequence[float],
    payment_weight: float,
    *,
    repetitions: int = 100,
    seed: int = 0,
    processes: int = 1,
    keep_in: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Return how buyers do on the same sellers, records and chance, at equal expected payments.

    Parameters
    ----------
    dist
        The distribution of costs, from which sellers' costs are drawn.
    trial
        The public records, and how models are trained on them.
    buyers
        For every name a function from a budget to a mechanism that spends it in expectation; see
        :func:`~dpmarket.planning.buyers.standard_buyers`. The others are compared with the first. With
        ``keep_in`` they have to say what they are, by a method ``settings`` that returns plain data or as
        frozen dataclasses of such.
    budgets
        Money, each above 0.
    payment_weight
        Error units per unit of money in the overall error: what money is worth to the reader.
    repetitions
        How often costs, split and noise are drawn, at least 2.
    seed
        Everything random follows from it.
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
    >>> from dpmarket.planning import standard_buyers
    >>> trial = Trial(separable(400, 2, np.random.default_rng(0)))
    >>> dist = Uniform(1, 5)
    >>> buyers = standard_buyers(dist, trial.error_model, trial.sellers)
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
    values = np.empty((len(task.buyers), task.repetitions, 4))
    promises: list[list[FloatArray]] = [[] for _ in task.buyers]
    for k in range(task.repetitions):
        costs = task.dist.sample(sellers, np.random.default_rng(seeds[2 * k]))
        for b, buyer in enumerate(task.buyers.values()):
            outcome = buyer.run(costs)
            scores = task.trial.score(outcome.epsilons, int(seeds[2 * k + 1]))
            values[b, k] = *scores, outcome.total_payment, np.mean(outcome.epsilons > 0.0)
            promises[b].append(outcome.epsilons[outcome.epsilons > 0.0])
    standings = []
    overall = values[:, :, 0] + task.payment_weight * values[:, :, 2]
    for b, name in enumerate(task.buyers):
        error, error_standard_error = mean_and_standard_error(values[b, :, 0])
        log_loss, log_loss_standard_error = mean_and_standard_error(values[b, :, 1])
        payment, payment_error = mean_and_standard_error(values[b, :, 2])
        total, total_error = mean_and_standard_error(overall[b])
        behind, behind_error = mean_and_standard_error(overall[b] - overall[0])
        losing, losing_error = mean_and_standard_error(values[b, :, 1] - values[0, :, 1])
        bought = np.concatenate(promises[b])
        quantiles = np.quantile(bought, _QUANTILES) if bought.size else np.zeros(3)
        standings.append(
            {
                "buyer": name,
                "budget": task.budget,
                "error": error,
                "error_standard_error": error_standard_error,
                "log_loss": log_loss,
                "log_loss_standard_error": log_loss_standard_error,
                "payment": payment,
                "payment_error": payment_error,
                "overall": total,
                "overall_error": total_error,
                "behind": behind,
                "behind_error": behind_error,
                "log_loss_behind": losing,
                "log_loss_behind_error": losing_error,
                "epsilon_quantiles": quantiles.tolist(),
                "share_bought": float(values[b, :, 3].mean()),
            }
        )
    return {"standings": standings}
