r"""The law of the error of a private linear model, from public quantities only.

To first order, released coefficients are off by

.. math:: \hat W - W^* = -K (\xi + b), \qquad K = (H + \Lambda)^{-1},

with the noise b, whose law is exact and public, the sampling error :math:`\xi` of the gradient, whose
covariance is at most :math:`|a|^2` times the second moment of one person's gradient, and the Hessian H. The
target :math:`W^*` is what the same fit would return from the whole population without noise: the penalty's
bias is part of it and not of the interval.

H and the second moment are those of public rows at the released coefficients; or means over Hessians that a
noisy one (:mod:`dpmarket.learning.curvature`) leaves plausible; or the worst of a stand-in's, any direction
of which may have a sixteenth of the curvature: the interval is marked approximate. Radial noise on m
coefficients is normal times :math:`\frac{2}{\eta} \sqrt V` with :math:`V / 2 \sim \Gamma(\frac{m+1}{2})`. So
an error along any direction has the characteristic function :math:`e^{-s^2 u^2 / 2} \prod_k (1 + t_k^2
u^2)^{-(m_k+1)/2}`, which :func:`quantiles` inverts (Gil-Pelaez).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, ndtri, softmax
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.descent import gradient_clip, responses
from dpmarket.learning.validation import numbers_of, validated
from dpmarket.privacy.descent import CELLS
from dpmarket.privacy.loss import Loss, SigmoidLoss, loss_from
from dpmarket.privacy.noise_norm import NoiseNorm

_LEAST_CURVATURE = 1.0 / 16.0  # of a stand-in's, in the worst direction
_PLAUSIBLE = 32  # Hessians
_MOST_ROWS = 5_000
_LARGEST_LEVEL = 0.999
_NEGLIGIBLE = -25.0  # the logarithm of a characteristic function
_STAND_IN_ROWS = 400
_STAND_IN_LENGTH = 0.5  # of the longest row
_NODES = 41  # labels that a regression is taken to have around a prediction
_WIDER = 1.0 + 1e-3  # more than inversion and interpolation are off by


@dataclass(frozen=True, eq=False)
class Spread:
    """The law of the error of released coefficients along any direction."""

    sampling: FloatArray  # covariance of the sampling error, and of rounding to the grid, shape (D, D)
    responses: FloatArray  # through which noise enters, one for each plausible Hessian: (Hessians, D, D)
    blocks: IntArray  # block of the noise of each coefficient
    variances: FloatArray  # of the noise of each coefficient
    shapes: FloatArray  # the shape (m + 1) / 2 of each block; infinite if it is normal
    approximate: bool  # whether rows were guessed

    def parts(self, directions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return variances along directions, shape (count, D): of sampling, and of each block of noise."""
        squares = ((directions @ self.responses) ** 2).mean(axis=0) * self.variances
        noise = np.zeros((self.shapes.size, len(directions)))
        np.add.at(noise, self.blocks, squares.T)
        return ((directions @ self.sampling) * directions).sum(axis=1), noise.T

    def half_widths(self, directions: FloatArray, level: float) -> FloatArray:
        """Return half the widths of intervals along directions."""
        return quantiles(*self.parts(directions), self.shapes, level)


def quantiles(sampling: FloatArray, noise: FloatArray, shapes: FloatArray, level: float) -> FloatArray:
    """Return what errors of these variances exceed, in absolute value, with probability ``1 - level``."""
    level = checks.strictly_between("level", level, 0.0, 1.0)
    if level > _LARGEST_LEVEL:
        raise InvalidInput(f"expected level of at most {_LARGEST_LEVEL}, got {level!r}.")
    points, places, kernel = _inversion()
    found = np.empty(len(sampling))
    for first in range(0, len(sampling), 1000):
        chosen = slice(first, first + 1000)
        total = np.maximum(sampling[chosen] + noise[chosen].sum(axis=1), np.finfo(float).tiny)
        logs = -0.5 * (sampling[chosen] / total)[:, None] * points**2
        for k, shape in enumerate(shapes):
            share = (noise[chosen, k] / total)[:, None] * points**2
            logs -= 0.5 * share if math.isinf(shape) else shape * np.log1p(share / (2.0 * shape))
        used = int((logs.max(axis=0) > _NEGLIGIBLE).sum())  # falling from 0
        chances = np.exp(logs[:, :used]) @ kernel[:used]
        ends = np.array([np.interp(0.5 * level, row, places) for row in chances])
        found[chosen] = np.sqrt(total) * ends * _WIDER
    return found


