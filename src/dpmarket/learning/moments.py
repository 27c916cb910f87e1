"""Hessian and second moment of gradients over public rows, and a stand-in where there are none.

A loss's label moves its curvature or only its target. Where rows have no labels, :func:`expected_labels` says
which a released model expects; for classifiers with probabilities that is all that is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri, softmax

from dpmarket.arrays import FloatArray
from dpmarket.privacy.loss import Loss, SigmoidLoss
from dpmarket.privacy.noise_norm import NoiseNorm

_STAND_IN_ROWS = 400
_STAND_IN_LENGTH = 0.5  # of the longest row
_NODES = 41  # labels that a regression is taken to have around a prediction


class Moments(NamedTuple):
    """The Hessian and the second moment of one person's gradient, each of shape (D, D)."""

    hessian: FloatArray
    gradients: FloatArray


def moments_of(
    loss: Loss, w: FloatArray, rows: FloatArray, labels: FloatArray | None, clip: float | None = None
) -> Moments:
    """Return the mean moments over rows, with their constant, at coefficients w of shape (outputs, n).

    Parameters
    ----------
    loss, w, rows
        The loss, the coefficients, and rows of shape (rows, n).
    labels
        As the loss takes them; None means :func:`expected_labels`.
    clip
        Gradients longer than this are shortened to it, and have no curvature.
    """
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
    return Moments(hessian.reshape(w.size, w.size), gradients.reshape(w.size, w.size))


def expected_labels(loss: Loss, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return labels that records with these scores may have, and their chances, each (records, labels).

    A classifier's probabilities; for a support vector machine a margin of 1 counts as a chance of 88%. Labels
    of a regression are normal with standard deviation 1, in units of its ``scale``, around a center at which
    the score is right. A public guess of the labels' spread is more than that of their errors, so that
    intervals become wider by it, not narrower.
    """
    if not isinstance(loss, SigmoidLoss):
        chances = np.asarray(softmax(scores, axis=1))
        return np.broadcast_to(np.arange(chances.shape[1], dtype=float), chances.shape), chances
    if loss.labels == (0.0, 1.0):
        sure = np.asarray(expit((1.0 if loss.span is not None else 2.0) * scores[:, 0]))
        return np.tile([0.0, 1.0], (len(scores), 1)), np.column_stack([1.0 - sure, sure])
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
