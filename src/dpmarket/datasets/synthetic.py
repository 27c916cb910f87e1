"""Drawn public records: a linear boundary, and a logistic model."""

from __future__ import annotations

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.datasets.public_data import PublicData
from dpmarket.errors import InvalidInput

_SPREAD = 3.0  # standard deviations of a feature that its public bounds cover on either side


def separable(
    records: int, features: int, rng: np.random.Generator, margin: float = 0.0, flips: float = 0.0
) -> PublicData:
    """Draw Gaussian records, labelled by a random linear boundary through the origin.

    Paper, "Additional Experiments". ``margin`` serves theorem ``thm: asymptotic``.

    Parameters
    ----------
    records, features, rng
        How many, at least 2 records and one feature; source of randomness, also for the boundary.
    margin
        Least distance of a record from the boundary, >= 0, in standard deviations of one feature: records are
        pushed away from it along its normal.
    flips
        Probability, below one half, with which a label is turned round.

    Returns
    -------
    PublicData
        Classes -1 and 1, both present; bounds at three standard deviations.

    Examples
    --------
    >>> data = separable(100, 3, np.random.default_rng(0), margin=0.5)
    >>> len(data), data.n_features, data.classes
    (100, 3, (-1, 1))
    """
    normal, x = _normals(records, features, rng)
    margin, flips = checks.non_negative("margin", margin), checks.non_negative("flips", flips)
    if flips >= 0.5:
        raise InvalidInput(f"expected flips below 0.5, got {flips:g}.")
    normal /= np.linalg.norm(normal)
    side = x @ normal
    signs = np.where(side > 0.0, 1, -1)
    signs[:2] = (1, -1)  # both classes, always
    along = np.where(np.arange(records) < 2, signs * np.abs(side), side)
    x += (along - side + signs * margin)[:, None] * normal
    return _drawn("separable", x, np.where(rng.random(records) < flips, -signs, signs))


def logistic(
    records: int, features: int, rng: np.random.Generator, strength: float = 3.0, correlation: float = 0.5,
    offset: float = 0.0,
) -> PublicData:  # fmt: skip
    """Draw correlated Gaussian records, labelled at random by a logistic model.

    Parameters
    ----------
    records, features, rng
        How many, at least 2 records and one feature; source of randomness, also for the coefficients.
    strength
        Standard deviation of the model's margin, >= 0: 0 means labels without information.
    correlation
        Of neighbouring features, at least 0 and below 1; features ``k`` apart have its k-th power. Every
        feature has mean 0 and standard deviation 1.
    offset
        Added to every margin; above 0 it makes the class 1 the larger one.

    Returns
    -------
    PublicData
        Classes -1 and 1, both present; bounds at three standard deviations.

    Examples
    --------
    >>> data = logistic(1_000, 4, np.random.default_rng(0), offset=1.0)
    >>> len(data), data.n_features, bool((data.signs > 0).mean() > 0.5)
    (1000, 4, True)
    """
    normal, x = _normals(records, features, rng)
    strength, offset = checks.non_negative("strength", strength), checks.finite("offset", offset)
    correlation = checks.non_negative("correlation", correlation)
    if correlation >= 1.0:
        raise InvalidInput(f"expected correlation below 1, got {correlation:g}.")
    for k in range(1, features):
        x[:, k] = correlation * x[:, k - 1] + np.sqrt(1.0 - correlation**2) * x[:, k]
    distance = np.abs(np.subtract.outer(np.arange(features), np.arange(features)))
    normal *= strength / np.sqrt(normal @ correlation**distance @ normal)
    signs = np.where(rng.logistic(size=records) < x @ normal + offset, 1, -1)
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
