"""Decide, with rounding counted, whether rows have norm at most 1, and shrink those that have not.

Float64 settles rows that are clearly short or long. Rows within rounding of norm 1 are measured in pairs of
floats, and the few that even these cannot settle in rational arithmetic, so that "at most 1" is a fact about
the numbers in the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dpmarket.arrays import BoolArray, FloatArray, read_only_view
from dpmarket.errors import InvalidInput
from dpmarket.learning import kernels, rounding
from dpmarket.learning.rows import NO_SCALES, Rows, block_height

_LARGEST = 1e150


def refuse_long_rows(rows: Rows) -> None:
    """Raise ``InvalidInput`` if a row that takes part is longer than 1; the message has no value.

    Raises
    ------
    InvalidInput
        With the number of such rows.
    """
    count = sum(int(_longer_than_one(piece).sum()) for piece in _pieces(rows.active()))
    if count:
        raise InvalidInput(
            f"expected every row of X to have Euclidean norm at most 1, found {count} longer. Scale with "
            "public bounds (PublicScaler), or pass clip=True."
        )


def clipping_scales(rows: Rows) -> FloatArray:
    """Return factors, one per record, that make every row at most 1 long: exactly 1 where it is already.

    The factor of a row is a function of that row alone. Empty if no row needs one.

    Raises
    ------
    InvalidInput
        If a number in a row is above 1e150, so that the row's length leaves the range of floats.
    """
    active = rows.active()
    parts = [scales_for(piece) for piece in _pieces(active)]
    found = np.concatenate(parts) if parts else NO_SCALES
    if bool((found == 1.0).all()):
        return NO_SCALES
    if len(active) == len(rows.signs):
        return found
    scales = np.ones(len(rows.signs))
    scales[rows.weights > 0.0] = found
    return scales


def scales_for(x: FloatArray) -> FloatArray:
    """Return the factor for every row of a dense block: 1, or just below 1 divided by the norm."""
    scales = np.ones(len(x))
    longer = _longer_than_one(x)
    if longer.any():
        rows = np.ascontiguousarray(x[longer])
        if not float(np.abs(rows).max()) <= _LARGEST:
            raise InvalidInput("expected every number in X to be at most 1e150, found larger ones.")
        norms = np.sqrt(kernels.squared_norms(read_only_view(rows))[0])
        # Room for the rounding of the norm, of the quotient and of a later product with every element.
        scales[longer] = (1.0 - (x.shape[1] + 16) * rounding.UNIT) / norms
    return scales


def _pieces(rows: Rows) -> Iterator[FloatArray]:
    """Yield the features in pieces so small that copies of them do not matter."""
    for block in rows.blocks():
        height = block_height(block.x.shape[1])
        for start in range(0, len(block.x), height):
            yield block.x[start : start + height]


def _longer_than_one(x: FloatArray) -> BoolArray:
    n = x.shape[1]
    rough = kernels.rough_squared_norms(read_only_view(x))
    margin = 2.0 * rounding.gamma(n + 4)
    longer = ~(rough <= 1.0 + margin)
    unsettled = np.flatnonzero((rough > 1.0 - margin) & ~longer)
    if unsettled.size:
        rows = np.ascontiguousarray(x[unsettled])
        high, low = kernels.squared_norms(read_only_view(rows))
        excess = (high - 1.0) + low
        longer[unsettled] = excess > 0.0
        error = 8.0 * rounding.gamma(2 * n + 16) ** 2
        for k in np.flatnonzero(np.abs(excess) <= error):
            longer[unsettled[k]] = sum(Fraction(value) ** 2 for value in rows[k].tolist()) > 1
    return longer
