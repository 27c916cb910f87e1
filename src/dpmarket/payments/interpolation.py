"""Tabulate a piecewise smooth function as polynomials, so that kernels can evaluate it anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution

DEGREE = 15
_NODES = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
_TO_SERIES = np.linalg.inv(chebyshev.chebvander(_NODES, DEGREE))
_PROBES = np.linspace(-0.999, 0.999, 10)
_ON_PROBES = chebyshev.chebvander(_PROBES, DEGREE)


class PiecewiseSeries(NamedTuple):
    """A function on [edges[0], edges[-1]]: on each piece a Chebyshev series, the piece mapped to [-1, 1].

    ``walls`` are the points at which the function is not smooth; it may jump there. ``affine`` tells that
    there is one piece, with a straight line. ``error`` is the mean relative error seen.
    """

    edges: FloatArray
    coefficients: FloatArray
    walls: FloatArray
    affine: bool
    error: float


def tabulate(
    function: Callable[[FloatArray], FloatArray], walls: FloatArray, accuracy: float, depth: int
) -> PiecewiseSeries:
    """Tabulate ``function`` between the outer walls, to a relative ``accuracy``.

    Pieces are halved until the series agrees with the function at ten further points, ``depth`` times at
    the most: then the series stays as it is, or the median where it is no better than that. Halving also
    stops where it no longer helps, because the function itself is not smoother than its rounding.
    """
    todo = np.stack([walls[:-1], walls[1:]], axis=1)
    edges: list[FloatArray] = []
    series: list[FloatArray] = []
    before = np.full(len(todo), np.inf)
    missed = 0.0
    for level in range(depth + 1):
        half, middle = 0.5 * (todo[:, 1] - todo[:, 0])[:, None], 0.5 * (todo[:, 1] + todo[:, 0])[:, None]
        values, wanted = function(middle + half * _NODES), function(middle + half * _PROBES)
        fitted = values @ _TO_SERIES.T
        size = np.abs(values).max(axis=1, keepdims=True)
        fitted[np.abs(fitted) <= 1e-15 * size] = 0.0
        # A flat piece must come out flat to the last bit: ties between sellers hang on it.
        flat = values.max(axis=1) == values.min(axis=1)
        fitted[flat] = 0.0
        fitted[flat, 0] = values[flat, 0]
        error = np.abs(fitted @ _ON_PROBES.T - wanted).max(axis=1)
        error /= np.maximum(np.abs(wanted).max(axis=1), 1e-300)
        noise = (error > 0.1 * before) & (error < 1e-9)
        narrow = todo[:, 1] - todo[:, 0] <= 1e-10 * todo[:, 1]
        good = (error <= accuracy) | noise | narrow
        if level == depth:
            wild = error * size[:, 0] > 0.5 * (values.max(axis=1) - values.min(axis=1))
            fitted[wild] = 0.0
            fitted[wild, 0] = np.median(values[wild], axis=1)
            good[:] = True
        missed += float(np.minimum(error, 1.0)[good] @ (todo[good, 1] - todo[good, 0]))
        before = np.tile(error[~good], 2)
        edges.append(todo[good])
        series.append(fitted[good])
        rest = todo[~good]
        if not len(rest):
            break
        cut = 0.5 * (rest[:, 0] + rest[:, 1])
        todo = np.concatenate((np.stack([rest[:, 0], cut], axis=1), np.stack([cut, rest[:, 1]], axis=1)))
    pieces, coefficients = np.concatenate(edges), np.concatenate(series)
    order = np.argsort(pieces[:, 0])
    coefficients = np.ascontiguousarray(coefficients[order])
    affine = len(order) == 1 and not coefficients[0, 2:].any()
    return PiecewiseSeries(
        np.append(pieces[order, 0], walls[-1]),
        coefficients,
        walls,
        affine,
        missed / float(walls[-1] - walls[0]),
    )


def tabulate_virtual_costs(dist: CostDistribution, top: float) -> PiecewiseSeries:
    """Tabulate psi from the lower end of the support to ``top``, to about 1e-13 of its value.

    Near a point where psi is singular the pieces shrink geometrically, down to 2^-48 of the whole.
    """
    low = dist.support[0]
    inner = [point for i in dist.ironed_intervals for point in (i.low, i.high)]
    walls = np.unique(np.clip([low, top, *dist.breakpoints, *inner], low, top))

    def psi(costs: FloatArray) -> FloatArray:
        # Beyond 1e100 nobody is bought from, whatever the exact value is.
        return np.minimum(dist.virtual_cost(costs), 1e100)

    return tabulate(psi, walls, 1e-13, 48)
