r"""The virtual cost as a public table: Myerson's c + F(c)/f(c), ironed by isotonic regression.

A buyer who must leave sellers their information rent pays, in expectation, not the cost c but the virtual
cost :math:`\psi(c) = c + F(c)/f(c)`. Mechanisms work with one announced table of it: knots and values that
never fall, linear in between. Reports below the first knot count as that knot; reports above the last, the
reserve price, sell nothing. Truthfulness needs some public non-decreasing table, not the exact one: how close
it is to the distribution decides only how much of the optimum is reached.

:meth:`VirtualCost.of` evaluates psi at points spaced half by cost and half by probability, irons them by
isotonic regression weighted by probability mass, and keeps the few knots that describe the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, read_only
from dpmarket.costs.distribution import CostDistribution, pointwise
from dpmarket.errors import InvalidInput

POINTS = 1024
"""Points by cost, and as many by probability, at which a distribution is evaluated."""
TOLERANCE = 1e-3
"""Largest relative distance between the table and the ironed virtual cost at these points."""
RESERVE_QUANTILE = 0.999
"""Default reserve price where costs have no highest value, or hardly any density there."""
_SIDE = 1e-9  # of a breakpoint's distance to the next: the two sides of a jump of the density
_CONTRADICTION = 1e-3  # relative: a density further from its cdf than this is refused
_GAP_MASS = 1e-6  # probability: at most this within a gap of the support
_LEAST_MASS = 1e-12
_FLOOR = 0.02  # of the median virtual cost: below it the tolerance no longer shrinks


@dataclass(frozen=True, eq=False)
class VirtualCost:
    """A public, non-decreasing, piecewise-linear virtual cost with a reserve price.

    Paper: psi(c) = c + F(c)/f(c), assumed to rise; ironing makes the assumption unnecessary.

    Parameters
    ----------
    knots, values
        At least two costs, money per unit of epsilon (per unit of the cost function where that is not
        linear), strictly rising from at least 0; the virtual cost at each, never falling, at least 0.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> psi = VirtualCost.of(Uniform(1, 5))
    >>> psi.knots.tolist(), psi.values.tolist()
    ([1.0, 5.0], [1.0, 9.0])
    >>> psi([0.5, 2.0, 6.0]).tolist(), psi.inverse(3.0), psi.reserve_price
    ([1.0, 3.0, inf], 2.0, 5.0)
    """

    knots: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        knots = checks.non_negative_vector("knots", self.knots).copy()
        values = checks.non_negative_vector("values", self.values).copy()
        checks.same_length("values", values, "knots", knots)
        if knots.size < 2 or not (np.diff(knots) > 0.0).all():
            raise InvalidInput("expected at least two knots that rise strictly.")
        if not (np.diff(values) >= 0.0).all():
            raise InvalidInput("expected virtual costs that never fall from knot to knot.")
        object.__setattr__(self, "knots", read_only(knots))
        object.__setattr__(self, "values", read_only(values))

    @classmethod
    def of(cls, distribution: CostDistribution, tolerance: float = TOLERANCE) -> VirtualCost:
        """Return the table of a distribution's virtual cost, with a relative accuracy of ``tolerance``.

        Sellers up to the reserve price are bought from: the highest possible cost (cut the distribution for
        another one), or the 99.9% quantile where there is none or the density vanishes there. A uniform
        distribution has two knots, exactly. A density that contradicts its cdf is refused: the integral of
        psi dF up to a cost c must be c F(c).
        """
        if not isinstance(distribution, CostDistribution):
            raise InvalidInput(f"expected a cost distribution, got {type(distribution).__name__}.")
        tolerance = checks.strictly_between("tolerance", tolerance, 0.0, 1.0)
        top = _reserve_price(distribution)
        points = _points(distribution, top)
        cumulative = np.asarray(distribution.cdf(points), dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            psi = points + cumulative / np.asarray(distribution.pdf(points), dtype=np.float64)
        psi[cumulative == 0.0] = points[cumulative == 0.0]
        # Within a gap of the support there is no density, and no seller: its ends describe it.
        inside = np.flatnonzero(np.isfinite(psi))
        points, cumulative, psi = points[inside], cumulative[inside], psi[inside]
        gaps = (np.diff(inside) > 1) & (np.diff(cumulative) < _GAP_MASS)
        _refuse_contradiction(points, cumulative, psi, gaps)
        ironed = _ironed(points, cumulative, psi, gaps)
        ironed[0] = max(min(ironed[0], psi[0]), 0.0)
        kept = _thinned(points, ironed, tolerance * np.maximum(ironed, _FLOOR * np.median(ironed)))
        return cls(points[kept], ironed[kept])

    @property
    def reserve_price(self) -> float:
        """The last knot: reports above it sell nothing."""
        return float(self.knots[-1])

    @cached_property
    def slopes(self) -> FloatArray:
        """Rise of the virtual cost per unit of cost on each piece; 0 where it is flat."""
        return np.asarray(np.diff(self.values) / np.diff(self.knots))

    @pointwise("costs", checks.numbers)
    def __call__(self, costs: FloatArray) -> FloatArray:
        """Return the virtual cost, elementwise; infinite above the reserve price."""
        return np.where(costs > self.reserve_price, math.inf, np.interp(costs, self.knots, self.values))

    @pointwise("values", checks.numbers)
    def inverse(self, values: FloatArray) -> FloatArray:
        """Return the highest cost whose virtual cost is at most this, elementwise; NaN if there is none."""
        piece = np.searchsorted(self.values, values, side="right") - 1
        inner = np.clip(piece, 0, self.slopes.size - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.maximum(values - self.values[inner], 0.0) / self.slopes[inner]
        # The next piece is never flat at a value that lies strictly below its end.
        found = np.minimum(self.knots[inner] + beyond, self.knots[inner + 1])
        found = np.where(piece >= self.slopes.size, self.reserve_price, found)
        return np.where(piece < 0, math.nan, found)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data, for certificates and rules."""
        return {"knots": self.knots.tolist(), "values": self.values.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> VirtualCost:
        """Make the table whose :meth:`to_dict` gave this data."""
        return cls(data["knots"], data["values"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualCost) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.knots.tobytes(), self.values.tobytes()))

    def __repr__(self) -> str:
        low, high = float(self.knots[0]), self.reserve_price
        return f"VirtualCost({self.knots.size} knots from {low:.4g} to {high:.4g})"


