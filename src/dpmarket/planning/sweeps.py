"""Turn objectives into a table of what each would give: promises, payments and, on public data, errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.display import html_grid, short_repr
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms import OfflineMechanism
from dpmarket.planning.bounds import excess_risk
from dpmarket.planning.budgets import checked_market, plan_payment_weight
from dpmarket.planning.error_model import ErrorModel, expected_error
from dpmarket.planning.plan import prices_of
from dpmarket.planning.prices import plan_prices
from dpmarket.planning.rows import Row, compute_rows
from dpmarket.planning.scoring import Trial, mean_and_standard_error
from dpmarket.progress import Progress

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.planning.sweep/3"
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class SweepRow:
    """What one objective gives; means over the repetitions, with standard errors.

    Attributes
    ----------
    objective
        The buyer's objective.
    payment, payment_error
        Total payment, money.
    excess_risk, excess_risk_error
        The objective's loss, ``concentration * |a| + noise / eta``.
    expected_error, noise_share
        The error to expect, and the share of noise in it; None without an error model.
    mean_epsilon
        Over all sellers.
    epsilon_quantiles
        5%, 25%, 50%, 75% and 95% quantiles over all sellers.
    share_bought
        Of the sellers.
    test_error, test_error_standard_error
        Of models trained with these promises; None without public data.
    """

    objective: BuyerObjective
    payment: float
    payment_error: float
    excess_risk: float
    excess_risk_error: float
    expected_error: float | None
    noise_share: float | None
    mean_epsilon: float
    epsilon_quantiles: tuple[float, ...]
    share_bought: float
    test_error: float | None
    test_error_standard_error: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {"objective": self.objective.to_dict()}


@dataclass(frozen=True)
class Sweep:
    """Rows in the order of the objectives.

    Attributes
    ----------
    rows
        One per objective.
    sellers
        How many there were.
    repetitions
        How often costs (and noise) were drawn for each row.
    """

    rows: tuple[SweepRow, ...]
    sellers: int
    repetitions: int

    def __repr__(self) -> str:
        rows = [
            ("objectives", f"{len(self.rows)}"),
            ("sellers", f"{self.sellers:,}"),
            ("repetitions", f"{self.repetitions:,}"),
        ]
        return short_repr(self, rows)

    def _repr_html_(self) -> str:
        return html_grid(f"Sweep, {self.sellers:,} sellers", self._flat())

    def to_frame(self) -> pl.DataFrame:
        """Return a row per objective: its prices and bounds, then the fields of a :class:`SweepRow`."""
        import polars as pl

        return pl.DataFrame(self._flat(), infer_schema_length=None)

    def _flat(self) -> list[dict[str, Any]]:
        return [_flat_row(row) for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        head = {"schema": SCHEMA, "sellers": self.sellers, "repetitions": self.repetitions}
        return {**head, "rows": [row.to_dict() for row in self.rows]}


def _flat_row(row: SweepRow) -> dict[str, Any]:
    """Return a row of a table: prices, numbers, and a column for each quantile."""
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    objective, quantiles = values.pop("objective"), values.pop("epsilon_quantiles")
    named = {f"epsilon_{share:.0%}": value for share, value in zip(_QUANTILES, quantiles, strict=True)}
    return prices_of(objective) | values | named


def at_payment_weights(objective: BuyerObjective, payment_weights: Sequence[float]) -> list[BuyerObjective]:
    """Return the objective with each of these payment weights.

    Parameters
    ----------
    objective
        Prices and bounds; its payment weight is replaced.
    payment_weights
        Error units per unit of money, each above 0.

    Returns
    -------
    list of BuyerObjective
        One per payment weight, in order: the rows of a :func:`sweep`.

    Raises
    ------
    InvalidInput
        If a payment weight is not above 0.

    Examples
    --------
    >>> [o.payment_weight for o in at_payment_weights(BuyerObjective(1.0, 1.0, 1.0), [0.1, 0.2])]
    [0.1, 0.2]
    """
    return [
        replace(objective, payment_weight=checks.positive("payment_weight", weight))
        for weight in payment_weights
    ]


def at_budgets(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, budgets: Sequence[float]
) -> list[BuyerObjective]:
    """Return the objective with the payment weight that spends each of these budgets in expectation.

    Parameters
    ----------
    dist
        The distribution of costs.
    objective
        Prices and bounds; its payment weight is replaced.
    sellers
        How many will report.
    budgets
        Expected total payments, money, each above 0.

    Returns
    -------
    list of BuyerObjective
        One per budget, in order: the rows of a :func:`sweep`.

    Raises
    ------
    InvalidInput, Infeasible
        As :func:`~dpmarket.planning.budgets.plan_payment_weight`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> dist, objective = Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0)
    >>> tight, generous = at_budgets(dist, objective, sellers=1000, budgets=[20.0, 40.0])
    >>> tight.payment_weight > generous.payment_weight
    True
    >>> [round(row.payment) for row in sweep(dist, [tight, generous], sellers=1000, repetitions=5).rows]
    [20, 40]
    """
    return [plan_payment_weight(dist, objective, sellers, budget).objective for budget in budgets]


def at_suggested_prices(
    dist: CostDistribution,
    error_model: ErrorModel | None,
    sellers: int,
    budgets: Sequence[float],
    *,
    concentration: float | None = None,
    noise: float | None = None,
    weight_cap: float | None = None,
    max_mean_epsilon: float | None = None,
) -> list[BuyerObjective]:
    """Return, for each of these budgets, the objective with the prices of the least expected error.

    Parameters
    ----------
    dist
        The distribution of costs.
    error_model
        What noise and few people cost; None only with a price.
    sellers
        How many will report.
    budgets
        Expected total payments, money, each above 0.
    concentration, noise
        Prices to keep in place of suggested ones; with one of them the other is 1.
    weight_cap, max_mean_epsilon
        Bounds of the objectives.

    Returns
    -------
    list of BuyerObjective
        One per budget, in order: the rows of a :func:`sweep`.

    Raises
    ------
    InvalidInput, Infeasible
        As :func:`~dpmarket.planning.prices.plan_prices`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import logistic_error
    >>> tight, generous = at_suggested_prices(Uniform(1, 5), logistic_error(5, 1.2), 1000, [50.0, 500.0])
    >>> tight.noise / tight.concentration > generous.noise / generous.concentration
    True
    """
    return [
        plan_prices(
            dist,
            sellers,
            budget,
            error_model,
            concentration=concentration,
            noise=noise,
            weight_cap=weight_cap,
            max_mean_epsilon=max_mean_epsilon,
        ).objective
        for budget in budgets
    ]


def sweep(
    dist: CostDistribution,
    objectives: Sequence[BuyerObjective],
    sellers: int,
    trial: Trial | None = None,
    *,
    repetitions: int = 20,
    seed: int = 0,
    processes: int = 1,
    keep_in: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    error_model: ErrorModel | None = None,
) -> Sweep:
    """Return what the offline mechanism does under each of several objectives.

    Parameters
    ----------
    dist
        The distribution of costs.
    objectives
        One per row; :func:`at_payment_weights` and :func:`at_budgets` make them.
    sellers
        How many; with a trial, as many as it has.
    trial
        Public records on which models are trained and tested, or None for no test errors.
    repetitions
        How often costs (and with a trial, records and noise) are drawn for each row. All rows see the same
        draws.
    seed
        Everything random follows from it.
    processes, keep_in, progress
        As in :func:`~dpmarket.planning.rows.compute_rows`: several processes, a file to resume from, a
        callback. The table does not depend on them.
    error_model
        What noise and few people cost; None: that of the trial, and without a trial no expected errors.

    Returns
    -------
    Sweep
        One row per objective, in order.

    Raises
    ------
    InvalidInput
        For arguments out of their range, or a trial with another number of sellers.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> objectives = at_payment_weights(BuyerObjective(1.0, 1.0, 1.0), [0.001, 0.01, 0.1])
    >>> table = sweep(Uniform(1, 5), objectives, sellers=200, repetitions=5)
    >>> payments = [row.payment for row in table.rows]
    >>> payments == sorted(payments, reverse=True)
    True
    """
    if trial is not None and not isinstance(trial, Trial):
        raise InvalidInput(f"expected a Trial on public data or None, got {type(trial).__name__}.")
    if not objectives:
        raise InvalidInput("expected at least one objective.")
    for objective in objectives:
        sellers = checked_market(dist, objective, sellers)
        checks.positive("payment_weight", objective.payment_weight)
    if trial is not None and trial.sellers != sellers:
        raise InvalidInput(f"expected as many sellers as the trial has ({trial.sellers}), got {sellers}.")
    repetitions = checks.whole("repetitions", repetitions, minimum=1)
    seed = checks.whole("seed", seed)
    model = trial.error_model if error_model is None and trial is not None else error_model
    tasks = [_Task(dist, objective, sellers, trial, repetitions, seed, model) for objective in objectives]
    description = {
        "distribution": dist.to_dict(),
        "objectives": [objective.to_dict() for objective in objectives],
        "trial": None if trial is None else trial.describe(),
        "error_model": None if model is None else model.to_dict(),
        "settings": [sellers, repetitions, seed],
    }
    rows = compute_rows(_row, tasks, description, processes, keep_in, progress)
    return Sweep(tuple(_from_plain(row) for row in rows), sellers, repetitions)


@dataclass(frozen=True)
class _Task:
    dist: CostDistribution
    objective: BuyerObjective
    sellers: int
    trial: Trial | None
    repetitions: int
    seed: int
    error_model: ErrorModel | None


def _row(task: _Task) -> Row:
    mechanism = OfflineMechanism(task.dist, task.objective)
    seeds = np.random.SeedSequence(task.seed).generate_state(2 * task.repetitions, np.uint64)
    payments, risks, errors, epsilons, parts = [], [], [], [], []
    for k in range(task.repetitions):
        costs = task.dist.sample(task.sellers, np.random.default_rng(seeds[2 * k]))
        outcome = mechanism.run(costs)
        payments.append(outcome.total_payment)
        risks.append(excess_risk(outcome.planned_weights, outcome.planned_noise_rate, task.objective))
        epsilons.append(outcome.epsilons)
        if task.error_model is not None:
            expected = expected_error(outcome, task.error_model)
            parts.append((expected.total, expected.noise_part))
        if task.trial is not None:
            errors.append(task.trial.run(outcome.epsilons, int(seeds[2 * k + 1])))
    promised = np.concatenate(epsilons)
    total, noise = np.mean(parts, axis=0).tolist() if parts else (None, None)
    payment, payment_error = mean_and_standard_error(np.array(payments))
    risk, risk_error = mean_and_standard_error(np.array(risks))
    error, error_standard_error = mean_and_standard_error(np.array(errors)) if errors else (None, None)
    return {
        "objective": task.objective.to_dict(),
        "payment": payment,
        "payment_error": payment_error,
        "excess_risk": risk,
        "excess_risk_error": risk_error,
        "expected_error": total,
        "noise_share": None if total is None else noise / total,
        "mean_epsilon": float(promised.mean()),
        "epsilon_quantiles": np.quantile(promised, _QUANTILES).tolist(),
        "share_bought": float(np.mean(promised > 0.0)),
        "test_error": error,
        "test_error_standard_error": error_standard_error,
    }


def _from_plain(row: Row) -> SweepRow:
    objective = BuyerObjective.from_dict(row["objective"])
    return SweepRow(**{**row, "objective": objective, "epsilon_quantiles": tuple(row["epsilon_quantiles"])})
