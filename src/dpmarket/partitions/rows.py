"""Keep the rows of one partition, checked and scaled, as arrays that later passes read where they lie.

One folder for each partition, within the driver's own work folder, which only its owner may look into and
which is removed in the end. A task that runs twice writes the same folder twice: the first one stays.
"""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.learning import kernels
from dpmarket.learning.pairs import add_pairs
from dpmarket.learning.promises import shares_of_records
from dpmarket.learning.row_bounds import clipping_scales, rounding_scales
from dpmarket.learning.row_sums import RowSums
from dpmarket.learning.rows import NO_SCALES, Rows
from dpmarket.numerics import exact_parts
from dpmarket.privacy import NoiseShape
from dpmarket.privacy.weights import Shares, less_reserve

_SPARSE = ("data", "indices", "indptr", "shape")


@dataclass(frozen=True)
class RowSettings:
    """What the rows of all partitions have in common.

    Attributes
    ----------
    shape
        The norm in which rows are at most 1 long; None for the Euclidean one.
    clip
        Whether longer ones are shortened; otherwise they are refused.
    reserve
        What is set aside of every promise.
    sample
        How many rows each partition gives for the start.
    """

    shape: NoiseShape | None
    clip: bool
    reserve: float
    sample: int


@dataclass(frozen=True, eq=False)
class Sampled:
    """Some rows of a partition, evenly spaced. Private.

    Attributes
    ----------
    features
        Their numbers, shape (rows, features), scaled.
    signs, promises, counts
        Their labels as +1 and -1, their owner's promise, and how many rows the owner has.
    """

    features: FloatArray
    signs: FloatArray
    promises: FloatArray
    counts: IntArray


@dataclass(frozen=True, eq=False)
class Kept:
    """What the driver knows of a partition whose rows were kept.

    Attributes
    ----------
    folder
        Where the arrays are.
    records, features
        How many rows and columns there are.
    usable
        Floats whose exact sum is that of people's usable promises.
    sample
        Some rows; None where there are none.
    """

    folder: str
    records: int
    features: int
    usable: tuple[float, ...]
    sample: Sampled | None


def keep_rows(
    folder: str, features: Any, signs: FloatArray, owners: IntArray, promised: FloatArray, how: RowSettings
) -> Kept:
    """Measure rows, keep them as arrays, and return what the driver needs to know.

    Parameters
    ----------
    folder
        Where they go.
    features, signs
        Rows of norm at most 1, dense or CSR, and labels as +1 and -1.
    owners
        Position of each row's owner among the people.
    promised
        What people were promised, shape (people,).
    how
        What all partitions have in common.

    Raises
    ------
    InvalidInput
        Rows longer than 1.
    """
    counts = np.bincount(owners, minlength=promised.size)
    row_promises = promised[owners]
    # Who is promised no more than what is set aside has no influence: the rows are not measured, either.
    taking_part = less_reserve(row_promises, how.reserve)
    rows = Rows(features, signs, taking_part)
    scales = (clipping_scales if how.clip else rounding_scales)(rows, how.shape)
    arrays: dict[str, Any] = {"signs": signs, "promises": row_promises}
    if issparse(features):
        arrays |= {name: np.asarray(getattr(features, name)) for name in _SPARSE}
    else:
        arrays["x"] = np.ascontiguousarray(features, dtype=np.float64)
    if scales.size:
        arrays["scales"] = scales
    if counts.size and int(counts.max()) > 1:
        arrays["counts"] = counts[owners]
    own = promised[counts > 0]
    _write(Path(folder), {**arrays, "people": own})
    return Kept(
        folder=folder,
        records=signs.size,
        features=int(features.shape[1]),
        usable=tuple(exact_parts(less_reserve(own, how.reserve))),
        sample=_sampled(rows, scales, row_promises, counts[owners], how.sample),
    )


@dataclass(frozen=True, eq=False)
class Look:
    """One partition, and a point at which its sums are asked for; ``rest``: as a pair, if it is not None."""

    folder: str
    shares: Shares
    unit: float
    constant: bool
    w: FloatArray
    rest: FloatArray | None = None


