"""Turn a budget into what more and less of it would have bought, from public values alone."""

from __future__ import annotations

from dataclasses import dataclass

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.errors import Infeasible
from dpmarket.planning.budgets import plan_payment_weight

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Option:
    """What can be expected of one budget.

    Attributes
    ----------
    factor : the budget as a multiple of the campaign's.
    payment : expected total payment, money.
    excess_risk : expected part of the model's error bound that buying more privacy would lower.
    share_bought : expected share of sellers bought from.
    """

    factor: float
    payment: float
    excess_risk: float
    share_bought: float


def budget_options(
    dist: CostDistribution, objective: BuyerObjective, sellers: int, budget: float
) -> tuple[Option, ...]:
    """Plan for a quarter of the budget to four times as much; budgets that cannot be spent are left out.

    Parameters
    ----------
    dist, objective, sellers : as for :func:`~dpmarket.planning.budgets.plan_payment_weight`.
    budget : the campaign's, money, above 0.

    Returns
    -------
    tuple of Option
        By rising budget; a function of public values only.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> options = budget_options(Uniform(1, 5), BuyerObjective(1.0, 1.0, 1.0), 1000, 20.0)
    >>> [option.factor for option in options], options[0].excess_risk > options[-1].excess_risk
    ([0.25, 0.5, 1.0, 2.0, 4.0], True)
    """
    options = []
    for factor in FACTORS:
        try:
            plan = plan_payment_weight(dist, objective, sellers, factor * budget)
        except Infeasible:
            continue
        options.append(Option(factor, plan.expected_payment, plan.expected_excess_risk, plan.share_bought))
    return tuple(options)
