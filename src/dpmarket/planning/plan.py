"""Hold a planned purchase together with the evidence for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpmarket.allocation import BuyerObjective
from dpmarket.display import html_table, short_repr
from dpmarket.errors import InvalidInput
from dpmarket.planning.error_model import ErrorModel, ExpectedError, expected_error
from dpmarket.planning.search import Found

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.plan/1"


@dataclass(frozen=True)
class Guarantee:
    """How likely a budget is to suffice, by simulated campaigns with real payments.

    Attributes
    ----------
    budget
        Money that payments should not exceed.
    confidence
        The probability that was asked for.
    quantile
        Total payment of the campaign with the rank that, by the binomial law, lies above the true quantile
        with probability 99%; at most the budget.
    fresh_share
        Share of campaigns within the budget, among others than those the plan was made with.
    draws
        Number of campaigns, of each kind.
    """

    budget: float
    confidence: float
    quantile: float
    fresh_share: float
    draws: int

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Prospect:
    """What can be expected of a rule, whichever it is.

    Attributes
    ----------
    payment
        Expected total payment, money.
    error
        The error to expect.
    share_bought
        Expected share of sellers bought from.
    """

    payment: float
    error: ExpectedError
    share_bought: float


@dataclass(frozen=True)
class Plan:
    """An objective to announce before anybody reports a cost, and what to expect of it.

    Everything follows from the cost distribution and public parameters; ``float(plan)`` is the payment
    weight.

    Attributes
    ----------
    objective
        The buyer's objective with the planned payment weight.
    sellers
        Number of sellers that the plan is for.
    expected_payment, payment_error
        Expected total payment and its standard error, money.
    expected_excess_risk, excess_risk_error
        Expected excess risk and its standard error.
    share_bought
        Expected share of sellers bought from.
    squared_norm, inverse_square
        Expected square of the weights' norm, and inverse square of the total promise;
        :func:`~dpmarket.planning.error_model.expected_error` makes an expected error of them.
    draws
        Number of simulated markets.
    gap
        What the plan leaves of the budget (money) or of the target excess risk because no payment weight
        meets it: the best allocation can change at once from a few cheap sellers to many dear ones, and
        payments jump. 0 where it is met, to one part in 2,000, and for a plan with confidence.
    guarantee
        For a plan with confidence, how likely the budget is to suffice; else None.
    error_model
        What the prices were made for; None for prices that were given.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OfflineMechanism
    >>> from dpmarket.planning import plan_payment_weight
    >>> dist = Uniform(1, 5)
    >>> plan = plan_payment_weight(dist, BuyerObjective(1.0, 1.0, 1.0), sellers=500, budget=20.0)
    >>> round(plan.expected_payment, 1), plan.share_bought < 0.5, plan.guarantee is None
    (20.0, True, True)
    >>> mechanism = OfflineMechanism(dist, plan.objective)  # what to announce
    """

    objective: BuyerObjective
    sellers: int
    expected_payment: float
    payment_error: float
    expected_excess_risk: float
    excess_risk_error: float
    share_bought: float
    squared_norm: float
    inverse_square: float
    draws: int
    gap: float = 0.0
    guarantee: Guarantee | None = None
    error_model: ErrorModel | None = None

    def __repr__(self) -> str:
        return short_repr(self, self.summary()[:5])

    def _repr_html_(self) -> str:
        return html_table("Plan", self.summary())

    def as_row(self) -> dict[str, float | int | None]:
        """Return the numbers of a plan by name, those of its objective among them: a row of a table."""
        error = self.expected_error
        return {
            "sellers": self.sellers,
            **prices_of(self.objective),
            "expected_payment": self.expected_payment,
            "share_bought": self.share_bought,
            "mean_promise": self.mean_promise,
            "expected_excess_risk": self.expected_excess_risk,
            "expected_error": None if error is None else error.total,
        }

    def to_frame(self) -> pl.DataFrame:
        """Return one row: prices, bounds and what to expect of them."""
        import polars as pl

        return pl.DataFrame([self.as_row()])

    @property
    def payment_weight(self) -> float:
        """Error units per unit of money (the paper's gamma)."""
        return self.objective.payment_weight

    @property
    def mean_promise(self) -> float:
        """About what those who are bought from are promised on average."""
        return 1.0 / (math.sqrt(self.inverse_square) * self.share_bought * self.sellers)

    @property
    def expected_error(self) -> ExpectedError | None:
        """The error to expect, in two parts; None without an error model."""
        return None if self.error_model is None else expected_error(self, self.error_model)

    @property
    def prospect(self) -> Prospect:
        """What can be expected, in a form that other rules have, too; needs an error model."""
        error = self.expected_error
        if error is None:
            raise InvalidInput("expected a plan with an error model, as plan_prices makes it, got none.")
        return Prospect(self.expected_payment, error, self.share_bought)

    def __float__(self) -> float:
        return self.payment_weight

    def summary(self) -> list[tuple[str, str]]:
        """Return the plan as rows of a table."""
        rows = [
            ("sellers", f"{self.sellers:,}"),
            ("payment weight", f"{self.payment_weight:.6g}"),
            ("expected payments", f"{self.expected_payment:,.6g}"),
            *self._error_rows(),
            ("bought from, expected", f"{self.share_bought:.1%}"),
            ("their mean epsilon, about", f"{self.mean_promise:.3g}"),
            ("simulated markets", f"{self.draws:,}"),
        ]
        if self.gap > 0.0:
            rows.append(("gap, met by no payment weight", f"{self.gap:,.6g}"))
        if self.guarantee is not None:
            rows += [
                ("budget", f"{self.guarantee.budget:,.6g}"),
                ("confidence asked for", f"{self.guarantee.confidence:.1%}"),
                ("kept in fresh campaigns", f"{self.guarantee.fresh_share:.1%} of {self.guarantee.draws:,}"),
            ]
        return rows

    def _error_rows(self) -> list[tuple[str, str]]:
        error = self.expected_error
        if error is None:
            return [("expected excess risk", f"{self.expected_excess_risk:.6g}")]
        return [
            ("expected error", f"{error.total:.4g}"),
            ("of it noise", f"{error.noise_share:.0%}"),
            ("of it few people", f"{1.0 - error.noise_share:.0%}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["objective"] = self.objective.to_dict()
        values["guarantee"] = None if self.guarantee is None else self.guarantee.to_dict()
        values["error_model"] = None if self.error_model is None else self.error_model.to_dict()
        error = self.expected_error
        values["expected_error"] = None if error is None else error.to_dict()
        return {"schema": SCHEMA, "payment_weight": self.payment_weight, **values}


def plan_from(found: Found, sellers: int) -> Plan:
    """Return the plan that a search has found."""
    e = found.expectation
    return Plan(
        objective=found.objective,
        sellers=sellers,
        expected_payment=e.payment,
        payment_error=e.payment_error,
        expected_excess_risk=e.excess_risk,
        excess_risk_error=e.excess_risk_error,
        share_bought=e.share,
        squared_norm=e.squared_norm,
        inverse_square=e.inverse_square,
        draws=found.draws,
        gap=found.gap,
    )


def prices_of(objective: BuyerObjective) -> dict[str, float | None]:
    """Return prices and bounds of an objective by name, for a row of a table."""
    names = ("concentration", "noise", "payment_weight", "weight_cap", "max_mean_epsilon")
    return {name: getattr(objective, name) for name in names}