@cache
def _inversion() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return points u, places x, and the sums that turn characteristic functions into P(0 < Z < x)."""
    step = 0.1
    points, places = np.arange(0.0, 150.0, step), np.arange(0.0, 8.0, 0.04)
    kernel = np.where(
        points[:, None] > 0.0,
        np.sin(points[:, None] * places) / np.maximum(points, step)[:, None],
        0.5 * places,
    )
    return points, places, kernel * (step / math.pi)


def spread_of(model: Any, public_rows: Any = None) -> Spread:
    """Return the law of the error of a fitted or published model, in units of released coefficients."""
    check_is_fitted(model)
    norm, loss = norm_and_loss(model)
    w, clip = released(model, norm), None if model.delta is None else gradient_clip(loss)
    approximate, least = False, 1.0
    if public_rows is not None:
        hessians, gradients = moments_of(loss, w, *_read_rows(model, public_rows, norm, loss), clip)
    elif hasattr(model, "hessian_"):
        hessians, gradients = model.hessian_.plausible(_PLAUSIBLE)
    else:
        approximate, least = True, _LEAST_CURVATURE
        hessians, gradients = moments_of(loss, w, stand_in(norm), None, clip)
    values, vectors = np.linalg.eigh(hessians.reshape(-1, w.size, w.size))
    steady, single = _worst_responses(model, loss, np.maximum(values, 0.0), least)
    turned = np.swapaxes(vectors, 1, 2)
    response = (vectors * steady[:, None, :]) @ turned
    sampling = (response @ gradients @ response).mean(axis=0) / model.effective_people_
    if model.delta is None:
        sampling = sampling + np.eye(w.size) * (model.grid_**2 / 12.0)
    noise = (vectors * single[:, None, :]) @ turned
    return Spread(sampling, noise, *_noise_law(model, norm, loss), approximate)


def _worst_responses(
    model: Any, loss: Loss, curvatures: FloatArray, least: float
) -> tuple[FloatArray, FloatArray]:
    """Return how steady errors (times the gradient's size) and noise enter, at worst from ``least`` on."""
    steadies, singles = [], []
    for share in np.unique(np.geomspace(least, 1.0, 9)):
        if model.delta is None:
            steady = single = 1.0 / (share * curvatures + model.l2_)
        else:
            found = responses(model.descent_, loss, share * curvatures.ravel())
            steady, single = (np.abs(part).reshape(curvatures.shape) for part in found)
        steadies.append(steady * math.sqrt(share))
        singles.append(single)
    return np.max(steadies, axis=0), np.max(singles, axis=0)


def _noise_law(model: Any, norm: NoiseNorm, loss: Loss) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return block and variance of each coefficient's noise, and the shape of each block."""
    n, size = norm.n_coefficients, loss.outputs * norm.n_coefficients
    if model.delta is not None:
        unit = gradient_clip(loss) / (CELLS * float(model.description_["weight_total"]))
        variance = (model.descent_.noise_scale * unit) ** 2
        return np.zeros(size, dtype=np.int64), np.full(size, variance), np.array([np.inf])
    # A constant column is part of the Euclidean block, or one more column of its own.
    separate = np.append(norm.mask, np.full(n - norm.mask.size, not norm.is_euclidean))
    blocks = np.where(separate, np.cumsum(separate), 0)
    shapes = np.where(np.arange(int(separate.sum()) + 1) == 0, (norm.joint + 1.0) / 2.0, 1.0)
    variances = 8.0 / model.noise_rate_**2 * shapes[blocks]
    numbers = (blocks + shapes.size * np.arange(loss.outputs)[:, None]).ravel()
    return numbers, np.tile(variances, loss.outputs), np.tile(shapes, loss.outputs)


def norm_and_loss(model: Any) -> tuple[NoiseNorm, Loss]:
    """Return the noise norm, with the constant column, and the loss of a fitted model."""
    if model.delta is None:
        return model.release_.norm, model.release_.loss
    constant = model.intercept_scaling_ if model.fit_intercept else None
    return NoiseNorm.euclidean(model.n_features_in_, constant), loss_from(model.description_["loss"])


def unit_of(model: Any) -> float:
    """Return what released coefficients are multiplied by: shrinkage correction, and a regression's scale."""
    return float(getattr(model, "shrinkage_correction_", 1.0)) * float(getattr(model, "scale", 1.0))


def released(model: Any, norm: NoiseNorm) -> FloatArray:
    """Return the released coefficients, shape (outputs, n), from the usual attributes."""
    w = np.atleast_2d(model.coef_) / unit_of(model)
    if norm.constant is None:
        return w
    start = np.atleast_1d(model.intercept_) - float(getattr(model, "center", 0.0))
    return np.column_stack([w, start / (norm.constant * unit_of(model))])


def _read_rows(model: Any, given: Any, norm: NoiseNorm, loss: Loss) -> tuple[FloatArray, FloatArray | None]:
    """Return public rows with their constant, at most 5,000, evenly spaced, and labels if there are any."""
    x, y = given if isinstance(given, tuple) else (given, None)
    rows = rows_of(model, x, norm)
    least = 2 * norm.n_coefficients
    if len(rows) < least:
        raise InvalidInput(
            f"expected at least {least} public rows, two for each coefficient, got {len(rows)}."
        )
    every = slice(None, None, -(-len(rows) // _MOST_ROWS))
    if y is None:
        if needs_labels(loss):
            raise InvalidInput(
                "expected public_rows to be a pair of rows and labels: how sure support vectors are depends "
                "on the labels."
            )
        return rows[every], None
    y = np.asarray(y)
    if y.shape != (len(rows),):
        raise InvalidInput(f"expected a label for each of {len(rows)} public rows, got shape {y.shape}.")
    if hasattr(model, "classes_"):
        return rows[every], numbers_of(model.classes_, y)[every]
    return rows[every], (checks.finite_vector("labels", y)[every] - model.center) / model.scale


def rows_of(model: Any, X: Any, norm: NoiseNorm) -> FloatArray:
    """Return dense rows as training takes them: shortened if the model does that, with their constant."""
    x = validated(model, X, accept_sparse="csr", dtype=np.float64, reset=False)
    x = np.asarray(x.toarray() if hasattr(x, "toarray") else x)
    if model.clip and model.delta is None:
        x = x / np.maximum(norm.lengths(x), 1.0)[:, None]
    return with_constant(x, norm)


def moments_of(
    loss: Loss, w: FloatArray, rows: FloatArray, labels: FloatArray | None, clip: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return mean Hessian and second moment of (clipped) gradients; without labels, of expected ones."""
    scores = rows @ w.T
    values, chances = expected_labels(loss, scores) if labels is None else (labels[:, None], 1.0)
    kinds = values.shape[1]
    outputs = np.repeat(scores, kinds, axis=0)
    first = loss.derivatives(outputs, values.ravel())
    diagonal, vector = loss.curvatures(outputs, values.ravel())
    steep = curved = np.broadcast_to(chances, values.shape).ravel() / len(rows)
    if clip is not None:
        lengths = np.repeat(np.linalg.norm(rows, axis=1), kinds) * np.linalg.norm(first, axis=1)
        first = first * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))[:, None]
        curved = curved * (lengths <= clip)
    hessian, gradients = np.zeros((*w.shape, *w.shape)), np.zeros((*w.shape, *w.shape))
    for k in range(loss.outputs):
        for m in range(loss.outputs):
            bends = curved * (diagonal[:, k] * float(k == m) - vector[:, k] * vector[:, m])
            pulls = steep * first[:, k] * first[:, m]
            for found, factors in ((hessian, bends), (gradients, pulls)):
                found[k, :, m, :] = (rows * factors.reshape(-1, kinds).sum(axis=1)[:, None]).T @ rows
    return hessian.reshape(w.size, w.size), gradients.reshape(w.size, w.size)


def expected_labels(loss: Loss, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return labels that records with these scores may have, and their chances, each (records, labels)."""
    if not isinstance(loss, SigmoidLoss):
        chances = np.asarray(softmax(scores, axis=1))
        return np.broadcast_to(np.arange(chances.shape[1], dtype=float), chances.shape), chances
    if loss.labels == (0.0, 1.0):  # for a support vector machine a margin of 1 counts as 88%
        sure = np.asarray(expit((1.0 if loss.span is not None else 2.0) * scores[:, 0]))
        return np.tile([0.0, 1.0], (len(scores), 1)), np.column_stack([1.0 - sure, sure])
    # Standard deviation 1, in scales: more than the spread of errors, so that intervals become wider.
    nodes = ndtri((np.arange(_NODES) + 0.5) / _NODES) - ndtri(loss.target[0])
    return scores + nodes[None, :], np.full((len(scores), _NODES), 1.0 / _NODES)


def needs_labels(loss: Loss) -> bool:
    """Tell whether what a model expects of labels is too rough to do without them: support vectors."""
    return isinstance(loss, SigmoidLoss) and loss.span is None and loss.labels == (0.0, 1.0)


def stand_in(norm: NoiseNorm) -> FloatArray:
    """Return rows half as long as the longest, in all directions, with their constant: always the same."""
    draws = np.random.default_rng(0).normal(size=(_STAND_IN_ROWS, len(norm.separate)))
    lengths = np.linalg.norm(draws, axis=1, keepdims=True)
    return with_constant(draws / lengths * (_STAND_IN_LENGTH * norm.euclidean_bound), norm)


def with_constant(rows: FloatArray, norm: NoiseNorm) -> FloatArray:
    """Return rows with the constant column, if there is one."""
    return rows if norm.constant is None else np.column_stack([rows, np.full(len(rows), norm.constant)])
