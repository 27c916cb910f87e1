"""A virtual cost with its ironed intervals: what every distribution but the uniform one is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.differentiate import derivative

from dpmarket.arrays import FloatArray
from dpmarket.costs.ironing import IronedInterval, flatten, inside, iron

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


def ironed(
    raw: ArrayFunction,
    raw_slope: ArrayFunction,
    cdf: ArrayFunction,
    quantile: ArrayFunction,
    breakpoints: tuple[float, ...],
) -> VirtualCost:
    """Make the ironed virtual cost of a distribution given by these functions."""
    return VirtualCost(raw, raw_slope, iron(raw, cdf, quantile, breakpoints))


def numerical_slope(
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
    low, high = support
    tiny = 1e-6 * length
    inner = np.clip(costs, low + tiny, high - tiny)
    walls = np.array([low, *breakpoints, high])
    index = np.clip(np.searchsorted(walls, inner, side=side), 1, len(walls) - 1)
    floor, ceiling = walls[index - 1], walls[index]
    inner = np.clip(inner, np.minimum(floor + tiny, ceiling), np.maximum(ceiling - tiny, floor))
    room = np.minimum(np.minimum(inner - floor, ceiling - inner), length)
    with np.errstate(invalid="ignore"):
        found = derivative(raw, inner, initial_step=0.5 * room, order=8)
    return np.asarray(found.df)
