"""What a mechanism decided: one frozen outcome with epsilons, payments and weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.display import html_table, short_repr
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.mechanisms.objective import AnyObjective

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """Epsilons and payments of all sellers, in their order; arrays are read-only.

    Attributes
    ----------
    epsilons, payments, weights
        Each seller's privacy budget (0: sells nothing), money before rounding to minor units, at least the
        reported cost of what is sold, and weight of the record; weights sum to 1 if anything is bought.
    total
        Eta, the sum of the shares: of the epsilons, or of the Gaussian parameters mu with a delta.
    sampling_error, noise_error
        The two parts of the expected error, in units of the objective.

    Examples
    --------
    >>> outcome = Outcome(np.array([1.0, 0.0]), np.array([2.5, 0.0]), np.array([1.0, 0.0]), 1.0, 0.2, 8.0)
    >>> outcome
    Outcome(sellers: 2, bought from: 1, total epsilon: 1, total payment: 2.5)
    >>> outcome.rounded_payments(0.01).tolist()
    [2.5, 0.0]
    """

    epsilons: FloatArray
    payments: FloatArray
    weights: FloatArray
    total: float
    sampling_error: float
    noise_error: float

    @cached_property
    def total_epsilon(self) -> float:
        """The sum of all epsilons."""
        return math.fsum(self.epsilons)

    @cached_property
    def total_payment(self) -> float:
        """The sum of all payments, before rounding to minor units."""
        return math.fsum(self.payments)

    def rounded_payments(self, minor_unit: float) -> FloatArray:
        """Return payments rounded up to the minor unit (1e-9 of one is rounding): 0 stays 0."""
        unit = checks.positive("minor_unit", minor_unit)
        units = np.ceil(self.payments / unit * (1.0 - 1e-12) - 1e-9)
        return np.asarray(np.where(self.payments > 0.0, np.maximum(units, 1.0) * unit, 0.0))

    def to_frame(self) -> pl.DataFrame:
        """Return one row per seller."""
        import polars as pl  # slow to load

        return pl.DataFrame({"epsilon": self.epsilons, "payment": self.payments, "weight": self.weights})

    def __repr__(self) -> str:
        return short_repr(self, self._rows())

    def _repr_html_(self) -> str:
        return html_table("Outcome", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("sellers", f"{self.epsilons.size:,}"),
            ("bought from", f"{np.count_nonzero(self.epsilons):,}"),
            ("total epsilon", f"{self.total_epsilon:.6g}"),
            ("total payment", f"{self.total_payment:.6g}"),
        ]


def decided(
    epsilons: FloatArray, payments: FloatArray, weights: FloatArray, total: float, objective: AnyObjective
) -> Outcome:
    """Return the outcome with read-only arrays and the error that the objective expects of it."""
    sampling, noise = objective.errors(float(weights @ weights), total)
    if not (np.isfinite(payments).all() and np.isfinite(epsilons).all()):
        raise Infeasible("The payment weight is out of proportion: payments would not be numbers.")
    arrays = read_only(epsilons), read_only(payments), read_only(weights)
    return Outcome(*arrays, total, sampling, noise)


def with_report(reported_costs: object, i: int, report: float) -> FloatArray:
    """Return everybody's reports with another one of seller ``i``."""
    costs = checks.non_negative_vector("reported_costs", reported_costs).copy()
    if not 0 <= checks.whole("i", i) < costs.size:
        raise InvalidInput(f"expected i to be a seller's position below {costs.size}, got {i}.")
    costs[i] = checks.non_negative("report", report)
    return costs


def whole_units(
    payments: FloatArray, units: int, costs: FloatArray | None = None, losses: FloatArray | None = None
) -> IntArray:
    """Return payments rounded up to whole minor units, so many to one unit of money.

    A payment that lies above a whole number by rounding alone is that number, unless the seller's loss,
    ``costs`` times ``losses`` (H of the seller's share), is larger: that comparison is exact, so that nobody
    is paid less than the loss. Without costs every payment counts as it is.

    >>> whole_units(np.array([0.0, 0.001, 0.305, 5.0]), 100).tolist()
    [0, 1, 31, 500]
    """
    wanted = payments * checks.whole("units", units, minimum=1)
    if not float(wanted.max(initial=0.0)) < 2.0**53:
        raise InvalidInput(f"expected payments below 2^53 minor units of 1/{units}.")
    amounts = np.ceil(wanted).astype(np.int64)
    nearest = np.rint(wanted)
    for k in np.flatnonzero((np.abs(wanted - nearest) <= 1e-9 * np.maximum(wanted, 1.0)) & (nearest > 0.0)):
        least = Fraction(float(payments[k]))
        if costs is not None and losses is not None:
            least = Fraction(float(costs[k])) * Fraction(float(losses[k]))
        amounts[k] = max(int(nearest[k]), math.ceil(least * units))
    return amounts
