"""What every distribution but the uniform one shares: from density, cdf and quantiles to all the rest."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.costs.ironing import IronedInterval, flatten, inside, iron
from dpmarket.costs.pointwise import Costs, pointwise

ArrayFunction = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class VirtualCost:
    """Ironed psi and its slope, as functions of arrays of costs within the support."""

    raw: ArrayFunction
    raw_slope: ArrayFunction
    intervals: tuple[IronedInterval, ...]

    def value(self, costs: FloatArray) -> FloatArray:
        """Return the ironed psi."""
        return flatten(self.intervals, costs, self.raw(costs))

    def slope(self, costs: FloatArray) -> FloatArray:
        """Return the ironed psi's derivative: 0 where it is flat."""
        return np.where(inside(self.intervals, costs), 0.0, self.raw_slope(costs))


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
        intervals = iron(self._raw, self._cdf, self._quantile, self.breakpoints)
        return VirtualCost(self._raw, self._raw_slope, intervals)

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
        return _numerical_slope(self._raw, c, self.support, self.breakpoints, self._length)


def _numerical_slope(
    raw: ArrayFunction,
    costs: FloatArray,
    support: tuple[float, float],
    breakpoints: tuple[float, ...],
    length: float,
) -> FloatArray:
    """Differentiate psi between its breakpoints, to about 1e-8 of its slope.

    At a breakpoint the slope of the side above it is taken; at the upper end, and where no cost can occur
    above, that of the side below. ``length`` is one on which the density changes.
    """
    slopes = _slope_beside(raw, costs, support, breakpoints, length, "right")
    nobody = ~np.isfinite(slopes)
    if nobody.any():
        slopes[nobody] = _slope_beside(raw, costs[nobody], support, breakpoints, length, "left")
    return slopes


def _slope_beside(
    raw: ArrayFunction,
    costs: FloatArray,
    support: tuple[float, float],
    breakpoints: tuple[float, ...],
    length: float,
    side: Literal["left", "right"],
) -> FloatArray:
    from scipy.differentiate import derivative  # slow to load

    low, high = support
    tiny = 1e-6 * length
    inner = np.clip(costs, low + tiny, high - tiny)
    walls = np.array([low, *breakpoints, high])
    index = np.clip(np.searchsorted(walls, inner, side=side), 1, len(walls) - 1)
    floor, ceiling = walls[index - 1], walls[index]
    inner = np.clip(inner, np.minimum(floor + tiny, ceiling), np.maximum(ceiling - tiny, floor))
    above, below = ceiling - inner, inner - floor
    room = np.minimum(np.minimum(below, above), length)
    # Beside a wall there is no room for a step to both sides that is not lost in rounding: look away from it.
    beside = room < 1e-3 * length
    step = np.where(beside, np.minimum(np.maximum(below, above), length), room)
    away = np.where(beside, np.where(above > below, 1, -1), 0)
    with np.errstate(invalid="ignore"):
        found = derivative(raw, inner, initial_step=0.5 * step, order=8, step_direction=away)
    return np.asarray(found.df)
