"""Evaluate tabulated functions (:mod:`dpmarket.payments.interpolation`), and turn them round."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled
from dpmarket.payments.kernels.threads import in_threads


@compiled()
def value_at(table: Any, z: float) -> float:
    """Evaluate a tabulated function."""
    edges, coefficients = table.edges, table.coefficients
    if table.affine:
        share = (z - edges[0]) / (edges[1] - edges[0])
        line: float = (coefficients[0, 0] - coefficients[0, 1]) + 2.0 * coefficients[0, 1] * share
        return line
    piece = piece_of(edges, z)
    y = (2.0 * z - edges[piece] - edges[piece + 1]) / (edges[piece + 1] - edges[piece])
    d = dd = 0.0
    for j in range(coefficients.shape[1] - 1, 0, -1):
        d, dd = 2.0 * y * d - dd + coefficients[piece, j], d
    value: float = y * d - dd + coefficients[piece, 0]
    return value


@compiled(forceinline=True)
def piece_of(edges: Any, z: float) -> int:
    """Return the last piece that begins at or below ``z``, or the first."""
    low, high = 0, edges.size - 1
    while low + 1 < high:
        middle = (low + high) // 2
        if edges[middle] <= z:
            low = middle
        else:
            high = middle
    return low


@compiled()
def report_at(table: Any, x: float, low: float, high: float) -> Any:
    """Return the report between ``low`` and ``high`` at which the tabulated psi reaches ``x``."""
    if table.affine:
        middle, half = table.coefficients[0, 0], table.coefficients[0, 1]
        share = 0.5 + 0.5 * (x - middle) / half
        z = table.edges[0] + share * (table.edges[1] - table.edges[0])
        return min(max(z, low), high)
    while True:
        z = 0.5 * (low + high)
        if not low < z < high:
            return high
        if value_at(table, z) < x:
            low = z
        else:
            high = z


@compiled(nogil=True)
def _evaluate(table: Any, points: Any, values: Any) -> None:
    for i in range(points.size):
        values[i] = value_at(table, points[i])


def evaluate(table: Any, points: FloatArray) -> FloatArray:
    """Return a table's values at many points."""
    values = np.empty(points.size)
    in_threads(lambda part: _evaluate(table, points[part], values[part]), points.size, 1 << 16)
    return values
