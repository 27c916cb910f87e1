"""Turn a buyer's objective and a number of sellers into the numbers that the path walk needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpmarket.allocation.objective import BuyerObjective, round_down
from dpmarket.allocation.simplex import UNCAPPED, split_cap

# Costs are below 2**101 here. Squares of these rates still fit well into a float; a rate below the
# second is as good as 0, and a rho beyond the last as good as its limit, to far more than rounding.
_LEAST_RATE, _NO_RATE, _GREATEST_RATE = 1e-140, 1e-100, 1e140
_GREATEST_RHO = 1e250


@dataclass(frozen=True, slots=True)
class PathSettings:
    """The arguments of :func:`dpmarket.allocation.kernels.walk.walk_path` that do not depend on reports.

    Attributes
    ----------
    max_weight, first_capped, first_rest : float, int, float
        The weight cap (rounded down), how many sellers it admits in full, and the weight left over.
    rho : float
        noise * payment_weight / concentration^2, per unit of virtual cost; cut off at 1e250,
        where the concentration is 0 or negligible.
    least_rate : float
        concentration / (payment_weight * max_total_promise), in units of virtual cost; 0: no bound.
    max_total_promise : float
        The bound on the total promise, rounded down; infinity: no bound.
    epsilon_rate : float
        concentration / payment_weight, in units of virtual cost: the total promise is this divided
        by the rate t of a point on the path.
    unit : float
        The power of two in which the virtual costs are to be measured.
    """

    max_weight: float
    first_capped: int
    first_rest: float
    rho: float
    least_rate: float
    max_total_promise: float
    epsilon_rate: float
    unit: float

    @property
    def needs_all_equal(self) -> bool:
        """Whether payments are so small beside the concentration that all weights are equal."""
        return self.rho < 1.0 / _GREATEST_RHO or self.least_rate > _GREATEST_RATE

    @property
    def needs_cheapest(self) -> bool:
        """Whether the concentration is so small beside payments that only the cheapest are bought."""
        return self.rho >= _GREATEST_RHO and self.least_rate <= _NO_RATE


def path_settings(objective: BuyerObjective, sellers: int, unit: float = 1.0) -> PathSettings:
    """Return the settings for ``sellers`` people, those with infinite virtual costs included.

    Parameters
    ----------
    objective : BuyerObjective
        With ``noise`` and ``payment_weight`` above 0.
    sellers : int
        m: the weight cap is ``weight_cap / m``, the total promise at most ``m * max_mean_epsilon``.
    unit : float
        Measure virtual costs in this power of two instead of 1.
    """
    mu, sigma, gamma = objective.concentration, objective.noise, objective.payment_weight
    layout = UNCAPPED
    if objective.weight_cap is not None:
        layout = split_cap(Fraction(objective.weight_cap) / sellers)
    bound, least_rate = math.inf, 0.0
    if objective.max_mean_epsilon is not None:
        bound = round_down(Fraction(objective.max_mean_epsilon) * sellers)
        least_rate = max(_quotient((mu,), (gamma, bound, unit)), _LEAST_RATE)
    return PathSettings(
        *layout,
        rho=min(_quotient((sigma, gamma, unit), (mu, mu)), _GREATEST_RHO),
        least_rate=least_rate,
        max_total_promise=bound,
        epsilon_rate=_quotient((mu,), (gamma, unit)),
        unit=unit,
    )


def _quotient(above: tuple[float, ...], below: tuple[float, ...]) -> float:
    """Return a quotient of products of non-negative numbers that over- or underflows only as a whole."""
    mantissa, exponent = 1.0, 0
    for factor in above:
        part, power = math.frexp(factor)
        mantissa, exponent = mantissa * part, exponent + power
    for factor in below:
        part, power = math.frexp(factor)
        if part == 0.0:
            return math.inf
        mantissa, exponent = mantissa / part, exponent - power
    try:
        return math.ldexp(mantissa, exponent)
    except OverflowError:
        return math.inf
