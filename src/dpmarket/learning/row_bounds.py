"""Decide, with rounding counted, whether rows have norm at most 1, and shrink those that have not.

The norm is the Euclidean one, or that of the noise (:mod:`dpmarket.learning.shaped_bounds`).

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
from dpmarket.learning.shaped_bounds import longer_in_shape
from dpmarket.privacy.noise_norm import NoiseNorm

_LARGEST = 1e150
_ROUNDING = 4.5 * 2.0**-52  # 4 units in the last place of 1, and half a one for measuring


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


def rounding_scales(rows: Rows, shape: NoiseNorm | None = None) -> FloatArray:
    """Return factors that shorten rows which are too long by rounding only, up to 4 units in the last place.

    Scaling a row to norm 1 in floats often ends a unit above; that is nobody's mistake. Empty if no row needs
    one.

    Raises
    ------
    InvalidInput
        With the number of rows that take part and are longer than that. The message has no value.
    """
    beyond = 0
    parts = []
    for piece in _pieces(rows.active()):
        longer, factors = _judged(piece, shape)
        beyond += int((factors[longer] > 1.0 + _ROUNDING).sum())
        parts.append(_scales(piece, longer, factors))
    if beyond:
        norm = "Euclidean norm at most 1" if shape is None else "norm at most 1 in its noise_norm"
        raise InvalidInput(
            f"expected every row of X to have {norm}, found {beyond} longer. Scale with public bounds "
            "(PublicScaler, PublicEncoder), or pass clip=True."
        )
    return _of_all(rows, parts)


def clipping_scales(rows: Rows, shape: NoiseNorm | None = None) -> FloatArray:
    """Return factors, one per record, that make every row at most 1 long: exactly 1 where it is already.

    The factor of a row is a function of that row alone. Empty if no row needs one.

    Raises
    ------
    InvalidInput
        If a number in a row is above 1e150, so that the row's length leaves the range of floats.
    """
    return _of_all(rows, [scales_for(piece, shape) for piece in _pieces(rows.active())])


def scales_for(x: FloatArray, shape: NoiseNorm | None = None) -> FloatArray:
    """Return the factor for every row of a dense block: 1, or just below 1 divided by the norm."""
    return _scales(x, *_judged(x, shape))


def _of_all(rows: Rows, parts: list[FloatArray]) -> FloatArray:
    """Return the factors of rows that take part as factors of all records, empty if all are 1."""
    found = np.concatenate(parts) if parts else NO_SCALES
    if bool((found == 1.0).all()):
        return NO_SCALES
    if len(found) == len(rows.labels):
        return found
    scales = np.ones(len(rows.labels))
    scales[rows.weights > 0.0] = found
    return scales


def _judged(x: FloatArray, shape: NoiseNorm | None) -> tuple[BoolArray, FloatArray]:
    """Return which rows are too long, exactly, and their norms (1 where they are not measured)."""
    if shape is not None:
        return longer_in_shape(x, shape)
    longer = _longer_than_one(x)
    norms = np.ones(len(x))
    if longer.any():
        norms[longer] = np.sqrt(kernels.squared_norms(read_only_view(np.ascontiguousarray(x[longer])))[0])
    return longer, norms


def _scales(x: FloatArray, longer: BoolArray, norms: FloatArray) -> FloatArray:
    scales = np.ones(len(x))
    if longer.any():
        if not float(np.abs(x[longer]).max()) <= _LARGEST:
            raise InvalidInput("expected every number in X to be at most 1e150, found larger ones.")
        # Room for the rounding of the norm, of the quotient and of a later product with every element.
        scales[longer] = (1.0 - (x.shape[1] + 16) * rounding.UNIT) / norms[longer]
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
