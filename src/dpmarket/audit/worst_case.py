"""Exact density ratios of a release between neighbours, and a search for the largest ratio.

Nothing here uses the accounting. The output W has the density ``h(b(W)) det H(W)``; differences of norms are
written as ``(b - b').(b + b') / (|b| + |b'|)`` and determinants as sums of terms that are not negative, so
that no digits cancel however long W is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from dpmarket.arrays import FloatArray
from dpmarket.privacy.loss import SigmoidLoss
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release

_minimize: Any = minimize  # its type information does not cover the options of Nelder-Mead


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of shape (rows, n) with labels, each of the same weight."""

    rows: FloatArray
    labels: FloatArray
    weight: float


def log_ratio(
    release: Release, noise_rate: float, w: FloatArray, own: Group, replaced: Group, others: Group
) -> float:
    """Return ``log g(W | own, others) - log g(W | replaced, others)``."""
    fixed = release.l2 * w + _gradient(release, w, others)
    first, second = _gradient(release, w, own), _gradient(release, w, replaced)
    longer = _norm_difference(first + fixed, second + fixed, first - second, release.norm)
    return (
        -0.5 * noise_rate * longer
        + _log_det(release, w, own, others)
        - _log_det(release, w, replaced, others)
    )


def _gradient(release: Release, w: FloatArray, group: Group) -> FloatArray:
    derivatives = release.loss.derivatives(group.rows @ w.T, group.labels)
    return np.asarray(group.weight * derivatives.T @ group.rows)


def _norm_difference(a: FloatArray, b: FloatArray, difference: FloatArray, norm: NoiseNorm) -> float:
    """Return the sum over outputs of N(a) - N(b)."""
    mask = norm.mask
    total = 0.0
    for x, y, d in zip(a, b, difference, strict=True):
        joint = ~mask
        length = np.linalg.norm(x[joint]) + np.linalg.norm(y[joint])
        total += d[joint] @ (x[joint] + y[joint]) / length if length > 0.0 else 0.0
        for j in np.flatnonzero(mask):
            size = abs(x[j]) + abs(y[j])
            total += d[j] * (x[j] + y[j]) / size if size > 0.0 else 0.0
    return float(total)


def _log_det(release: Release, w: FloatArray, *groups: Group) -> float:
    """Return the log determinant of the Hessian divided by l2, plus terms that do not depend on the data."""
    if release.loss.outputs > 1:
        hessian = np.zeros((w.size, w.size))
        for group in groups:
            diagonal, vector = release.loss.curvatures(group.rows @ w.T, group.labels)
            for x, d, v in zip(group.rows, diagonal, vector, strict=True):
                hessian += group.weight * np.kron(np.diag(d) - np.outer(v, v), np.outer(x, x))
        return float(np.log1p(np.maximum(np.linalg.eigvalsh(hessian), 0.0) / release.l2).sum())
    rows, sizes = [], []
    for group in groups:
        curvatures, _ = release.loss.curvatures(group.rows @ w.T, group.labels)
        rows.append(group.rows)
        sizes.append(group.weight * curvatures[:, 0] / release.l2)
    x, d = np.concatenate(rows), np.concatenate(sizes)
    scaled = np.sqrt(d)[:, None] * x
    total = (scaled**2).sum()
    if x.shape[1] == 2:
        cross = scaled[:, None, 0] * scaled[None, :, 1] - scaled[:, None, 1] * scaled[None, :, 0]
        total += 0.5 * (cross**2).sum()
    return math.log1p(total)


def longest(direction: FloatArray, norm: NoiseNorm, along: FloatArray | float = 0.0) -> FloatArray:
    """Return ``along`` plus as much of a direction across it as a row can have."""
    mask, room = norm.mask, 1.0 - 1e-14

    def size(x: FloatArray) -> float:
        return float(np.linalg.norm(x[~mask]) + np.abs(x[mask]).sum())

    along = np.broadcast_to(np.asarray(along, dtype=float), direction.shape)
    length = max(size(along), float(np.linalg.norm(along)) / norm.euclidean_bound)
    if length >= room:
        return np.asarray(along / length * room)
    by_length = math.sqrt((norm.euclidean_bound * room) ** 2 - along @ along) / np.linalg.norm(direction)
    by_norm = (room - size(along)) / size(direction) if mask.any() else by_length
    return np.asarray(along + min(by_length, by_norm) * direction)


