"""Turn the costs that a pilot's participants reported into a distribution.

How the density is made: sort the n samples, cut them into K = ceil(2 n^(1/3)) groups of equal count, and
let the density be linear between the groups' edges. Its height at an inner edge is the share of samples in
the two groups beside it over their joint width; at the two ends it is that of the one group there. Then all
heights are scaled so that the whole is 1. Edges lie half-way between neighbouring samples, groups without
width (ties) are joined to their neighbours. The density is therefore continuous, positive and bounded on
its support, follows the data's own scale, and everything about it is in closed form: F is piecewise
quadratic, psi = c + F/f is continuous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.costs.ironed import IronedDistribution
from dpmarket.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class PiecewiseLinear(IronedDistribution):
    """Costs whose density is linear between knots, positive and continuous on its support.

    Parameters
    ----------
    knots
        Increasing costs, at least 2, the first at least 0; the support's ends are the outer ones.
    heights
        Positive density at the knots, up to a common factor.

    Examples
    --------
    >>> rising = PiecewiseLinear([0.0, 1.0], [1.0, 3.0])
    >>> rising.cdf(0.5), rising.pdf(1.0)
    (0.375, 1.5)
    """

    knots: FloatArray
    heights: FloatArray

    def __post_init__(self) -> None:
        knots = checks.non_negative_vector("knots", self.knots).copy()
        heights = checks.non_negative_vector("heights", self.heights).copy()
        checks.same_length("knots", knots, "heights", heights)
        if len(knots) < 2 or not (np.diff(knots) > 0.0).all():
            raise InvalidInput("expected knots to be at least 2 increasing costs.")
        if not (heights > 0.0).all():
            raise InvalidInput("expected every height to be > 0: a cost that can occur has a density.")
        total = float(np.sum(np.diff(knots) * 0.5 * (heights[1:] + heights[:-1])))
        # Heights that came from a distribution stay as they are, so that plain data loses no bit.
        if abs(total - 1.0) > 1e-12:
            heights /= total
        object.__setattr__(self, "knots", read_only(knots))
        object.__setattr__(self, "heights", read_only(heights))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PiecewiseLinear):
            return NotImplemented
        return np.array_equal(self.knots, other.knots) and np.array_equal(self.heights, other.heights)

    def __hash__(self) -> int:
        return hash((self.knots.tobytes(), self.heights.tobytes()))

    @property
    def support(self) -> tuple[float, float]:
        """Lowest and highest possible cost."""
        return (float(self.knots[0]), float(self.knots[-1]))

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """The knots."""
        return tuple(self.knots.tolist())

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for :func:`distribution_from_dict`."""
        return {
            "kind": "piecewise linear",
            "knots": self.knots.tolist(),
            "heights": self.heights.tolist(),
        }

    @cached_property
    def _cumulative(self) -> FloatArray:
        pieces = np.diff(self.knots) * 0.5 * (self.heights[1:] + self.heights[:-1])
        total = np.concatenate(([0.0], np.cumsum(pieces)))
        total[-1] = 1.0
        return total

    @cached_property
    def _slopes(self) -> FloatArray:
        return np.diff(self.heights) / np.diff(self.knots)

    def _piece(self, c: FloatArray) -> tuple[Any, FloatArray, FloatArray]:
        """Return the piece each cost lies in, how far into it, and the density there."""
        piece = np.clip(np.searchsorted(self.knots, c, side="right") - 1, 0, len(self.knots) - 2)
        into = c - self.knots[piece]
        return piece, into, self.heights[piece] + self._slopes[piece] * into

    def _pdf(self, c: FloatArray) -> FloatArray:
        low, high = self.support
        density = self._piece(np.clip(c, low, high))[2]
        return np.where((c >= low) & (c <= high), density, 0.0)

    def _cdf(self, c: FloatArray) -> FloatArray:
        piece, into, density = self._piece(np.clip(c, *self.support))
        inner = self._cumulative[piece] + 0.5 * into * (self.heights[piece] + density)
        return np.where(c >= self.support[1], 1.0, np.minimum(inner, 1.0))

    def _quantile(self, u: FloatArray) -> FloatArray:
        piece = np.clip(np.searchsorted(self._cumulative, u, side="right") - 1, 0, len(self.knots) - 2)
        height, slope = self.heights[piece], self._slopes[piece]
        mass = u - self._cumulative[piece]
        # The root of slope/2 x^2 + height x = mass in the form that does not cancel.
        root = np.sqrt(np.maximum(height * height + 2.0 * slope * mass, 0.0))
        return np.asarray(np.minimum(self.knots[piece] + 2.0 * mass / (height + root), self.knots[piece + 1]))

    def _raw(self, c: FloatArray) -> FloatArray:
        c = np.clip(c, *self.support)
        return np.asarray(c + self._cdf(c) / self._piece(c)[2])

    def _raw_slope(self, c: FloatArray) -> FloatArray:
        piece, _, density = self._piece(c)
        return np.asarray(2.0 - self._cdf(c) * self._slopes[piece] / (density * density))


