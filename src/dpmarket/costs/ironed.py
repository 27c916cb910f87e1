"""What every distribution but the uniform one shares: from density, cdf and quantiles to all the rest."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs.ironing import IronedInterval
from dpmarket.costs.pointwise import Costs, pointwise
from dpmarket.costs.psi import VirtualCost, ironed, numerical_slope


class IronedDistribution(ABC):
    """A cost distribution given by functions of arrays; psi is computed and ironed where it must be.

    A subclass is a frozen dataclass with ``support``, ``to_dict`` and the three functions below; it may
    replace what can be had more exactly.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Rising(IronedDistribution):
    ...     high: float
    ...     support = property(lambda self: (0.0, self.high))
    ...     def _pdf(self, c):
    ...         return np.where((c >= 0.0) & (c <= self.high), 2.0 * c / self.high**2, 0.0)
    ...     def _cdf(self, c):
    ...         return (np.clip(c, 0.0, self.high) / self.high) ** 2
    ...     def _quantile(self, u):
    ...         return self.high * np.sqrt(u)
    ...     def to_dict(self):
    ...         return {"kind": "rising", "high": self.high}
    >>> Rising(4.0).virtual_cost(2.0), Rising(4.0).is_regular
    (3.0, True)
    """

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """Lowest and highest possible cost; the highest may be infinite."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data, for :func:`distribution_from_dict`."""

    @abstractmethod
    def _pdf(self, c: FloatArray) -> FloatArray:
        """Density, 0 outside the support."""

    @abstractmethod
    def _cdf(self, c: FloatArray) -> FloatArray:
        """Probability of a cost of at most this."""

    @abstractmethod
    def _quantile(self, u: FloatArray) -> FloatArray:
        """Smallest cost whose cdf is at least this."""

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Finite costs at which the density is not smooth: the ends of the support, unless there are more."""
        return tuple(end for end in self.support if math.isfinite(end))

    @property
    def is_regular(self) -> bool:
        """Whether psi is increasing as it stands."""
        return not self.ironed_intervals

    @property
    def ironed_intervals(self) -> tuple[IronedInterval, ...]:
        """Where psi had to be made flat."""
        return self._psi.intervals

    def pdf(self, costs: Costs) -> Costs:
        """Density within the support, 0 elsewhere."""
        return pointwise(self._pdf, checks.numbers, "costs", costs)

    def cdf(self, costs: Costs) -> Costs:
        """Probability of a cost of at most this."""
        return pointwise(self._cdf, checks.numbers, "costs", costs)

    def quantile(self, probabilities: Costs) -> Costs:
        """Smallest cost whose cdf is at least this; the inverse of ``cdf``."""
        return pointwise(self._quantile, checks.probabilities, "probabilities", probabilities)

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``size`` independent costs."""
        return self._quantile(rng.random(checks.whole("size", size)))

    def virtual_cost(self, costs: Costs) -> Costs:
        """Ironed psi for costs within the support."""
        return pointwise(self._psi.value, checks.numbers, "costs", costs)

    def virtual_cost_slope(self, costs: Costs) -> Costs:
        """Derivative of the ironed psi, to about 1e-8 of it; at a breakpoint, that of the side above."""
        return pointwise(self._psi.slope, checks.numbers, "costs", costs)

    @cached_property
    def _psi(self) -> VirtualCost:
        return ironed(self._raw, self._raw_slope, self._cdf, self._quantile, self.breakpoints)

    @cached_property
    def _length(self) -> float:
        """A length on which the density changes: half the interquartile range."""
        first, third = self._quantile(np.array([0.25, 0.75]))
        return 0.5 * float(third - first)

    def _raw(self, c: FloatArray) -> FloatArray:
        """Psi as it stands: c + F(c) / f(c), and the lower end there."""
        low, high = self.support
        c = np.clip(c, low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            psi = c + self._cdf(c) / self._pdf(c)
        psi[c <= low] = low
        return psi

    def _raw_slope(self, c: FloatArray) -> FloatArray:
        return numerical_slope(self._raw, c, self.support, self.breakpoints, self._length)