def worst_of_one_output(
    release: Release,
    noise_rate: float,
    weight: float,
    others_weight: float,
    label_grid: Sequence[float],
    evaluations: int = 250,
) -> float:
    """Return the largest ratio found in two dimensions, for a loss of one output.

    A long output leaves room for rows that are almost orthogonal to it and have any output one likes. The
    person's rows point one way, the replaced and everybody else's the other way.
    """
    loss, r = release.loss, release.rows_per_person
    assert isinstance(loss, SigmoidLoss)

    def unpacked(
        point: FloatArray, labels: Sequence[float], angle: float
    ) -> tuple[FloatArray, list[FloatArray]]:
        length = math.exp(np.clip(point[0], -5.0, 25.0))
        direction = np.array([math.cos(angle), math.sin(angle)])
        across = np.array([-direction[1], direction[0]])
        found = []
        for k, (u, side) in enumerate(zip(point[1::2], point[2::2], strict=True)):
            z = (u - (loss.shift[0] + loss.shift[1] * labels[min(k, 2)])) / loss.slope
            row = longest(math.copysign(1.0, side) * across, release.norm, z / length * direction)
            found.append(row)
        return length * direction[None, :], found

    def ratio(point: FloatArray, labels: Sequence[float], angle: float) -> float:
        w, rows = unpacked(point, labels, angle)
        own, replaced = (
            Group(np.repeat([row], r, axis=0), np.full(r, labels[k]), weight / r)
            for k, row in enumerate(rows[:2])
        )
        others = Group(np.array(rows[2:]), np.full(1, labels[2]), others_weight)
        return log_ratio(release, noise_rate, w, own, replaced, others)

    best = -math.inf
    far, near = 40.0, (-3.0, -1.0, 0.0, 0.3, 1.0, 3.0, 12.0)
    lengths = np.log(np.geomspace(1.0, 1e6, 13))
    for own_label, label in itertools.product(label_grid, repeat=2):
        labels = (own_label, label, label)
        for angle in (0.0,) if release.norm.euclidean_bound == 1.0 else (0.0, -math.pi / 4.0):
            starts = [
                np.array([length, own, 1.0, sign * far, -1.0, sign * far, -1.0])
                for length in lengths
                for own in near
                for sign in (1.0, -1.0)
            ]
            values = [ratio(start, labels, angle) for start in starts]
            top = starts[int(np.argmax(values))]
            found = _minimize(
                lambda p, labels=labels, angle=angle: -ratio(p, labels, angle),
                top,
                method="Nelder-Mead",
                options={"maxfev": evaluations, "adaptive": True},
            )
            best = max(best, max(values), -float(found.fun))
    return best


def worst_of_softmax(
    release: Release, noise_rate: float, weight: float, others_weight: float, evaluations: int = 300
) -> float:
    """Return the largest ratio found with two coefficients per class; all labels are class 0.

    The person's row is the second axis, where the wrong classes are equally likely; everybody else's row, and
    the one that replaces the person's, points the other way, turned so that one wrong class is likely.
    """
    classes, r = release.loss.outputs, release.rows_per_person

    def ratio(point: FloatArray) -> float:
        length, score, shift, turn = (float(value) for value in point)
        s = expit(np.clip(score, -30.0, 30.0))
        p = np.full(classes, s / (classes - 1.0))
        p[0] = 1.0 - s
        mine = longest(np.array([0.0, 1.0]), release.norm)
        common = shift * weight * p[1] * mine[1] / release.l2
        first = math.exp(min(length, 20.0)) * (np.arange(classes) / (classes - 1.0) - 0.5)
        w = np.stack([first, np.log(p) / mine[1] - common], axis=1)
        angle = min(math.exp(min(turn, 1.0)), math.pi / 2.0)
        other = longest(np.array([math.sin(angle), -math.cos(angle)]), release.norm)
        zeros = np.zeros(r)
        own, replaced = (Group(np.repeat([row], r, axis=0), zeros, weight / r) for row in (mine, other))
        rest = Group(other[None, :], np.zeros(1), others_weight)
        return log_ratio(release, noise_rate, w, own, replaced, rest)

    starts = [
        np.array([math.log(length), own, shift, math.log(turn / length)])
        for length in np.geomspace(1.0, 1e5, 9)
        for own in (-2.0, 0.0, 2.0, 5.0)
        for shift in (0.0, 1.1)
        for turn in (4.0 * classes, 20.0 * classes)
    ]
    values = [ratio(start) for start in starts]
    best = max(values)
    for k in np.argsort(values)[-2:]:
        found = _minimize(
            lambda p: -ratio(p), starts[k], method="Nelder-Mead", options={"maxfev": evaluations}
        )
        best = max(best, -float(found.fun))
    return best


def log_density(
    outputs: FloatArray, rows: FloatArray, weights: FloatArray, noise_rate: float, l2: float
) -> FloatArray:
    """Return the log density of one or two coefficients of a logistic regression, but for a constant.

    ``rows`` are multiplied by their signs: shape (rows, n); ``outputs`` has shape (samples, n). The noise is
    Euclidean.
    """
    margins = outputs @ rows.T
    low, high = expit(-margins), expit(margins)
    needed = (weights * low) @ rows - l2 * outputs
    scaled = np.sqrt(weights * low * high)[..., None] * rows / math.sqrt(l2)
    relative = (scaled**2).sum(axis=(1, 2))
    if rows.shape[1] == 2:
        x, y = scaled[..., 0], scaled[..., 1]
        cross = x[:, :, None] * y[:, None, :] - x[:, None, :] * y[:, :, None]
        relative = relative + 0.5 * (cross**2).sum(axis=(1, 2))
    return np.asarray(np.log1p(relative) - 0.5 * noise_rate * np.sqrt((needed**2).sum(axis=1)))
