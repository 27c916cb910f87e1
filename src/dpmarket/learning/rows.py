"""Rows of features in blocks, and their lengths: whether each is at most 1, with rounding counted.

A dense float64 matrix in row order is read where it lies; anything else is copied block by block. Rows whose
length in float64 is within rounding of 1 are shortened by a little more than that, so that "at most 1" is a
fact about the numbers that are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dpmarket.arrays import FloatArray, IntArray, read_only_view
from dpmarket.errors import InvalidInput
from dpmarket.learning import rounding
from dpmarket.privacy.noise_norm import NoiseNorm

_BLOCK_ELEMENTS = 1 << 18
_LARGEST = 1e150
_BUFFER = 8192
NO_SCALES: FloatArray = np.zeros(0)


def block_height(n_features: int) -> int:
    """Return how many rows a block has, a multiple of 64: they stay in cache."""
    return max(64, _BLOCK_ELEMENTS // max(1, n_features) // 64 * 64)


class Block(NamedTuple):
    """Consecutive rows with labels and weights; no scales means 1."""

    x: FloatArray
    labels: FloatArray
    weights: FloatArray
    scales: FloatArray


@dataclass(frozen=True, eq=False)
class Rows:
    """Records with weights. Row i is ``scales[i] * features[i]``, followed by the constant, if any."""

    features: Any  # dense or CSR, shape (records, features)
    labels: FloatArray  # as the loss takes them
    weights: FloatArray  # of the loss, at least 0: records of weight 0 are never read
    scales: FloatArray = field(default_factory=lambda: NO_SCALES)  # empty for 1
    constant: float | None = 1.0  # the number in the constant column, a power of two
    _selected: IntArray | None = None

    @property
    def n_coefficients(self) -> int:
        """Number of columns, the constant included."""
        return int(self.features.shape[1]) + (self.constant is not None)

    def active(self) -> Rows:
        """Return only the rows whose weight is not 0."""
        if bool((self.weights > 0.0).all()):
            return self
        return replace(self, _selected=np.flatnonzero(self.weights > 0.0))

    def __len__(self) -> int:
        return len(self.labels) if self._selected is None else len(self._selected)

    def sample(self, count: int) -> Rows:
        """Return about ``count`` evenly spaced rows, copied, with weights that keep their total."""
        positions = np.arange(0, len(self), max(1, len(self) // count))
        block = self._copied(positions if self._selected is None else self._selected[positions])
        weights = block.weights * (self.total_weight() / float(block.weights.sum()))
        return Rows(block.x, block.labels, weights, block.scales, self.constant)

    def total_weight(self) -> float:
        """Return the sum of the weights, rounded up."""
        return float(self.weights.sum()) * (1.0 + len(self.weights) * 2.0**-52)

    @property
    def starts(self) -> range:
        """Where blocks start: a function of the number of rows and columns alone."""
        return range(0, len(self), block_height(self.features.shape[1]))

    def block(self, start: int) -> Block:
        """Return the block that starts there."""
        stop = min(start + self.starts.step, len(self))
        x = self.features
        if self._selected is not None:
            return self._copied(self._selected[start:stop])
        if isinstance(x, np.ndarray) and x.dtype == np.float64 and x.flags.c_contiguous:
            scales = self.scales[start:stop] if self.scales.size else NO_SCALES
            parts = (x[start:stop], self.labels[start:stop], self.weights[start:stop], scales)
            return Block(*map(read_only_view, parts))
        return self._copied(slice(start, stop))

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order."""
        return map(self.block, self.starts)

    def _copied(self, chosen: slice | IntArray) -> Block:
        parts = (
            np.ascontiguousarray(_dense(self.features, chosen), dtype=np.float64),
            self.labels[chosen],
            self.weights[chosen],
            self.scales[chosen] if self.scales.size else NO_SCALES,
        )
        return Block(*map(read_only_view, parts))


def _dense(features: Any, chosen: slice | IntArray) -> Any:
    """Return some rows as an array."""
    if isinstance(features, np.ndarray):
        return features[chosen]
    # As floats first: entries of one place add up.
    return features[chosen].astype(np.float64, copy=False).toarray()


def row_scales(rows: Rows, norm: NoiseNorm | None = None, *, clip: bool = False) -> FloatArray:
    """Return factors, one per record, that make rows at most 1 long. Empty if no row needs one.

    The factor of a row is a function of that row alone. The norm is Euclidean if none is given. Rows that are
    too long by more than rounding are refused by their number, unless ``clip`` says that they are shortened;
    numbers above 1e150 always.
    """
    parts, beyond = [], 0
    for block in rows.active().blocks():
        lengths = _lengths(block.x, norm)
        beyond += int((~(lengths <= 1.0 + _margin(block.x))).sum())
        parts.append(NO_SCALES if beyond and not clip else _scales(block.x, lengths))
    if beyond and not clip:
        euclidean = norm is None or norm.is_euclidean
        limit = "Euclidean norm at most 1" if euclidean else "norm at most 1 in its noise_norm"
        raise InvalidInput(
            f"expected every row of X to have {limit}, found {beyond} longer. Scale with public bounds "
            "(PublicScaler, PublicEncoder), or pass clip=True."
        )
    found = np.concatenate([NO_SCALES, *parts])
    if bool((found == 1.0).all()):
        return NO_SCALES
    if len(found) == len(rows.labels):
        return found
    scales = np.ones(len(rows.labels))
    scales[rows.weights > 0.0] = found
    return scales


def scales_for(x: FloatArray, norm: NoiseNorm | None = None) -> FloatArray:
    """Return the factor for every row of a dense block: 1 if it is clearly short, else below 1 / length."""
    return _scales(x, _lengths(x, norm))


def _scales(x: FloatArray, lengths: FloatArray) -> FloatArray:
    scales, margin = np.ones(len(x)), _margin(x)
    longer = ~(lengths <= 1.0 - margin)
    if longer.any():
        if not float(np.abs(x[longer]).max()) <= _LARGEST:
            raise InvalidInput("expected every number in X to be at most 1e150, found larger ones.")
        # Room for the rounding of the length and of products: a shortened row counts as short again.
        scales[longer] = (1.0 - 2.0 * margin) / lengths[longer]
    return scales


def _margin(x: FloatArray) -> float:
    """Return several times what rounding does to the length of a row."""
    return 4.0 * rounding.gamma(x.shape[1] + 8)


def _lengths(x: FloatArray, norm: NoiseNorm | None) -> FloatArray:
    """Return the length of each row, or its Euclidean length as a share of the bound if that is more."""
    with np.errstate(over="ignore", invalid="ignore"):
        euclidean = np.sqrt(_row_sums(x, x))
        if norm is None or norm.is_euclidean:
            return np.asarray(euclidean)
        mask = np.broadcast_to(norm.mask.astype(np.float64), x.shape)
        lengths = np.sqrt(_row_sums(x * x, 1.0 - mask)) + _row_sums(np.abs(x), mask)
        return np.asarray(np.maximum(lengths, euclidean / norm.euclidean_bound))


def _row_sums(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the sum of products in each row, rounded in a way that depends on no other row."""
    # Products of matrices depend on other rows, and einsum beyond the size of numpy's buffer.
    return np.asarray(np.einsum("ij,ij->i", a, b) if a.shape[1] <= _BUFFER else (a * b).sum(axis=1))
