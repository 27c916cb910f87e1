"""A training problem: records, loss, penalty and plan, and the constant column's size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.minimiser import check_attainable, minimise
from dpmarket.learning.rows import Rows
from dpmarket.learning.sums import Errors
from dpmarket.privacy.grid import ReleasePlan
from dpmarket.privacy.loss import Loss

_SMALLEST, _LARGEST = 2.0**-20, 2.0**20


def check_constant(name: str, value: object) -> float:
    """Return the number in the constant column, a power of two from 2^-20 to 2^20."""
    constant = checks.positive(name, value)
    if math.frexp(constant)[0] != 0.5 or not _SMALLEST <= constant <= _LARGEST:
        raise InvalidInput(f"expected {name} to be a power of two from 2^-20 to 2^20, got {constant!r}.")
    return constant


def suggest_constant(features: int) -> float:
    """Return the power of two nearest to ``1 / sqrt(features)`` (in logarithms; the larger one if in doubt).

    Then the constant is about as large as a feature is in a row of norm 1.

    Examples
    --------
    >>> [suggest_constant(features) for features in (1, 2, 4, 8, 30, 50, 1000)]
    [1.0, 1.0, 0.5, 0.5, 0.25, 0.125, 0.03125]
    """
    return 2.0 ** -math.ceil(math.log2(features) / 2.0 - 0.5)


def bound_with_constant(constant: float) -> float:
    """Return a bound on the norm of a row of norm 1 followed by ``constant``, rounded up."""
    return math.nextafter(math.sqrt(1.0 + constant * constant), math.inf)


@dataclass(frozen=True, eq=False)
class Problem:
    """What is minimised, and how accurately.

    Attributes
    ----------
    rows
        The records.
    loss
        The loss.
    constant
        The number in the constant column, if rows have one.
    l2, row_bound
        The penalty, and the Euclidean bound on rows with their constant.
    plan
        The grid and the accuracies.
    """

    rows: Rows
    loss: Loss
    constant: float
    l2: float
    row_bound: float
    plan: ReleasePlan

    def check_attainable(self, noise_norm: float) -> None:
        """Refuse what cannot be computed, from public quantities; noise up to this norm is allowed for."""
        rows = self.rows.active()
        errors = Errors(self.loss, len(rows), rows.n_coefficients, rows.total_weight(), self.row_bound)
        largest = 2.0**52 * self.plan.grid
        check_attainable(errors, self.l2, noise_norm, self.plan.gradient_bound, largest)

    def minimise(self, noise_high: FloatArray, noise_low: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimiser as the exact sum of two vectors, output after output."""
        minimum = minimise(
            self.rows,
            self.l2,
            noise_high,
            noise_low,
            self.row_bound,
            self.plan.gradient_bound,
            loss=self.loss,
            constant=self.constant,
        )
        return minimum.high, minimum.low