def Empirical(samples: object, low: float | None = None, high: float | None = None) -> PiecewiseLinear:
    """Make the distribution of a pilot's costs (how: see this module's description).

    The distribution is common knowledge in a market. It holds group edges, never the samples themselves,
    but it is made from them: whoever took part in the pilot should know that.

    Parameters
    ----------
    samples
        At least 20 costs, not all equal, in money per unit of epsilon.
    low, high
        The support, where it is known. Otherwise it reaches one mean spacing of the samples beyond them (but
        not below 0), so that the next seller is unlikely to fall outside it.

    Returns
    -------
    PiecewiseLinear
        A distribution whose density is linear between the edges of groups of samples.

    Raises
    ------
    InvalidInput
        Fewer than 20 samples, all equal, negative, NaN, infinite, or outside [low, high].

    Examples
    --------
    >>> import numpy as np
    >>> Empirical(np.linspace(1, 5, 101)).quantile(0.5)
    3.0
    """
    ordered = np.sort(pilot_costs(samples))
    low, high = pilot_support(ordered, low, high)
    groups = min(math.ceil(2.0 * len(ordered) ** (1.0 / 3.0)), len(ordered) // 4)
    cuts = np.round(np.linspace(0, len(ordered), groups + 1)[1:-1]).astype(int)
    inner = 0.5 * (ordered[cuts - 1] + ordered[cuts])
    edges = np.unique(np.concatenate(([low], inner[(inner > low) & (inner < high)], [high])))
    # An edge in the middle of tied samples has half of them on either side.
    below = 0.5 * (np.searchsorted(ordered, edges, "left") + np.searchsorted(ordered, edges, "right"))
    below[0], below[-1] = 0.0, len(ordered)
    heights = np.empty(len(edges))
    heights[1:-1] = (below[2:] - below[:-2]) / (edges[2:] - edges[:-2])
    heights[0] = (below[1] - below[0]) / (edges[1] - edges[0])
    heights[-1] = (below[-1] - below[-2]) / (edges[-1] - edges[-2])
    # A group that ties have emptied still gets a density: half a sample's.
    floor = 0.5 / (edges[-1] - edges[0])
    return PiecewiseLinear(edges, np.maximum(heights, floor))


def pilot_costs(samples: object) -> FloatArray:
    """Check a pilot's costs: at least 20, finite, never negative, not all equal."""
    costs = checks.non_negative_vector("samples", samples)
    if len(costs) < 20:
        raise InvalidInput(
            f"expected at least 20 samples, got {len(costs)}; ask more people, or state a distribution."
        )
    if costs.min() == costs.max():
        raise InvalidInput("expected samples that are not all equal, got one value only.")
    return costs


def pilot_support(ordered: FloatArray, low: float | None, high: float | None) -> tuple[float, float]:
    """Return the support: as given, or one mean spacing beyond the (sorted) samples."""
    spacing = float(ordered[-1] - ordered[0]) / (len(ordered) - 1)
    first, last = float(ordered[0]), float(ordered[-1])
    low = max(first - spacing, 0.0) if low is None else checks.non_negative("low", low)
    high = last + spacing if high is None else checks.positive("high", high)
    if low > first or high < last:
        outside = int(((ordered < low) | (ordered > high)).sum())
        raise InvalidInput(
            f"expected every sample within [low, high] = [{low!r}, {high!r}], found {outside} of "
            f"{len(ordered)} outside."
        )
    return low, high