def _points(distribution: CostDistribution, top: float) -> FloatArray:
    """Return costs up to ``top``: half by cost, half by probability, and both sides of density jumps."""
    low = distribution.support[0]
    by_cost = np.linspace(low, top, POINTS)
    by_probability = distribution.quantile(np.linspace(0.0, float(distribution.cdf(top)), POINTS))
    points = np.concatenate((by_cost, np.clip(by_probability, low, top)))
    jumps = np.array([c for c in distribution.breakpoints if low < c < top])
    if jumps.size:
        side = _SIDE * np.diff(np.concatenate(([low], jumps))).min()
        points = np.concatenate((points, jumps - side, jumps, jumps + side))
    points = np.unique(points)
    # Points that differ in their last digits only would make slopes of rounding errors.
    kept = points[np.diff(points, prepend=-math.inf) > 1e-13 * (top - low)]
    kept[-1] = top
    return np.asarray(kept)


def _reserve_price(distribution: CostDistribution) -> float:
    low, high = distribution.support
    # Density that vanishes at the top makes the virtual cost infinite there.
    if math.isfinite(high) and float(distribution.pdf(high * (1.0 - 1e-12))) > 1e-3 / (high - low):
        return high
    return min(float(distribution.quantile(RESERVE_QUANTILE)), high)


def _refuse_contradiction(
    points: FloatArray, cumulative: FloatArray, psi: FloatArray, gaps: BoolArray
) -> None:
    """Refuse a density that is not the cdf's derivative: psi dF is the differential of c F(c)."""
    mass = np.diff(cumulative)
    scale = float(points[-1] * cumulative[-1])
    if not (mass >= 0.0).all() or not scale > 0.0:
        raise InvalidInput("expected a cdf that never falls and reaches above 0.")
    off = 0.5 * (psi[1:] + psi[:-1]) * mass - np.diff(points * cumulative)
    off = np.cumsum(np.where(gaps, 0.0, off))  # psi is not integrated where no seller is
    worst = float(np.abs(off).max()) / scale
    if worst > _CONTRADICTION:
        raise InvalidInput(
            f"expected a density that is the derivative of its cdf, got one off by {worst:.1%}: check pdf "
            "and cdf of the distribution."
        )


def _ironed(points: FloatArray, cumulative: FloatArray, psi: FloatArray, gaps: BoolArray) -> FloatArray:
    """Return the slopes of the convex hull of c F(c) as a function of F, at the points.

    A gap of the support is a jump of c F(c): a virtual cost beyond all bounds with hardly any mass, which the
    regression pools with the costs above it.
    """
    from scipy.optimize import isotonic_regression  # slow to load, and tables are made rarely

    middles = np.concatenate(([cumulative[0]], 0.5 * (cumulative[1:] + cumulative[:-1]), [cumulative[-1]]))
    mass = np.maximum(np.diff(middles), _LEAST_MASS)
    at = np.flatnonzero(gaps)
    jumps = cumulative[at] * (points[at + 1] - points[at]) / _LEAST_MASS
    spiked = np.insert(psi, at + 1, jumps)
    ironed = isotonic_regression(spiked, weights=np.insert(mass, at + 1, _LEAST_MASS)).x
    return np.asarray(np.delete(ironed, at + 1 + np.arange(at.size)), dtype=np.float64)


def _thinned(points: FloatArray, values: FloatArray, tolerances: FloatArray) -> list[int]:
    """Return positions whose chords stay within the tolerances; each chord is as long as possible."""
    kept, start, n = [0], 0, points.size
    while start < n - 1:
        lowest, highest, end = -math.inf, math.inf, start + 1
        for k in range(start + 1, n):
            run = points[k] - points[start]
            slope = (values[k] - values[start]) / run
            if lowest <= slope <= highest:
                end = k
            lowest = max(lowest, (values[k] - values[start] - tolerances[k]) / run)
            highest = min(highest, (values[k] - values[start] + tolerances[k]) / run)
            if lowest > highest:
                break
        kept.append(end)
        start = end
    return kept
