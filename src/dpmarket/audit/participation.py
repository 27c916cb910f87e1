"""The participation audit: is every seller paid at least the cost of the epsilon that they sell.

Individual rationality, checked payment by payment against c H(epsilon). Payments round up to minor units, up
to a rounding error of 1e-9 of one; the same is allowed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.audit.findings import verdict
from dpmarket.display import html_table, short_repr
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.epsilon_cost import EpsilonCost

SCHEMA = "dpmarket.audit.participation/2"
_ROUNDING = 1e-9  # of a minor unit
_SHOWN = 10


@dataclass(frozen=True, repr=False)
class ParticipationAudit:
    """How many sellers were paid less than what they sold costs them.

    Attributes
    ----------
    sellers
        How many were checked.
    losers
        How many were paid less, by more than rounding.
    positions
        The first ten of them.
    largest_loss
        Money.
    """

    sellers: int
    losers: int
    positions: tuple[int, ...]
    largest_loss: float

    @property
    def passed(self) -> bool:
        """Whether nobody lost."""
        return self.losers == 0

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table; it shows no seller's cost."""
        rows = [("verdict", verdict(passed=self.passed)), ("sellers", f"{self.sellers:,}")]
        rows.append(("paid less than their cost", f"{self.losers:,}"))
        if self.losers:
            rows.append(("largest loss", f"{self.largest_loss:.3g}"))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"schema": SCHEMA, "passed": self.passed, **vars(self)}

    def __repr__(self) -> str:
        return short_repr(self, self.summary())

    def _repr_html_(self) -> str:
        return html_table("Audit of participation", self.summary())


class Decided(Protocol):
    """What was decided: an outcome of any mechanism."""

    @property
    def epsilons(self) -> FloatArray:
        """What each seller sells."""
        ...

    @property
    def payments(self) -> FloatArray:
        """What each seller is paid."""
        ...


def audit_participation(
    outcome: Decided, costs: object, *, epsilon_cost: EpsilonCost | None = None, minor_unit: float = 0.01
) -> ParticipationAudit:
    """Check an outcome's payments against the true cost of what was sold.

    Parameters
    ----------
    outcome
        With epsilons and payments in money.
    costs
        The true costs, one per seller.
    epsilon_cost
        What epsilon costs a seller: loss c H. None: linear.
    minor_unit
        Of the money; a billionth of it counts as rounding.

    Returns
    -------
    ParticipationAudit
        Without anybody's cost.

    Raises
    ------
    InvalidInput
        If vectors differ in length or are not numbers.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms.exact import OfflineMechanism
    >>> from dpmarket.mechanisms.objective import Objective
    >>> outcome = OfflineMechanism(Uniform(1, 5), Objective.for_model(5, 0.1)).run([1.5, 2.0, 4.0])
    >>> audit_participation(outcome, [1.5, 2.0, 4.0]).passed
    True
    """
    if not hasattr(outcome, "epsilons") or not hasattr(outcome, "payments"):
        raise InvalidInput("expected an Outcome, with epsilons and payments.")
    unit = checks.positive("minor_unit", minor_unit)
    return _compared(outcome.epsilons, outcome.payments, costs, epsilon_cost, unit)


def audit_paid_amounts(
    epsilons: object,
    amounts: object,
    costs: object,
    scale: int = 100,
    epsilon_cost: EpsilonCost | None = None,
) -> ParticipationAudit:
    """Check whole minor units, as a quotes file holds them, as :func:`audit_participation` does.

    Parameters
    ----------
    epsilons, costs
        One of each per seller.
    amounts
        Minor units paid, whole numbers.
    scale
        Minor units to one unit of money.
    epsilon_cost
        What epsilon costs a seller. None: linear.

    Returns
    -------
    ParticipationAudit
        Without anybody's cost.

    Examples
    --------
    >>> audit_paid_amounts([0.5, 0.1], [100, 30], [2.0, 3.1]).losers
    1
    """
    paid = checks.finite_vector("amounts", amounts)
    scale = checks.whole("scale", scale, 1)
    if (paid != np.floor(paid)).any() or (np.abs(paid) >= 2.0**53).any():
        raise InvalidInput("expected amounts to be whole numbers below 2^53 minor units.")
    return _compared(epsilons, paid / scale, costs, epsilon_cost, 1.0 / scale)


def _compared(
    epsilons: object, payments: object, costs: object, epsilon_cost: EpsilonCost | None, unit: float
) -> ParticipationAudit:
    sold = checks.non_negative_vector("epsilons", epsilons)
    paid = checks.finite_vector("payments", payments)
    own = checks.non_negative_vector("costs", costs)
    checks.same_length("epsilons", sold, "costs", own)
    checks.same_length("payments", paid, "costs", own)
    table = EpsilonCost.identity() if epsilon_cost is None else epsilon_cost
    needed = own * table.cost_of_epsilon(sold)
    short = needed - paid
    lost = short > _ROUNDING * unit + 1e-12 * needed
    positions = tuple(np.flatnonzero(lost)[:_SHOWN].tolist())
    largest = float(short[lost].max()) if positions else 0.0
    return ParticipationAudit(own.size, int(lost.sum()), positions, largest)
