"""Turn raw features into rows of norm at most 1, with public bounds only."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput
from dpmarket.learning import rounding
from dpmarket.learning.rows import scales_for
from dpmarket.learning.validation import validated


class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale features with public bounds to rows of norm at most 1.

    Every feature is limited to [low, high] and mapped to [-1, 1]; rows longer than ``radius`` are shortened
    to it; then everything is divided by ``radius``.

    Parameters
    ----------
    low, high
        Public bounds of the features, in their own units: numbers, or one number per feature, low < high.
    radius
        Public length, in units of the mapped features, beyond which rows are shortened, > 0. None means the
        square root of the number of features, which shortens nothing.

    Notes
    -----
    Guaranteed: every returned row has Euclidean norm at most 1, as a fact about the returned floats, and is a
    function of that row and the bounds alone.

    Choose the bounds from the meaning of a feature, from a public source or from a pilot whose data are not
    part of the fit. A feature which uses a tenth of its range carries a tenth of the signal: two standard
    deviations on either side of the mean (:func:`~dpmarket.datasets.standard_bounds`) serve better than the
    extremes.

    Examples
    --------
    >>> scaler = PublicScaler(low=[0.0, 18.0], high=[100.0, 98.0])
    >>> scaler.fit_transform([[75.0, 58.0], [0.0, 98.0]]).round(6).tolist()
    [[0.5, 0.0], [-0.707107, 0.707107]]
    """

    def __init__(self, low: ArrayLike = -1.0, high: ArrayLike = 1.0, radius: float | None = 1.0) -> None:
        self.low = low
        self.high = high
        self.radius = radius

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the bounds against the number of columns. No value of ``X`` is used."""
        validated(self, X, dtype=np.float64)
        self._bounds()
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return scaled rows, shape (records, features), each of norm at most 1."""
        check_is_fitted(self)
        x = validated(self, X, dtype=np.float64, reset=False, order="C")
        low, high, radius = self._bounds()
        mapped = np.clip(x, low, high)
        mapped -= low
        mapped *= 2.0 / (high - low)
        mapped -= 1.0
        np.clip(mapped, -1.0, 1.0, out=mapped)
        mapped /= radius
        scales = scales_for(mapped)
        longer = scales < 1.0
        mapped[longer] *= scales[longer, None]
        return np.asarray(mapped)

    def _bounds(self) -> tuple[FloatArray, FloatArray, float]:
        n = int(self.n_features_in_)
        low, high = (_bound(name, getattr(self, name), n) for name in ("low", "high"))
        if not bool((low < high).all()):
            raise InvalidInput("expected low < high for every feature.")
        with np.errstate(over="ignore"):
            if not bool(np.isfinite(high - low).all() and np.isfinite(2.0 / (high - low)).all()):
                raise InvalidInput("expected high - low within the range of floats.")
        if self.radius is None:
            return low, high, float(np.sqrt(n)) * (1.0 + 4.0 * rounding.UNIT)
        return low, high, checks.positive("radius", self.radius)


def _bound(name: str, value: ArrayLike, n: int) -> FloatArray:
    bound = checks.finite_numbers(name, value)
    if bound.shape not in ((), (n,)):
        raise InvalidInput(
            f"expected {name} to be a number or {n} numbers, one per feature, got shape {bound.shape}."
        )
    return np.broadcast_to(bound, (n,))
