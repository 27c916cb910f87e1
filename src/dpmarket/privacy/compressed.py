r"""Turn a million promises into a few weighted ones, for sums of smooth functions of a promise.

``A(epsilon) / epsilon`` (:mod:`dpmarket.privacy.promise_curve`) is an analytic function of the promise, so
that a Chebyshev series of moderate degree on ``[0, max(epsilons)]`` is exact to rounding. The moments
``sum_i epsilon_i T_j(epsilon_i)`` are taken once; after that, the sum of all weights costs a few dozen
evaluations for any noise level, and one pass turns the series into weights.

Nothing is taken on trust: at many more points than the series has coefficients it is compared with the
curve, and refused if its error exceeds an eighth of the margin by which weights are lowered, or if a
computed privacy loss there comes too close to its promise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.privacy.promise_curve import PromiseCurve

MARGIN = 2.0**-42
"""Relative amount by which weights from the series are lowered: 2.3e-13."""

_DEGREES = (8, 12, 16, 24, 32, 48)
_DEGREE_TO_CUT = 24
_TRIAL = 50.0
_SAFE_CUT = 3.0
_OVERSAMPLING = 8
_ROOM = 2.0**-49


@dataclass(frozen=True, eq=False)
class CompressedPromises:
    """Promises, seen through the moments of those up to a cut; the few above it stay as they are.

    Attributes
    ----------
    promises
        The promises up to the cut, at least 0, with 0 in the places of the others.
    cut
        The end of the interval on which the series lives.
    moments
        ``sum_i epsilon_i T_j(2 epsilon_i / cut - 1)``, shape (degree + 1,).
    places, large
        Where the promises above the cut are, and what they are.
    curve
        From promises to weights.
    """

    promises: FloatArray
    cut: float
    moments: FloatArray
    places: IntArray
    large: FloatArray
    curve: PromiseCurve

    @staticmethod
    def of(promises: FloatArray, curve: PromiseCurve) -> CompressedPromises:
        """Take the moments, with a cut and a degree that promise to resolve the curve."""
        from dpmarket.privacy.kernels import chebyshev_moments

        cut = float(promises.max())
        degree = _degree_needed(cut, curve)
        places = np.empty(0, dtype=np.int64)
        large = np.empty(0)
        if degree is None:
            cut = min(cut, _SAFE_CUT * curve.rows_per_person)
            degree = _DEGREE_TO_CUT
            places = np.flatnonzero(promises > cut)
            large = promises[places]
            promises = np.where(promises > cut, 0.0, promises)
        promises = np.ascontiguousarray(promises)
        moments = chebyshev_moments(promises, cut, degree)
        return CompressedPromises(promises, cut, moments, places, large, curve)

    @property
    def left_end(self) -> float:
        """An x = 1 / noise_rate at which the weights add up to at most 1."""
        return self.curve.row_bound / (float(self.moments[0]) + float(self.large.sum()))

    def total_weight(self) -> Callable[[float], tuple[float, float]]:
        """Return the function from x = 1 / noise_rate to the sum of all weights and its derivative."""
        nodes = _nodes(self.moments.size, self.cut)
        points = np.concatenate([nodes, self.large])
        # The sum over all people of the interpolated curve is a weighted sum over its nodes.
        multiplicities = np.ones_like(points)
        multiplicities[: nodes.size] = _interpolation_matrix(nodes.size) @ self.moments / nodes
        guess: list[FloatArray | None] = [None]

        def total(x: float) -> tuple[float, float]:
            weights, slopes = self.curve.weights(points, x, guess[0])
            guess[0] = weights
            return float(weights @ multiplicities), float(slopes @ multiplicities)

        return total

    def weights(self, x: float) -> FloatArray | None:
        """Return everybody's weight at x, lowered by :data:`MARGIN`, or None if the series is not exact."""
        from dpmarket.privacy.kernels import times_chebyshev_series

        nodes = _nodes(self.moments.size, self.cut)
        series = _coefficients(self.curve.weights(nodes, x)[0] / nodes)
        between = _nodes(_OVERSAMPLING * self.moments.size + 1, self.cut)
        exact, _ = self.curve.weights(between, x)
        found = np.empty_like(between)
        times_chebyshev_series(between, self.cut, series, found)
        if not np.max(np.abs(found / exact - 1.0)) <= MARGIN / 8.0:
            return None
        if np.any(self.curve.losses(found * (1.0 - MARGIN), x) > between * (1.0 - _ROOM)):
            return None
        result = np.empty_like(self.promises)
        times_chebyshev_series(self.promises, self.cut, series * (1.0 - MARGIN), result)
        if self.large.size:
            exact, _ = self.curve.weights(self.large, x)
            result[self.places] = self.curve.lowered(exact, self.large, x)
        return result


def _nodes(count: int, width: float) -> FloatArray:
    """Return the Chebyshev points of the first kind in (0, width)."""
    angles = np.pi * (np.arange(count) + 0.5) / count
    return width * np.sin(0.5 * np.pi - 0.5 * angles) ** 2


def _coefficients(values: FloatArray) -> FloatArray:
    """Return the Chebyshev coefficients of the interpolant of values at :func:`_nodes`, last axis."""
    return np.asarray(values @ _interpolation_matrix(values.shape[-1]), dtype=np.float64)


@functools.lru_cache(maxsize=8)
def _interpolation_matrix(count: int) -> FloatArray:
    # The angle (2 i + 1) j pi / (2 count) is reduced in whole numbers: the cosine of a large float is not
    # exact enough.
    turns = np.outer(2 * np.arange(count) + 1, np.arange(count)) % (4 * count)
    matrix: FloatArray = np.cos(turns * (np.pi / (2 * count))) * (2.0 / count)
    matrix[:, 0] *= 0.5
    return matrix


def _degree_needed(width: float, curve: PromiseCurve) -> int | None:
    """Return the smallest degree on offer that resolves the curve on [0, width], judged at much noise."""
    nodes = _nodes(_DEGREES[-1] + 5, width)
    ratios = curve.weights(nodes, _TRIAL * curve.linear_up_to)[0] / nodes
    sizes = np.abs(_coefficients(ratios))
    left_out = (np.cumsum(sizes[::-1])[::-1] - sizes) / ratios.min()
    return next((degree for degree in _DEGREES if left_out[degree] < MARGIN / 32.0), None)
