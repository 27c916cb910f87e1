"""Drawn public records: a linear boundary, and a logistic model."""

from __future__ import annotations

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.datasets.public_data import PublicData

_SPREAD = 3.0  # standard deviations of a feature that its public bounds cover on either side
_STRENGTH = 3.0  # standard deviation of the logistic model's margin
_CORRELATION = 0.5  # of its neighbouring features; features k apart have its k-th power


def separable(records: int, features: int, rng: np.random.Generator) -> PublicData:
    """Draw Gaussian records, labelled -1 or 1 by a random linear boundary through the origin.

    Paper, "Additional Experiments".

    Parameters
    ----------
    records, features, rng
        How many, at least 2 records and one feature; source of randomness, also for the boundary.

    Returns
    -------
    PublicData
        Both classes are present; bounds at three standard deviations.

    Examples
    --------
    >>> data = separable(100, 3, np.random.default_rng(0))
    >>> len(data), data.n_features, data.classes
    (100, 3, (-1, 1))
    """
    normal, x = _normals(records, features, rng)
    normal /= np.linalg.norm(normal)
    side = x @ normal
    x[:2] += (np.array([1.0, -1.0]) * np.abs(side[:2]) - side[:2])[:, None] * normal  # both classes, always
    return _drawn("separable", x, np.where(x @ normal > 0.0, 1, -1))


def logistic(records: int, features: int, rng: np.random.Generator) -> PublicData:
    """Draw correlated Gaussian records, labelled -1 or 1 at random by a logistic model.

    Parameters
    ----------
    records, features, rng
        How many, at least 2 records and one feature; source of randomness, also for the coefficients.

    Returns
    -------
    PublicData
        Both classes are present; bounds at three standard deviations.
    """
    normal, x = _normals(records, features, rng)
    for k in range(1, features):
        x[:, k] = _CORRELATION * x[:, k - 1] + np.sqrt(1.0 - _CORRELATION**2) * x[:, k]
    distance = np.abs(np.subtract.outer(np.arange(features), np.arange(features)))
    normal *= _STRENGTH / np.sqrt(normal @ _CORRELATION**distance @ normal)
    signs = np.where(rng.logistic(size=records) < x @ normal, 1, -1)
    signs[:2] = (1, -1)  # both classes, always
    return _drawn("logistic", x, signs)


def _normals(records: int, features: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw the direction of the labels, and the records."""
    shape = checks.whole("records", records, minimum=2), checks.whole("features", features, minimum=1)
    return rng.standard_normal(shape[1]), rng.standard_normal(shape)


def _drawn(name: str, x: FloatArray, labels: IntArray) -> PublicData:
    bound = np.full(x.shape[1], _SPREAD)
    named = f"{name} {len(x)} x {x.shape[1]}"
    return PublicData(x, labels, (-1, 1), -bound, bound, named, f"dpmarket.datasets.{name}")
