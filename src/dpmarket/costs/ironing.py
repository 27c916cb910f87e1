"""Turn a virtual cost that is not increasing into the best one that is.

In quantile space the integral of psi is known in closed form: the integral of psi(F^-1(u)) from 0 to q is
``q * F^-1(q)``, because psi*f = (c*F)'. Ironing replaces this curve by its lower convex hull; the ironed
psi is the hull's slope (Myerson 1981, section 6, for costs instead of values). So the curve
(F(c), c*F(c)) over a grid of costs gives the hull's chords, and each chord's two ends are then polished
until the chord is tangent there, or ends at a jump of the density or at the end of the support.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray

# A fall of psi smaller than this, relative to psi itself, is taken for rounding.
_RELATIVE_FALL = 1e-10
_GRID_QUANTILES = 2049
_GRID_COSTS = 1025


@dataclass(frozen=True)
class IronedInterval:
    """Costs from ``low`` to ``high`` all count as the same ``virtual_cost``.

    Attributes
    ----------
    low, high
        The ends of the interval, money per unit of epsilon.
    virtual_cost
        Of everybody within it, in the same unit.
    """

    low: float
    high: float
    virtual_cost: float


def iron(
    raw: Callable[[FloatArray], FloatArray],
    cdf: Callable[[FloatArray], FloatArray],
    quantile: Callable[[FloatArray], FloatArray],
    breakpoints: tuple[float, ...],
) -> tuple[IronedInterval, ...]:
    """Find the intervals on which psi must be flat, in ascending order.

    Parameters
    ----------
    raw
        psi as it stands; may jump at ``breakpoints`` and be infinite where the density is 0.
    cdf, quantile
        Of the distribution, on arrays.
    breakpoints
        Finite costs where the density is not smooth.

    Notes
    -----
    Irregularities narrower than the grid (2049 quantiles, 1025 equidistant costs, all breakpoints and 16
    points between neighbouring breakpoints) are not seen, nor falls of psi below 1e-10 of its value.
    """
    costs = _grid(quantile, breakpoints)
    before, after = raw(np.nextafter(costs, -np.inf)), raw(np.nextafter(costs, np.inf))
    before[0], after[-1] = after[0], before[-1]
    falls = _falls(before, after)
    if not falls.any():
        return ()
    probabilities = cdf(costs)
    hull = _lower_hull(probabilities, costs * probabilities)
    counts = np.concatenate(([0], np.cumsum(falls)))
    chords = [(i, j) for i, j in pairwise(hull) if counts[j] > counts[i]]
    if not chords:
        return ()
    left, right = np.array(chords).T
    last = len(costs) - 1
    brackets = (
        costs[np.concatenate((np.maximum(left - 1, 0), right - 1))],
        costs[np.concatenate((left + 1, np.minimum(right + 1, last)))],
    )
    ends = np.concatenate((costs[left], costs[right]))
    # Newton on the chord's slope: it equals psi at both ends when the chord is tangent there.
    levels = np.zeros(len(chords))
    for _ in range(50):
        low, high = ends[: len(chords)], ends[len(chords) :]
        f_low, f_high = cdf(low), cdf(high)
        # A fall as narrow as rounding leaves a chord without width: its level is known by then.
        wide = f_high > f_low
        rise = np.where(wide, f_high - f_low, 1.0)
        previous, levels = levels, np.where(wide, (high * f_high - low * f_low) / rise, levels)
        if np.allclose(levels, previous, rtol=1e-15, atol=0.0):
            break
        ends = crossing(raw, np.concatenate((levels, levels)), *brackets)
    levels = np.maximum.accumulate(levels)
    return tuple(
        IronedInterval(float(a), float(b), float(level))
        for a, b, level in zip(low, high, levels, strict=True)
        if a < b
    )


def crossing(
    function: Callable[[FloatArray], FloatArray],
    targets: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Return the points in [low, high] where a non-decreasing function first exceeds its target.

    Bisection on all elements at once, down to neighbouring floats: right for functions with jumps and
    infinite values, where interpolation is not. Elements whose function never exceeds the target get
    ``high``.
    """
    low, high = low.copy(), high.copy()
    while True:
        middle = low + 0.5 * (high - low)
        moving = (middle > low) & (middle < high)
        if not moving.any():
            return high
        above = function(middle) > targets
        high = np.where(moving & above, middle, high)
        low = np.where(moving & ~above, middle, low)


def flatten(intervals: tuple[IronedInterval, ...], costs: FloatArray, raw: FloatArray) -> FloatArray:
    """Return the ironed virtual costs, given the raw ones: non-decreasing across every interval's end."""
    if not intervals:
        return raw
    levels = np.array([interval.virtual_cost for interval in intervals])
    index = np.searchsorted([interval.high for interval in intervals], costs)
    floor = np.concatenate(([-np.inf], levels))[index]
    ceiling = np.concatenate((levels, [np.inf]))[index]
    return np.where(inside(intervals, costs), ceiling, np.clip(raw, floor, ceiling))


def inside(intervals: tuple[IronedInterval, ...], costs: FloatArray) -> BoolArray:
    """Tell which costs lie in an ironed interval."""
    if not intervals:
        return np.zeros(costs.shape, dtype=bool)
    index = np.searchsorted([interval.high for interval in intervals], costs)
    lows = np.array([interval.low for interval in intervals] + [np.inf])
    return costs >= lows[index]


def _grid(quantile: Callable[[FloatArray], FloatArray], breakpoints: tuple[float, ...]) -> FloatArray:
    probabilities = np.sin(np.linspace(0.0, 0.5 * np.pi, _GRID_QUANTILES)) ** 2
    quantiles = quantile(np.minimum(probabilities, 1.0 - 1e-9))
    finite = np.array(breakpoints)
    low, high = quantiles[0], max(quantiles[-1], finite.max(initial=quantiles[0]))
    between = [np.linspace(a, b, 18) for a, b in pairwise(finite)]
    points = np.concatenate((quantiles, np.linspace(low, high, _GRID_COSTS), finite, *between))
    points = np.unique(points)
    # Points closer than rounding allows would make the hull's turns random; breakpoints stay.
    keep = np.concatenate(([True], np.diff(points) > 1e-11 * (high - low))) | np.isin(points, finite)
    keep[0] = True
    return points[keep]


def _falls(before: FloatArray, after: FloatArray) -> BoolArray:
    """Tell for each grid cell whether psi falls in it or at its right end."""

    def falls(first: FloatArray, second: FloatArray) -> BoolArray:
        with np.errstate(invalid="ignore"):
            return np.asarray(second < first - _RELATIVE_FALL * np.abs(second))

    return falls(after[:-1], before[1:]) | falls(before[1:], after[1:])


def _lower_hull(x: FloatArray, y: FloatArray) -> list[int]:
    """Return the indices of the lower convex hull of points sorted by x (monotone chain)."""
    hull: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for k in range(len(xs)):
        while len(hull) >= 2:
            i, j = hull[-2], hull[-1]
            turn = (xs[j] - xs[i]) * (ys[k] - ys[i]) - (ys[j] - ys[i]) * (xs[k] - xs[i])
            if turn > 0.0:
                break
            hull.pop()
        hull.append(k)
    return hull
