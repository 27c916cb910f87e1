"""Turn a budget into all that a buyer decides by: a plan, the rule to announce, and whether it is enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket.costs import CostDistribution
from dpmarket.display import html_table, short_repr
from dpmarket.planning.advice import NoiseAdvice, noise_advice
from dpmarket.planning.error_model import ErrorModel, estimator_error
from dpmarket.planning.noise_choice import WORTH_SAYING, NoiseComparison, delta_gain
from dpmarket.planning.plan import Plan
from dpmarket.planning.prices import plan_prices
from dpmarket.planning.rules import RuleChoice, compare_rules
from dpmarket.progress import Progress

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.budget-plan/1"
_PROTECTS_LITTLE = 3.0  # an epsilon that makes an even guess more than 95% sure


@dataclass(frozen=True)
class BudgetPlan:
    """What a budget buys, which rule is recommended, and what to change where it buys mostly noise.

    Attributes
    ----------
    budget
        Expected total payment, money.
    plan
        Prices, payment weight and what to expect of them.
    prices_are_suggested
        Whether the prices are those of the least expected error, or were given.
    rules
        The best rule and one price for all; None for prices that were given.
    advice
        Where noise dominates, from where on it would not; else None.
    delta
        What promises with a delta would gain; None for prices that were given.
    """

    budget: float
    plan: Plan
    prices_are_suggested: bool
    rules: RuleChoice | None
    advice: NoiseAdvice | None
    delta: NoiseComparison | None = None

    def __repr__(self) -> str:
        return short_repr(self, self.summary()[:5])

    def _repr_html_(self) -> str:
        return html_table("What a budget buys", self.summary())

    def summary(self) -> list[tuple[str, str]]:
        """Return the budget, the recommended rule and the plan as rows of a table."""
        rows = [("budget", f"{self.budget:,.6g}")]
        if self.rules is not None:
            rows.append(("recommended rule", self.rules.recommended))
        # A plan with confidence names the budget itself.
        rows += [row for row in self.plan.summary() if row[0] != "budget"]
        if self.advice is not None:
            rows.append(("advice", self.advice.sentence()))
        return rows

    def to_frame(self) -> pl.DataFrame:
        """Return one row: the budget, the recommended rule, prices and what to expect of them."""
        import polars as pl

        rule = None if self.rules is None else self.rules.recommended
        return pl.DataFrame([{"budget": self.budget, "recommended_rule": rule, **self.plan.as_row()}])

    def sentences(self) -> list[str]:
        """Say what the error comes from, what people give up, which rule is recommended, what to change."""
        parts = (self.plan.expected_error, self.rules, self.advice)
        first, *others = [part.sentence() for part in parts if part is not None] or [""]
        if self.delta is not None and self.delta.gain <= WORTH_SAYING:
            others.append(self.delta.sentence())
        return [line for line in (first, self._privacy(), *others) if line]

    def _privacy(self) -> str:
        """Say what the promises mean, and how to hold them down where they mean little."""
        mean = self.plan.mean_promise
        sure = math.ceil(1000.0 / (1.0 + math.exp(-mean))) / 10.0
        line = (
            f"Those bought from are promised epsilon {mean:.3g} on average: an even guess about one of them "
            f"becomes at most {sure:.1f}% sure."
        )
        if mean > _PROTECTS_LITTLE:
            line += " A weight cap or a bound on the mean epsilon holds promises down, and buys from more."
        return line

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
        """Return the plan's values and these, by name, with the schema's name and version."""
        return {
            **self.plan.to_dict(),
            "schema": SCHEMA,
            "budget": self.budget,
            "prices_are_suggested": self.prices_are_suggested,
            "rules": None if self.rules is None else self.rules.to_dict(),
            "advice": None if self.advice is None else self.advice.to_dict(),
            "delta": None if self.delta is None else self.delta.to_dict(),
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
    n_classes: int = 2,
    error_model: ErrorModel | None = None,
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
        Number of columns of a record, the constant not counted; None only with a price or an error model.
    concentration, noise
        Prices to keep. With one of them the other is 1; with neither, both are suggested.
    n_classes
        How many labels there are, at least 2.
    error_model
        What noise and few people cost, in place of the number of features: of a statistic, say. Then nothing
        is said about fewer features.

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
    bounds = {"weight_cap": weight_cap, "max_mean_epsilon": max_mean_epsilon}
    if error_model is None and features is not None:
        error_model = estimator_error(features, n_classes=n_classes)
    plan = plan_prices(
        dist,
        sellers,
        budget,
        error_model,
        concentration=concentration,
        noise=noise,
        **bounds,
        confidence=confidence,
        rng=rng,
        progress=progress,
    )
    if error_model is None or concentration is not None or noise is not None:
        return BudgetPlan(budget, plan, prices_are_suggested=False, rules=None, advice=None)
    rules = compare_rules(dist, plan, budget)
    advice = gain = None
    if features is not None:
        advice = noise_advice(dist, sellers, budget, features, n_classes=n_classes, **bounds)
        gain = delta_gain(plan, features, n_classes)
    return BudgetPlan(budget, plan, prices_are_suggested=True, rules=rules, advice=advice, delta=gain)
