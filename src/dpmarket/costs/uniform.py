"""Costs that are equally likely between two bounds: everything in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs.ironing import IronedInterval
from dpmarket.costs.pointwise import Costs, pointwise
from dpmarket.errors import InvalidInput


@dataclass(frozen=True)
class Uniform:
    """Uniform costs on [low, high], in money per unit of epsilon; psi(c) = 2c - low.

    Parameters
    ----------
    low, high
        Finite, 0 <= low < high.

    Examples
    --------
    >>> Uniform(1, 5).virtual_cost(3.0)
    5.0
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", checks.non_negative("low", self.low))
        object.__setattr__(self, "high", checks.positive("high", self.high))
        if not self.low < self.high or not math.isfinite(1.0 / (self.high - self.low)):
            raise InvalidInput(f"expected low < high, got low={self.low!r}, high={self.high!r}.")

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest possible cost."""
        return (self.low, self.high)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """The two ends."""
        return (self.low, self.high)

    @property
    def is_regular(self) -> bool:
        """Always: psi has slope 2."""
        return True

    @property
    def ironed_intervals(self) -> tuple[IronedInterval, ...]:
        """None."""
        return ()

    def pdf(self, costs: Costs) -> Costs:
        """Density: 1/(high - low) within the support."""
        height = 1.0 / (self.high - self.low)

        def density(c: FloatArray) -> FloatArray:
            return np.where((c >= self.low) & (c <= self.high), height, 0.0)

        return pointwise(density, checks.numbers, "costs", costs)

    def cdf(self, costs: Costs) -> Costs:
        """Probability of a cost of at most this."""

        def cumulative(c: FloatArray) -> FloatArray:
            return (np.clip(c, self.low, self.high) - self.low) / (self.high - self.low)

        return pointwise(cumulative, checks.numbers, "costs", costs)

    def quantile(self, probabilities: Costs) -> Costs:
        """Inverse of ``cdf``."""

        def inverse(u: FloatArray) -> FloatArray:
            return np.minimum(self.low + u * (self.high - self.low), self.high)

        return pointwise(inverse, checks.probabilities, "probabilities", probabilities)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``size`` independent costs."""
        return rng.uniform(self.low, self.high, checks.whole("size", size))

    def virtual_cost(self, costs: Costs) -> Costs:
        """Virtual cost 2c - low, exactly."""

        def psi(c: FloatArray) -> FloatArray:
            out = c * 2.0
            if self.low != 0.0:
                out -= self.low
            return out

        return pointwise(psi, checks.numbers, "costs", costs)

    def virtual_cost_slope(self, costs: Costs) -> Costs:
        """2 everywhere."""
        return pointwise(lambda c: np.full(c.shape, 2.0), checks.numbers, "costs", costs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for :func:`distribution_from_dict`."""
        return {"kind": "uniform", "low": self.low, "high": self.high}
