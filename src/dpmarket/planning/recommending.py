"""Turn a budget into all that a buyer decides by: a plan, the rule to announce, and whether it is enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmarket.allocation import BuyerObjective
from dpmarket.costs import CostDistribution
from dpmarket.errors import InvalidInput
from dpmarket.planning.advice import NoiseAdvice, noise_advice
from dpmarket.planning.budgets import plan_payment_weight
from dpmarket.planning.error_model import estimator_error
from dpmarket.planning.plan import Plan
from dpmarket.planning.prices import plan_prices
from dpmarket.planning.rules import RuleChoice, compare_rules
from dpmarket.progress import Progress

SCHEMA = "dpmarket.budget-plan/1"


@dataclass(frozen=True)
class BudgetPlan:
    """What a budget buys, which rule is recommended, and what to change where it buys mostly noise.

    Attributes
    ----------
    budget : expected total payment, money.
    plan : prices, payment weight and what to expect of them.
    prices_are_suggested : whether the prices are those of the least expected error, or were given.
    rules : the best rule and one price for all; None for prices that were given.
    advice : where noise dominates, from where on it would not; else None.
    """

    budget: float
    plan: Plan
    prices_are_suggested: bool
    rules: RuleChoice | None
    advice: NoiseAdvice | None

    def sentences(self) -> list[str]:
        """Say what the error comes from, which rule is recommended, and what to change."""
        parts = (self.plan.expected_error, self.rules, self.advice)
        return [part.sentence() for part in parts if part is not None]

    def settings(self) -> dict[str, Any]:
        """Return the keys of the market file that announce this plan, with their values."""
        objective = self.plan.objective
        values: dict[str, Any] = {
            "objective.weight_cap": objective.weight_cap,
            "objective.max_mean_epsilon": objective.max_mean_epsilon,
        }
        if self.prices_are_suggested:
            guarantee, rules = self.plan.guarantee, self.rules
            posted = rules is not None and rules.recommended == "posted price"
            values |= {
                "objective.budget": self.budget,
                "sellers.expected": self.plan.sellers,
                "objective.confidence": None if guarantee is None else guarantee.confidence,
                "objective.mechanism": "posted price" if posted else None,
            }
        else:
            values |= {
                "objective.payment_weight": objective.payment_weight,
                "objective.concentration": objective.concentration,
                "objective.noise": objective.noise,
            }
        return {path: value for path, value in values.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        return {
            "schema": SCHEMA,
            "budget": self.budget,
            "payment_weight": self.plan.payment_weight,
            "prices_are_suggested": self.prices_are_suggested,
            "plan": self.plan.to_dict(),
            "rules": None if self.rules is None else self.rules.to_dict(),
            "advice": None if self.advice is None else self.advice.to_dict(),
            "settings": self.settings(),
        }


def plan_budget(
    dist: CostDistribution,
    sellers: int,
    budget: float,
    features: int | None,
    *,
    concentration: float | None = None,
    noise: float | None = None,
    weight_cap: float | None = None,
    max_mean_epsilon: float | None = None,
    confidence: float | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> BudgetPlan:
    """Return a plan for a budget, with suggested prices or given ones, and a recommendation.

    Parameters
    ----------
    dist, sellers, budget, weight_cap, max_mean_epsilon, confidence, rng, progress
        As in :func:`~dpmarket.planning.prices.suggest_prices`.
    features
        Number of columns of a record, the constant not counted; None only with a price.
    concentration, noise
        Prices to keep. With one of them the other is 1; with neither, both are suggested.

    Returns
    -------
    BudgetPlan
        A function of the arguments alone.

    Raises
    ------
    InvalidInput
        For arguments out of their range, or neither features nor a price.
    Infeasible
        As :func:`~dpmarket.planning.budgets.plan_payment_weight`.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> found = plan_budget(Uniform(1, 5), sellers=2000, budget=500.0, features=2)
    >>> found.rules.recommended, found.advice
    ('posted price', None)
    >>> print(found.sentences()[0])
    Of the expected error 54% is noise and 46% comes from few people.
    """
    model = None if features is None else estimator_error(features)
    if concentration is not None or noise is not None:
        objective = BuyerObjective(
            1.0 if concentration is None else concentration,
            1.0 if noise is None else noise,
            1.0,
            weight_cap,
            max_mean_epsilon,
        )
        plan = plan_payment_weight(dist, objective, sellers, budget, confidence, rng, progress)
        return BudgetPlan(budget, replace(plan, error_model=model), False, None, None)
    if features is None or model is None:
        raise InvalidInput(
            "expected features, the number of columns of a record, for which prices are suggested; or "
            "concentration and noise, which are kept."
        )
    bounds = {"weight_cap": weight_cap, "max_mean_epsilon": max_mean_epsilon}
    plan = plan_prices(
        dist, sellers, budget, model, **bounds, confidence=confidence, rng=rng, progress=progress
    )
    rules = compare_rules(dist, plan, budget)
    return BudgetPlan(budget, plan, True, rules, noise_advice(dist, sellers, budget, features, **bounds))
