"""Turn an outcome and the sellers' costs into the question whether anybody lost by taking part.

Whoever tells the truth must be paid at least what the promise costs them: ``payment >= cost * epsilon``,
for the floats as they stand, in exact rational arithmetic, and again for the whole minor units really
paid. The result counts and points, but contains no cost and no shortfall: payment, epsilon and shortfall
together would give a cost away.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.audit.findings import verdict
from dpmarket.display import html_table, short_repr
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms import Outcome

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.audit.participation/1"
_SHOWN = 20


@dataclass(frozen=True)
class ParticipationAudit:
    """How many sellers lost by taking part, and who.

    Attributes
    ----------
    sellers
        Number of sellers.
    decided_exactly
        For how many floats could not decide, so that rationals did.
    losers
        Sellers paid less than ``cost * epsilon`` in money.
    losers_in_minor_units
        Sellers whose whole minor units are less than ``cost * epsilon``, or less than the payment itself.
    scale
        Minor units to one unit of money.
    total_agrees
        Whether the minor units add up to the stated total.
    positions
        The first losers of either kind, by position.

    Examples
    --------
    A seller with a cost of 3.1 reported 2.9, was bought from at a price of 3.0, and lost.

    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import PostedPrice
    >>> outcome = PostedPrice(Uniform(1, 5), epsilon=0.5, price=3.0).run([1.5, 2.9])
    >>> audit = audit_participation(outcome, costs=[1.5, 3.1])
    >>> audit.passed, audit.losers, audit.positions
    (False, 1, (1,))
    """

    sellers: int
    decided_exactly: int
    losers: int
    losers_in_minor_units: int
    scale: int
    total_agrees: bool
    positions: tuple[int, ...]

    @property
    def passed(self) -> bool:
        """Whether nobody lost, in money or in minor units, and the total is right."""
        return self.losers == 0 and self.losers_in_minor_units == 0 and self.total_agrees

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table; no cost is in it."""
        rows = [
            ("verdict", verdict(passed=self.passed)),
            ("sellers", f"{self.sellers:,}"),
            ("paid less than cost * epsilon", f"{self.losers:,}"),
            (f"the same in units of 1/{self.scale}", f"{self.losers_in_minor_units:,}"),
            ("decided in rationals, floats being too close", f"{self.decided_exactly:,}"),
            ("amounts add up to the total", "yes" if self.total_agrees else "no"),
        ]
        if self.positions:
            rows.append(("first at positions", ", ".join(map(str, self.positions))))
        return rows

    def __repr__(self) -> str:
        return short_repr(self, self.summary()[:4])

    def _repr_html_(self) -> str:
        return html_table("Audit of participation", self.summary())

    def to_frame(self) -> pl.DataFrame:
        """Return what was looked at and what was found, a row each."""
        import polars as pl

        return pl.DataFrame(self.summary(), schema=["what", "found"], orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        names = self.__dataclass_fields__
        values = {name: getattr(self, name) for name in names}
        return {"schema": SCHEMA, "passed": self.passed, **values, "positions": list(self.positions)}


def audit_participation(outcome: Outcome, costs: object, scale: int = 100) -> ParticipationAudit:
    """Check that everybody is paid at least what the promise costs them, exactly.

    Parameters
    ----------
    outcome
        Promises and payments.
    costs
        The true costs, shape (m,), in the outcome's order.
    scale
        Minor units to one unit of money, as in :meth:`~dpmarket.mechanisms.Outcome.in_minor_units`.

    Returns
    -------
    ParticipationAudit

    Raises
    ------
    InvalidInput
        Costs that are no costs or not as many as sellers; payments too large for minor units.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import OfflineMechanism
    >>> mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    >>> audit_participation(mechanism.run([1.5, 2.0, 4.9]), [1.5, 2.0, 4.9]).passed
    True
    """
    if not isinstance(outcome, Outcome):
        raise InvalidInput(f"expected an Outcome, got {type(outcome).__name__}.")
    own = checks.non_negative_vector("costs", costs)
    checks.same_length("costs", own, "outcome.epsilons", outcome.epsilons)
    payments = checks.finite_vector("outcome.payments", outcome.payments)
    epsilons = checks.non_negative_vector("outcome.epsilons", outcome.epsilons)
    money = outcome.in_minor_units(scale)
    lost, exactly = _below(payments, own, epsilons)
    amounts = money.amounts
    short, more = _short_amounts(amounts, own, epsilons, scale)
    lower, _ = _short_amounts(amounts, payments, np.ones(own.size), scale)
    total = money.total == sum(amounts.tolist())
    return _described(own.size, exactly + more, lost, short | lower, scale, total=total)


def audit_paid_amounts(
    epsilons: object, amounts: object, costs: object, scale: int = 100
) -> ParticipationAudit:
    """Check whole minor units, as a quotes file holds them, against ``cost * epsilon``, exactly.

    Parameters
    ----------
    epsilons, costs
        Promises and true costs, shape (m,).
    amounts
        Minor units paid, whole numbers, shape (m,).
    scale
        Minor units to one unit of money.

    Returns
    -------
    ParticipationAudit
        ``losers`` is 0: payments in money are not known here.

    Raises
    ------
    InvalidInput
        Arrays that are not these or differ in length.

    Examples
    --------
    >>> audit_paid_amounts([0.5, 0.1], [100, 30], [2.0, 3.1]).losers_in_minor_units
    1
    """
    promised = checks.non_negative_vector("epsilons", epsilons)
    own = checks.non_negative_vector("costs", costs)
    paid = checks.finite_vector("amounts", amounts)
    checks.same_length("epsilons", promised, "costs", own)
    checks.same_length("amounts", paid, "costs", own)
    scale = checks.whole("scale", scale, 1)
    if (paid != np.floor(paid)).any() or (np.abs(paid) >= 2.0**53).any():
        raise InvalidInput("expected amounts to be whole numbers below 2^53 minor units.")
    short, exactly = _short_amounts(paid.astype(np.int64), own, promised, scale)
    return _described(own.size, exactly, np.zeros(own.size, dtype=bool), short, scale, total=True)


def _described(
    sellers: int, exactly: int, lost: BoolArray, short: BoolArray, scale: int, *, total: bool
) -> ParticipationAudit:
    positions = tuple(np.flatnonzero(lost | short)[:_SHOWN].tolist())
    return ParticipationAudit(sellers, exactly, int(lost.sum()), int(short.sum()), scale, total, positions)


def _below(payments: FloatArray, costs: FloatArray, epsilons: FloatArray) -> tuple[BoolArray, int]:
    """Tell where ``payment < cost * epsilon``, exactly, and how many needed rationals.

    A rounded product is off by less than one float, so that a payment one float above it is enough.
    """
    with np.errstate(over="ignore", under="ignore"):
        enough = payments >= np.nextafter(costs * epsilons, np.inf)
    lost = np.zeros(payments.size, dtype=bool)
    close = np.flatnonzero(~enough)
    for k in close.tolist():
        lost[k] = Fraction(payments[k]) < Fraction(costs[k]) * Fraction(epsilons[k])
    return lost, int(close.size)


def _short_amounts(
    amounts: IntArray, costs: FloatArray, epsilons: FloatArray, scale: int
) -> tuple[BoolArray, int]:
    with np.errstate(over="ignore", under="ignore"):
        enough = amounts >= costs * epsilons * scale * (1.0 + 1e-14) + 1e-300
    short = np.zeros(amounts.size, dtype=bool)
    close = np.flatnonzero(~enough)
    for k in close.tolist():
        short[k] = int(amounts[k]) < scale * Fraction(costs[k]) * Fraction(epsilons[k])
    return short, int(close.size)
