"""Rows that carry the noise shape they were scaled for.

Encoded rows go from :class:`~dpmarket.learning.encoder.PublicEncoder` to an estimator through pipelines that
pass nothing but a matrix, so the matrix itself says in which norm its rows are at most 1 long. Selecting rows
keeps the mark; the estimator measures every row again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dpmarket.arrays import FloatArray
from dpmarket.privacy import NoiseShape


class EncodedArray(np.ndarray[Any, np.dtype[np.float64]]):
    """A dense matrix of encoded rows; ``noise_shape`` is their norm, None where it is not known."""

    noise_shape: NoiseShape | None = None

    def __array_finalize__(self, source: Any) -> None:
        shape = getattr(source, "noise_shape", None)
        fits = shape is not None and self.ndim == 2 and self.shape[1] == shape.n_features
        self.noise_shape = shape if fits else None


class EncodedRows(csr_array):
    """A sparse matrix of encoded rows; ``noise_shape`` is their norm, None where it is not known."""

    noise_shape: NoiseShape | None = None

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        shape = self.noise_shape
        if shape is not None and isinstance(found, EncodedRows) and found.shape[-1] == shape.n_features:
            found.noise_shape = shape if found.ndim == 2 else None
        return found


def marked(rows: Any, shape: NoiseShape | None) -> Any:
    """Return the rows with their noise shape; as they are, without one."""
    if shape is None:
        return rows
    found = EncodedRows(rows) if not isinstance(rows, np.ndarray) else _view(rows)
    found.noise_shape = shape
    return found


def _view(rows: FloatArray) -> EncodedArray:
    return rows.view(EncodedArray)
