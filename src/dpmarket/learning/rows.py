"""Turn a feature matrix of any kind into blocks of rows that the kernels can read.

A dense float64 matrix in row order is read where it lies. Anything else (other number types, column order,
sparse rows, a selection of rows) is copied block by block, never as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.sparse import issparse

from dpmarket.arrays import FloatArray, IntArray, read_only_view
from dpmarket.learning import kernels

_BLOCK_ELEMENTS = 1 << 19
NO_SCALES: FloatArray = np.zeros(0)


def block_height(n_features: int) -> int:
    """Return how many rows are copied at a time, a multiple of 64."""
    return max(64, _BLOCK_ELEMENTS // max(1, n_features) // 64 * 64)


class Block(NamedTuple):
    """Consecutive rows: ``(scale * x, 1)`` with labels and weights; no scales means 1."""

    x: FloatArray
    labels: FloatArray
    weights: FloatArray
    scales: FloatArray


@dataclass(frozen=True, eq=False)
class Rows:
    """Records with weights. Row i is ``scales[i] * features[i]``, followed by 1 if there is a constant.

    Attributes
    ----------
    features
        Dense or CSR matrix, shape (records, features).
    labels
        As the loss takes them, shape (records,): for classes their number, from 0.
    weights
        Loss weights, shape (records,), at least 0. Records of weight 0 are never read.
    scales
        What every row is multiplied by, shape (records,), or empty for 1.
    constant
        Whether rows end with a constant column of ones.
    """

    features: Any
    labels: FloatArray
    weights: FloatArray
    scales: FloatArray = field(default_factory=lambda: NO_SCALES)
    constant: bool = True
    _selected: IntArray | None = None

    @property
    def n_coefficients(self) -> int:
        """Number of columns, the constant included."""
        return int(self.features.shape[1]) + int(self.constant)

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
        index = positions if self._selected is None else self._selected[positions]
        block = self._copied(index)
        weights = block.weights * (self.total_weight() / float(block.weights.sum()))
        return Rows(block.x, block.labels, weights, block.scales, self.constant)

    def total_weight(self) -> float:
        """Return the sum of the weights, rounded up."""
        return float(self.weights.sum()) * (1.0 + len(self.weights) * 2.0**-52)

    def blocks(self) -> Iterator[Block]:
        """Yield all rows in order; the blocks depend on nothing but the shape and kind of the matrix."""
        x = self.features
        plain = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.flags.c_contiguous
        if plain and self._selected is None:
            yield Block(*map(read_only_view, (x, self.labels, self.weights, self.scales)))
            return
        height = block_height(x.shape[1])
        for start in range(0, len(self), height):
            stop = min(start + height, len(self))
            chosen = slice(start, stop) if self._selected is None else self._selected[start:stop]
            yield self._copied(chosen)

    def _copied(self, chosen: slice | IntArray) -> Block:
        dense = _dense(self.features, chosen)
        parts = (
            np.ascontiguousarray(dense, dtype=np.float64),
            self.labels[chosen],
            self.weights[chosen],
            self.scales[chosen] if self.scales.size else NO_SCALES,
        )
        return Block(*map(read_only_view, parts))


def _dense(features: Any, chosen: slice | IntArray) -> Any:
    """Return some rows as an array."""
    if isinstance(features, np.ndarray) or not issparse(features):
        return features[chosen]
    features = cast(Any, features)
    if isinstance(chosen, slice) and features.format == "csr" and features.dtype.kind in "fiub":
        # scipy's own slices copy, which takes longer than all that follows.
        parts = (features.data, features.indices, features.indptr)
        return kernels.dense_rows(*parts, chosen.start, chosen.stop, features.shape[1])
    return features[chosen].toarray()
