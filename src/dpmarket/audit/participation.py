"""The participation audit, or individual rationality: payments of at least c H(epsilon), up to rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmarket import checks
from dpmarket.audit.findings import Audit, verdict
from dpmarket.mechanisms.epsilon_cost import EpsilonCost

_ROUNDING = 1e-9  # of a minor unit
_SHOWN = 10


@dataclass(frozen=True, repr=False)
class ParticipationAudit(Audit):
    """How many sellers were paid less than the cost of what they sold; nobody's cost.

    Attributes
    ----------
    sellers, losers, positions
        How many were checked, how many of them were paid less, by more than rounding, and the first ten.
    largest_loss
        Money.
    """

    sellers: int
    losers: int
    positions: tuple[int, ...]
    largest_loss: float
    title: ClassVar[str] = "Audit of participation"
    schema: ClassVar[str] = "dpmarket.audit.participation/2"

    @property
    def passed(self) -> bool:
        """Whether every seller was paid enough."""
        return self.losers == 0

    def summary(self) -> list[tuple[str, str]]:
        """Return the evidence as rows of a table; it shows no seller's cost."""
        rows = [("verdict", verdict(passed=self.passed)), ("sellers", f"{self.sellers:,}")]
        rows.append(("paid less than their cost", f"{self.losers:,}"))
        if self.losers:
            rows.append(("largest loss", f"{self.largest_loss:.3g}"))
        return rows


def audit_participation(
    epsilons: object, payments: object, costs: object, *, epsilon_cost: EpsilonCost | None = None,
    minor_unit: float = 0.01,
) -> ParticipationAudit:  # fmt: skip
    """Compare payments with the true cost of what was sold.

    Parameters
    ----------
    epsilons, payments
        What each seller sells and is paid, in money: of an outcome, or of a quotes file.
    costs
        The true costs, one per seller.
    epsilon_cost
        What epsilon costs a seller: loss c H. None: linear.
    minor_unit
        Of the money; a billionth of it counts as rounding.

    Returns
    -------
    ParticipationAudit

    Examples
    --------
    >>> audit_participation([0.5, 0.1], [1.00, 0.30], [2.0, 3.1]).losers
    1
    """
    sold = checks.non_negative_vector("epsilons", epsilons)
    paid = checks.finite_vector("payments", payments)
    own = checks.non_negative_vector("costs", costs)
    checks.same_length("epsilons", sold, "costs", own)
    checks.same_length("payments", paid, "costs", own)
    table = EpsilonCost.identity() if epsilon_cost is None else epsilon_cost
    needed = own * table.cost_of_epsilon(sold)
    short = needed - paid
    lost = short > _ROUNDING * checks.positive("minor_unit", minor_unit) + 1e-12 * needed
    positions = tuple(np.flatnonzero(lost)[:_SHOWN].tolist())
    return ParticipationAudit(own.size, int(lost.sum()), positions, float(short[lost].max(initial=0.0)))
