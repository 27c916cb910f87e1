r"""Turn a training problem with a constant column of any size into one whose constant is 1, exactly.

With :math:`v = c\,w` for the constant c, the margin :math:`w \cdot (x, c)` is :math:`v \cdot (x / c, 1)`, the
noise :math:`b' / c`, the penalty :math:`\Lambda / c^2` and the gradient that in w divided by c. A power of
two makes this change of unit exact for every number that takes part, so that what is proved about v holds
for w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.learning.rows import Rows
from dpmarket.learning.solver import check_attainable, minimise
from dpmarket.privacy.grid import ReleasePlan

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
    """The training problem in the unit in which its constant column is 1.

    Attributes
    ----------
    unit
        One divided by the constant: what a solution is multiplied by in the end.
    rows, l2, row_bound, gradient_bound
        What the solver takes, in its unit.
    largest
        A solution below this fits the grid in 52 bits.
    """

    unit: float
    rows: Rows
    l2: float
    row_bound: float
    gradient_bound: float
    largest: float

    @classmethod
    def with_constant(
        cls, constant: float, rows: Rows, l2: float, euclidean_bound: float, plan: ReleasePlan
    ) -> Problem:
        """Return the problem of rows that end with ``constant``, in the unit in which they end with 1."""
        unit = 1.0 / constant
        if unit != 1.0:
            factors = rows.scales if rows.scales.size else np.ones(len(rows.signs))
            rows = replace(rows, scales=factors * unit)
        return cls(
            unit,
            rows,
            l2 * unit**2,
            euclidean_bound * unit,
            plan.gradient_bound * unit,
            2.0**52 * plan.grid / unit,
        )

    def check_attainable(self, noise_norm: float) -> None:
        """Refuse what cannot be computed, from public quantities; noise up to this norm is allowed for."""
        noise = noise_norm * self.unit
        check_attainable(self.rows, self.l2, noise, self.row_bound, self.gradient_bound)
        if not (self.rows.total_weight() * self.row_bound + noise) / self.l2 < self.largest:
            raise Infeasible("expected coefficients that fit the grid in 52 bits; a larger l2 is needed.")

    def minimise(self, noise_high: FloatArray, noise_low: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimiser as the exact sum of two vectors."""
        minimum = minimise(
            self.rows,
            self.l2,
            noise_high * self.unit,
            noise_low * self.unit,
            self.row_bound,
            self.gradient_bound,
        )
        return minimum.high * self.unit, minimum.low * self.unit
