"""Tabulate a distribution's virtual cost as polynomials, so that kernels can evaluate it anywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from dpmarket.arrays import FloatArray
from dpmarket.costs import CostDistribution

DEGREE = 15
_ACCURACY = 1e-13
_DEPTH = 48


class PsiTable(NamedTuple):
    """psi on [edges[0], edges[-1]]: on each piece a Chebyshev series over the piece mapped to [-1, 1].

    ``walls`` are the costs at which psi is not smooth. Between pieces and at walls psi may jump.
    ``affine`` tells that there is one piece, with a straight line.
    """

    edges: FloatArray
    coefficients: FloatArray
    walls: FloatArray
    affine: bool


def tabulate(dist: CostDistribution, top: float, unit: float = 1.0) -> PsiTable:
    """Tabulate psi/unit from the lower end of the support to ``top``, to about 1e-13 of its value.

    Pieces are halved until the series' tail is negligible; near a point where psi is singular they
    shrink geometrically, down to 2^-48 of the whole, where psi is taken as constant.
    """
    low = dist.support[0]
    inner = [point for i in dist.ironed_intervals for point in (i.low, i.high)]
    walls = np.unique(np.clip([low, top, *dist.breakpoints, *inner], low, top))
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    to_series = np.linalg.inv(chebyshev.chebvander(nodes, DEGREE))
    probe = np.linspace(-0.999, 0.999, 10)
    on_probe = chebyshev.chebvander(probe, DEGREE)

    todo = np.stack([walls[:-1], walls[1:]], axis=1)
    edges: list[FloatArray] = []
    series: list[FloatArray] = []
    for depth in range(_DEPTH + 1):
        half, middle = 0.5 * (todo[:, 1] - todo[:, 0])[:, None], 0.5 * (todo[:, 1] + todo[:, 0])[:, None]
        values = dist.virtual_cost(middle + half * nodes) / unit
        wanted = dist.virtual_cost(middle + half * probe) / unit
        # Beyond 1e100 nobody is bought from, whatever the exact value is.
        values, wanted = np.minimum(values, 1e100), np.minimum(wanted, 1e100)
        fitted = values @ to_series.T
        fitted[np.abs(fitted) <= 1e-15 * np.abs(values).max(axis=1, keepdims=True)] = 0.0
        error = np.abs(fitted @ on_probe.T - wanted).max(axis=1)
        good = error <= _ACCURACY * np.abs(wanted).max(axis=1)
        if depth == _DEPTH:
            fitted[~good] = 0.0
            fitted[~good, 0] = np.median(values[~good], axis=1)
            good[:] = True
        edges.append(todo[good])
        series.append(fitted[good])
        rest = todo[~good]
        if not len(rest):
            break
        cut = 0.5 * (rest[:, 0] + rest[:, 1])
        todo = np.concatenate((np.stack([rest[:, 0], cut], axis=1), np.stack([cut, rest[:, 1]], axis=1)))
    pieces, coefficients = np.concatenate(edges), np.concatenate(series)
    order = np.argsort(pieces[:, 0])
    starts = pieces[order, 0]
    coefficients = np.ascontiguousarray(coefficients[order])
    affine = len(order) == 1 and not coefficients[0, 2:].any()
    return PsiTable(np.append(starts, walls[-1]), coefficients, walls, affine)
