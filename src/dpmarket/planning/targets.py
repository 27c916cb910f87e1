"""Turn a target excess risk into the cheapest plan, or into the number of sellers that a budget needs.

The plan for a target is the largest payment weight that reaches it. It is the cheapest, because the
allocation at every payment weight minimises excess risk plus money at that exchange rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket import checks
from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.display import html_grid, short_repr
from dpmarket.errors import Infeasible
from dpmarket.planning.budgets import checked_market
from dpmarket.planning.plan import Plan, plan_from
from dpmarket.planning.search import (
    estimate_payment_weight,
    excess_risks,
    find_payment_weight,
    payments,
)

if TYPE_CHECKING:
    import polars as pl

_MOST_SELLERS = 10**10

TABLE_SCHEMA = "dpmarket.budget-table/1"


def plan_target(
    dist: CostDistribution,
    objective: BuyerObjective,
    sellers: int,
    target: float,
    rng: np.random.Generator | None = None,
) -> Plan:
    """Return the cheapest plan whose expected excess risk is ``target``.

    Where costs come in groups, excess risk can jump over the target as the payment weight rises; the plan
    then stays below the jump, reaches more than the target, and says by how much in its ``gap``.

    Parameters
    ----------
    dist, objective, sellers, rng
        As in :func:`~dpmarket.planning.budgets.plan_payment_weight`.
    target
        Expected ``concentration * |a| + noise / eta``, above 0.

    Returns
    -------
    Plan
        A function of the arguments alone; ``float(plan)`` is the payment weight.

    Raises
    ------
    InvalidInput
        For arguments out of their range.
    Infeasible
        If no plan reaches the target; the message says which excess risk can be reached.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> plan = plan_target(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0), sellers=2000, target=0.2)
    >>> round(plan.expected_excess_risk, 3), plan.expected_payment < 20.0
    (0.2, True)
    """
    sellers = checked_market(dist, objective, sellers)
    target = checks.positive("target", target)
    least = least_excess_risk(objective, sellers)
    if target <= least:
        raise Infeasible(
            f"expected a target above {least!r}, which {sellers} sellers would reach for unlimited money, "
            f"got {target!r}; ask more sellers or raise max_mean_epsilon."
        )
    source = np.random.default_rng(0) if rng is None else rng
    found = find_payment_weight(dist, objective, sellers, excess_risks, target, source)
    return plan_from(found, sellers)


def plan_sellers(
    dist: CostDistribution,
    objective: BuyerObjective,
    budget: float,
    target: float,
    rng: np.random.Generator | None = None,
) -> Plan:
    """Return the plan with the fewest sellers whose expected excess risk a budget brings down to ``target``.

    Parameters
    ----------
    dist, objective, rng
        As in :func:`~dpmarket.planning.budgets.plan_payment_weight`.
    budget
        Expected total payment, money.
    target
        Expected excess risk, above 0.

    Returns
    -------
    Plan
        Its number of sellers is the smallest up to the error of the simulation, which the plan states.

    Raises
    ------
    InvalidInput
        For arguments out of their range.
    Infeasible
        If the budget does not reach the target with 10,000,000,000 sellers; the message says what it reaches.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> plan = plan_sellers(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0), budget=10.0, target=0.2)
    >>> 2000 < plan.sellers < 4000
    True
    """
    checked_market(dist, objective, 2)
    budget, target = checks.positive("budget", budget), checks.positive("target", target)
    limit = limit_price(dist, objective) * objective.noise / budget
    if target <= limit:
        raise Infeasible(
            f"expected a target above {limit!r}, which the budget {budget!r} reaches with unlimited sellers, "
            f"got {target!r}; raise the budget."
        )
    source = np.random.default_rng(0) if rng is None else rng
    seed = int(source.integers(2**63))

    def planned(sellers: int) -> Plan:
        return plan_target(dist, objective, sellers, target, np.random.default_rng(seed))

    def roughly_enough(sellers: int) -> bool:
        if not _possible(dist, objective, sellers) or target <= least_excess_risk(objective, sellers):
            return False
        estimate = estimate_payment_weight(dist, objective, sellers, excess_risks, target)
        return estimate.expectation.payment <= budget

    def enough(sellers: int) -> bool:
        if not _possible(dist, objective, sellers) or target <= least_excess_risk(objective, sellers):
            return False
        return planned(sellers).expected_payment <= budget

    if not roughly_enough(_MOST_SELLERS):
        reached = estimate_payment_weight(dist, objective, _MOST_SELLERS, payments, budget).expectation
        raise Infeasible(
            f"expected a target above about {reached.excess_risk!r}, which the budget {budget!r} reaches "
            f"with {_MOST_SELLERS} sellers, got {target!r}; raise the budget."
        )
    guess = _fewest(roughly_enough, 1)
    step = max(guess // 200, 1)
    low, high = guess, guess
    while low > 1 and enough(low):
        low, high = max(low - step, 1), low
        step *= 2
    while not enough(high):
        low, high = high, high + step
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return planned(high)


def least_excess_risk(objective: BuyerObjective, sellers: int) -> float:
    """Return the excess risk that no allocation to ``sellers`` people goes below, for any money."""
    spread = objective.concentration / math.sqrt(sellers)
    if objective.max_mean_epsilon is None:
        return spread
    return spread + objective.noise / (sellers * objective.max_mean_epsilon)


def limit_price(dist: CostDistribution, objective: BuyerObjective) -> float:
    """Return what a unit of epsilon costs when there are ever more sellers.

    Without a weight cap all is bought from the cheapest, at the lower end of the support. With a cap k at
    least one in k must be bought from, at the price that so many accept: the quantile 1/k. (The mean virtual
    cost below a quantile is that quantile.)
    """
    if objective.weight_cap is None:
        return dist.support[0]
    return float(dist.quantile(1.0 / objective.weight_cap))


@dataclass(frozen=True)
class BudgetTable:
    """The expected payments that a given excess risk takes, by number of sellers.

    Attributes
    ----------
    target
        The excess risk.
    sellers
        Numbers of sellers, rising.
    plans
        The cheapest plan for each, or None where so few sellers cannot reach the target.
    limit
        What the payments tend to as sellers grow.

    Examples
    --------
    Ten sellers cannot reach the target for any money; more of them reach it for less and less.

    >>> from dpmarket.costs import Uniform
    >>> objective = BuyerObjective(1.0, 1.0, 1.0)
    >>> table = budget_for_loss(Uniform(1, 5), objective, target=0.3, sellers=(10, 100, 1000))
    >>> [round(budget, 1) for budget in table.budgets], round(table.limit, 1)
    ([inf, 17.1, 6.8], 3.3)
    """

    target: float
    sellers: tuple[int, ...]
    plans: tuple[Plan | None, ...]
    limit: float

    def __repr__(self) -> str:
        rows = [
            ("target", f"{self.target:.4g}"),
            ("sellers", " | ".join(f"{sellers:,}" for sellers in self.sellers)),
            ("budgets", " | ".join(f"{budget:.4g}" for budget in self.budgets)),
        ]
        return short_repr(self, rows)

    def _repr_html_(self) -> str:
        return html_grid(f"Budgets for an excess risk of {self.target:.4g}", self._flat())

    def to_frame(self) -> pl.DataFrame:
        """Return a row for each number of sellers: what its plan says, nothing where there is none."""
        import polars as pl

        return pl.DataFrame(self._flat(), infer_schema_length=None)

    def _flat(self) -> list[dict[str, Any]]:
        rows = [None if plan is None else plan.as_row() for plan in self.plans]
        names = next((list(row) for row in rows if row is not None), ["sellers"])
        nothing = dict.fromkeys(names)
        return [
            (nothing if row is None else row) | {"sellers": sellers}
            for sellers, row in zip(self.sellers, rows, strict=True)
        ]

    @property
    def budgets(self) -> tuple[float, ...]:
        """Expected payments, money; infinite where the target cannot be reached."""
        return tuple(math.inf if plan is None else plan.expected_payment for plan in self.plans)

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        return {
            "schema": TABLE_SCHEMA,
            "target": self.target,
            "limit": self.limit,
            "sellers": list(self.sellers),
            "plans": [None if plan is None else plan.to_dict() for plan in self.plans],
        }


def budget_for_loss(
    dist: CostDistribution,
    objective: BuyerObjective,
    target: float,
    sellers: Sequence[int] = (100, 1_000, 10_000, 100_000, 1_000_000),
    rng: np.random.Generator | None = None,
) -> BudgetTable:
    """Return the budget that a given excess risk takes, for ever more sellers.

    The paper's claim: because the buyer can choose whom to buy from, the budget for a given loss stays
    bounded as sellers grow. It even falls, towards ``limit``: the noise must be ``noise / target`` in total
    epsilon, and that is bought ever closer to the lowest price.

    Parameters
    ----------
    dist, objective, rng
        As in :func:`~dpmarket.planning.budgets.plan_payment_weight`.
    target
        Expected excess risk, above 0.
    sellers
        Numbers of sellers, rising.

    Returns
    -------
    BudgetTable
        The cheapest plan for every number of sellers.

    Raises
    ------
    InvalidInput
        For arguments out of their range.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> table = budget_for_loss(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0), 0.2, sellers=(20, 500, 5000))
    >>> [round(budget, 1) for budget in table.budgets], table.limit
    ([inf, 17.1, 8.5], 5.0)
    """
    target = checks.positive("target", target)
    counts = tuple(checked_market(dist, objective, count) for count in sellers)
    source = np.random.default_rng(0) if rng is None else rng
    plans = tuple(
        plan_target(dist, objective, count, target, source)
        if target > least_excess_risk(objective, count)
        else None
        for count in counts
    )
    limit = limit_price(dist, objective) * objective.noise / target
    return BudgetTable(target, counts, plans, limit)


def _possible(dist: CostDistribution, objective: BuyerObjective, sellers: int) -> bool:
    try:
        checked_market(dist, objective, sellers)
    except Infeasible:
        return False
    return True


def _fewest(enough: Any, start: int) -> int:
    """Return the smallest number that is enough, if enough stays enough: doubling, then halving."""
    low, high = 0, start
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
