"""Exact density ratios of a release between neighbours, and a search for the largest one.

Nothing here uses the accounting. The output W has the density ``h(b(W)) det H(W)``; differences of norms are
written as ``(b - b').(b + b') / (|b| + |b'|)`` and determinants as sums of terms that are not negative, so
that no digits cancel however long W is.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from dpmarket.privacy.loss import SigmoidLoss


@dataclass(frozen=True)
class Group:
    """Rows of shape (rows, n) with labels, each of the same weight."""

    rows: np.ndarray
    labels: np.ndarray
    weight: float


def log_ratio(release, noise_rate, w, own, replaced, others):
    """Return ``log g(W | own, others) - log g(W | replaced, others)``."""
    fixed = release.l2 * w + _gradient(release, w, others)
    first, second = _gradient(release, w, own), _gradient(release, w, replaced)
    longer = _norm_difference(first + fixed, second + fixed, first - second, release.norm)
    return (
        -0.5 * noise_rate * longer
        + _log_det(release, w, own, others)
        - _log_det(release, w, replaced, others)
    )


def _gradient(release, w, group):
    derivatives = release.loss.derivatives(group.rows @ w.T, group.labels)
    return group.weight * derivatives.T @ group.rows


def _norm_difference(a, b, difference, norm):
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
    return total


def _log_det(release, w, *groups):
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


def longest(direction, norm, along=0.0):
    """Return ``along`` plus as much of a direction across it as a row can have."""
    mask, room = norm.mask, 1.0 - 1e-14

    def size(x):
        return np.linalg.norm(x[~mask]) + np.abs(x[mask]).sum()

    along = np.broadcast_to(np.asarray(along, dtype=float), direction.shape)
    length = max(size(along), np.linalg.norm(along) / norm.euclidean_bound)
    if length >= room:
        return along / length * room
    by_length = math.sqrt((norm.euclidean_bound * room) ** 2 - along @ along) / np.linalg.norm(direction)
    by_norm = (room - size(along)) / size(direction) if mask.any() else by_length
    return along + min(by_length, by_norm) * direction


def worst_of_one_output(release, noise_rate, weight, label_grid, evaluations=250):
    """Search in two dimensions for the largest ratio, for a loss of one output.

    A long output leaves room for rows that are almost orthogonal to it and have any output one likes. The
    person's rows point one way, the replaced and everybody else's the other way.
    """
    loss, r = release.loss, release.rows_per_person
    assert isinstance(loss, SigmoidLoss)

    def unpacked(point, labels, angle):
        length = math.exp(np.clip(point[0], -5.0, 25.0))
        direction = np.array([math.cos(angle), math.sin(angle)])
        across = np.array([-direction[1], direction[0]])
        found = []
        for k, (u, side) in enumerate(zip(point[1::2], point[2::2], strict=True)):
            z = (u - (loss.shift[0] + loss.shift[1] * labels[min(k, 2)])) / loss.slope
            row = longest(math.copysign(1.0, side) * across, release.norm, z / length * direction)
            found.append(row)
        return length * direction[None, :], found

    def ratio(point, labels, angle):
        w, rows = unpacked(point, labels, angle)
        groups = [
            Group(np.repeat([row], r, axis=0), np.full(r, labels[k]), weight / r)
            for k, row in enumerate(rows[:2])
        ]
        others = Group(np.array(rows[2:]), np.full(1, labels[2]), 1.0 - weight)
        return log_ratio(release, noise_rate, w, *groups, others)

    best = -np.inf
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
            found = minimize(
                lambda p, labels=labels, angle=angle: -ratio(p, labels, angle),
                top,
                method="Nelder-Mead",
                options={"maxfev": evaluations, "adaptive": True},
            )
            best = max(best, max(values), -float(found.fun))
    return best


def worst_of_softmax(release, noise_rate, weight, evaluations=300):
    """Search in a family with two coefficients per class for the largest ratio; all labels are class 0.

    The person's row is the second axis, where the wrong classes are equally likely; everybody else's row, and
    the one that replaces the person's, points the other way, turned so that one wrong class is likely.
    """
    classes, r = release.loss.outputs, release.rows_per_person

    def ratio(point):
        length, own, shift, turn = (float(value) for value in point)
        s = expit(np.clip(own, -30.0, 30.0))
        p = np.full(classes, s / (classes - 1.0))
        p[0] = 1.0 - s
        mine = longest(np.array([0.0, 1.0]), release.norm)
        common = shift * weight * p[1] * mine[1] / release.l2
        first = math.exp(min(length, 20.0)) * (np.arange(classes) / (classes - 1.0) - 0.5)
        w = np.stack([first, np.log(p) / mine[1] - common], axis=1)
        angle = min(math.exp(min(turn, 1.0)), math.pi / 2.0)
        other = longest(np.array([math.sin(angle), -math.cos(angle)]), release.norm)
        zeros = np.zeros(r)
        groups = [Group(np.repeat([row], r, axis=0), zeros, weight / r) for row in (mine, other)]
        return log_ratio(release, noise_rate, w, *groups, Group(other[None, :], np.zeros(1), 1.0 - weight))

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
        found = minimize(
            lambda p: -ratio(p), starts[k], method="Nelder-Mead", options={"maxfev": evaluations}
        )
        best = max(best, -float(found.fun))
    return best