def look(asked: Look) -> tuple[FloatArray, FloatArray]:
    """Return the loss's gradient over a partition as pairs, and its Hessian."""
    n = asked.w.size
    rows = kept_rows(asked.folder, asked.shares, asked.unit, constant=asked.constant)
    sums = RowSums(rows, _one_by_one)
    pairs, hessian = np.zeros((2, n)), np.zeros((n, n))
    for block in rows.blocks() if len(rows) else ():
        for part, square in sums.over_parts(kernels.gradient_and_hessian, block, asked.w):
            pairs = add_pairs(pairs, part)
            hessian += square
    return pairs, hessian


def look_closely(asked: Look) -> FloatArray:
    """Return the loss's gradient over a partition in pairs of floats throughout."""
    assert asked.rest is not None
    rows = kept_rows(asked.folder, asked.shares, asked.unit, constant=asked.constant)
    if not len(rows):
        return np.zeros((2, asked.w.size))
    return RowSums(rows, _one_by_one).pairs(kernels.accurate_gradient, asked.w, asked.rest)


def weigh(asked: tuple[str, Shares]) -> list[float]:
    """Return floats whose exact sum is that of the weights of a partition's people."""
    folder, shares = asked
    return exact_parts(shares.weights(_array(Path(folder), "people")))


def promises_in(folder: str) -> FloatArray:
    """Return what the people of a partition were promised."""
    return np.array(_array(Path(folder), "people"))


def kept_rows(folder: str, shares: Shares, unit: float, *, constant: bool) -> Rows:
    """Return the rows of a partition with their weights, multiplied by ``unit``: those that take part."""
    place = Path(folder)
    promises = _array(place, "promises")
    weights = shares.weights(promises)
    if (place / "counts.npy").exists():
        weights = shares_of_records(weights, _array(place, "counts"))
    scales = _array(place, "scales") if (place / "scales.npy").exists() else NO_SCALES
    if unit != 1.0:
        scales = (scales if scales.size else np.ones(weights.size)) * unit
    return Rows(_features(place), _array(place, "signs"), weights, scales, constant).active()


def sample_rows(sampled: list[Sampled], shares: Shares, total: float, *, constant: bool) -> Rows:
    """Return the samples of all partitions as rows whose weights add up to ``total``."""
    promises = np.concatenate([one.promises for one in sampled])
    counts = np.concatenate([one.counts for one in sampled])
    weights = shares_of_records(shares.weights(promises), counts)
    sum_of_weights = float(weights.sum())
    if sum_of_weights > 0.0:
        weights = weights * (total / sum_of_weights)
    features = np.concatenate([one.features for one in sampled])
    signs = np.concatenate([one.signs for one in sampled])
    return Rows(features, signs, weights, constant=constant)


def _sampled(
    rows: Rows, scales: FloatArray, promises: FloatArray, counts: IntArray, most: int
) -> Sampled | None:
    some = np.flatnonzero(rows.weights > 0.0)
    some = some[:: max(1, -(-some.size // most))]
    if some.size == 0:
        return None
    chosen: Any = rows.features[some]
    dense = np.array(chosen if isinstance(chosen, np.ndarray) else chosen.toarray(), dtype=np.float64)
    if scales.size:
        dense *= scales[some, None]
    return Sampled(dense, rows.signs[some], promises[some], counts[some])


def _features(place: Path) -> Any:
    if (place / "x.npy").exists():
        return _array(place, "x")
    data, indices, indptr, shape = (_array(place, name) for name in _SPARSE)
    return csr_array((data, indices, indptr), shape=tuple(shape.tolist()))


def _array(place: Path, name: str) -> Any:
    # As a plain array: compiled loops know no other kind. It is read where it lies, page by page.
    return np.asarray(np.load(place / f"{name}.npy", mmap_mode="r"))


def _write(folder: Path, arrays: dict[str, Any]) -> None:
    temporary = folder.with_name(f"{folder.name}.{secrets.token_hex(6)}.tmp")
    temporary.mkdir(mode=0o700)
    for name, array in arrays.items():
        np.save(temporary / f"{name}.npy", array)
    try:
        os.rename(temporary, folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not folder.is_dir():
            raise


def _one_by_one(function: Any, items: Any) -> list[Any]:
    return [function(item) for item in items]
