r"""Exact log densities of a release, and a search for the largest ratio between neighbours.

Nothing here uses the accounting. The output W has the density ``h(b(W)) det H(W)``; differences of norms are
written as ``(b - b').(b + b') / (|b| + |b'|)`` and determinants as sums of terms that are not negative, so
that no digits cancel however long W is. What the search finds is attained: a value above somebody's budget
is a proof that the budget is exceeded.

Rows of length at most :math:`R_1` in two dimensions are rows of length 1 with the penalty
:math:`\Lambda / R_1^2` and the noise rate :math:`\eta R_1`, in units of :math:`W R_1`.
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

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.audit.claim import Claim
from dpmarket.audit.findings import PrivacyFindings, audited_people
from dpmarket.errors import InvalidInput
from dpmarket.privacy.loss import SigmoidLoss
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release

_ROUNDING = 1e-9
_minimize: Any = minimize  # its type information does not cover the options of Nelder-Mead


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of shape (rows, n) with labels, and one weight for all rows or one for each."""

    rows: FloatArray
    labels: FloatArray
    weight: FloatArray | float


def log_density(release: Release, noise_rate: float, w: FloatArray, data: Group) -> FloatArray:
    """Return the log density at outputs of shape (..., K, n), up to a constant."""
    needed = _gradient(release, w, data) + release.l2 * w
    separate = np.abs(needed[..., _mask(release, w)]).sum(axis=(-1, -2))
    joint = np.linalg.norm(needed[..., ~_mask(release, w)], axis=-1).sum(axis=-1)
    return np.asarray(_log_det(release, w, data) - 0.5 * noise_rate * (separate + joint))


def log_ratio(
    release: Release, noise_rate: float, w: FloatArray, own: Group, replaced: Group, others: Group
) -> FloatArray:
    """Return ``log g(W | own, others) - log g(W | replaced, others)`` at outputs of shape (..., K, n)."""
    fixed = release.l2 * w + _gradient(release, w, others)
    first, second = _gradient(release, w, own), _gradient(release, w, replaced)
    longer = _norm_difference(first + fixed, second + fixed, first - second, _mask(release, w))
    curved = _log_det(release, w, own, others) - _log_det(release, w, replaced, others)
    return np.asarray(curved - 0.5 * noise_rate * longer)


def _mask(release: Release, w: FloatArray) -> Any:
    """Return which coefficients have noise of their own, the constant's included."""
    norm = release.norm
    constant = np.full(w.shape[-1] - norm.mask.size, not norm.is_euclidean)
    return np.concatenate([norm.mask, constant])


def _scores(w: FloatArray, group: Group) -> tuple[tuple[int, ...], FloatArray, FloatArray]:
    """Return the shape (..., rows, K) of the group's scores, the scores row by row, and their labels."""
    scores = np.einsum("rn,...kn->...rk", group.rows, w)
    labels = np.broadcast_to(group.labels, scores.shape[:-1]).ravel()
    return scores.shape, scores.reshape(-1, scores.shape[-1]), labels


def _gradient(release: Release, w: FloatArray, group: Group) -> FloatArray:
    shape, scores, labels = _scores(w, group)
    derivatives = release.loss.derivatives(scores, labels).reshape(shape)
    weighted = derivatives * np.reshape(group.weight, (-1, 1))
    return np.asarray(np.einsum("...rk,rn->...kn", weighted, group.rows))


def _norm_difference(a: FloatArray, b: FloatArray, difference: FloatArray, mask: Any) -> FloatArray:
    """Return the sum over outputs of N(a) - N(b)."""
    product, joint = difference * (a + b), ~mask
    lengths = np.linalg.norm(a[..., joint], axis=-1) + np.linalg.norm(b[..., joint], axis=-1)
    sizes = np.abs(a[..., mask]) + np.abs(b[..., mask])
    tiny = 1e-300
    by_length = product[..., joint].sum(axis=-1) / np.maximum(lengths, tiny)
    by_size = (product[..., mask] / np.maximum(sizes, tiny)).sum(axis=-1)
    return np.asarray((by_length + by_size).sum(axis=-1))


def _log_det(release: Release, w: FloatArray, *groups: Group) -> FloatArray:
    """Return the log determinant of the Hessian divided by l2, plus terms that do not depend on the data."""
    rows, diagonals, vectors = [], [], []
    for group in groups:
        shape, scores, labels = _scores(w, group)
        d, v = release.loss.curvatures(scores, labels)
        scale = np.reshape(np.broadcast_to(group.weight, len(group.rows)), (-1, 1)) / release.l2
        rows.append(group.rows)
        diagonals.append(d.reshape(shape) * scale)
        vectors.append(v.reshape(shape) * np.sqrt(scale))
    x = np.concatenate(rows)
    d, v = np.concatenate(diagonals, axis=-2), np.concatenate(vectors, axis=-2)
    k, n = w.shape[-2:]
    if k == 1 and n <= 2:
        scaled = np.sqrt(d) * x
        total = (scaled**2).sum(axis=(-1, -2))
        if n == 2:
            cross = scaled[..., :, None, 0] * scaled[..., None, :, 1]
            total = total + 0.5 * ((cross - np.swapaxes(cross, -1, -2)) ** 2).sum(axis=(-1, -2))
        return np.asarray(np.log1p(total))
    bends = d[..., None] * np.eye(k) - v[..., :, None] * v[..., None, :] if k > 1 else d[..., None]
    hessian = np.einsum("...rkl,rm,rn->...kmln", bends, x, x).reshape(*w.shape[:-2], k * n, k * n)
    return np.asarray(np.log1p(np.maximum(np.linalg.eigvalsh(hessian), 0.0)).sum(axis=-1))


def audit_density(claim: Claim, epsilons: object, *, people: object = None) -> PrivacyFindings:
    """Search, for each audited person, for neighbouring data on which the exact output gives away most.

    Parameters
    ----------
    claim
        The weights and the public constants of a training without delta whose records are private.
    epsilons, people
        The privacy budget of each person, shape (people,), at least two people; and the positions of the
        people to audit. None: up to three with the smallest, middle and largest budget.

    Returns
    -------
    PrivacyFindings
        A budget is exceeded if the ratio is above it by more than a billionth, the rounding of the density.

    Examples
    --------
    >>> from dpmarket.privacy import logistic_loss
    >>> release = Release(logistic_loss(), NoiseNorm.euclidean(2), l2=0.1)
    >>> claim = Claim(release, *release.weights([0.3, 1.0, 2.0]))
    >>> findings = audit_density(claim, [0.3, 1.0, 2.0], people=[1])
    >>> findings.passed, bool(0.8 < findings.found[0] <= 1.0)
    (True, True)
    """
    if not isinstance(claim, Claim) or not has_density(claim):
        raise InvalidInput("expected the Claim of a training without delta whose records are private.")
    budgets = checks.non_negative_vector("epsilons", epsilons)
    checks.same_length("epsilons", budgets, "claim.loss_weights", claim.loss_weights)
    chosen = audited_people(budgets, people)
    found = np.array([_largest_ratio(claim, person) for person in chosen.tolist()])
    theirs = budgets[chosen]
    broken = int((found > theirs + _ROUNDING * (1.0 + theirs)).sum())
    return PrivacyFindings("density", chosen, theirs, found, broken, 0.0, {"noise_rate": claim.noise_rate})


def has_density(claim: Claim) -> bool:
    """Whether a ratio of densities bounds what this claim charges for."""
    return isinstance(claim.release, Release) and claim.release.private == "records"


def _largest_ratio(claim: Claim, person: int) -> float:
    release = claim.release
    assert isinstance(release, Release)
    own = float(claim.loss_weights[person])
    others = float(claim.loss_weights.sum()) - own
    if not own > 0.0:
        return 0.0
    norm, loss = release.norm, release.loss
    length = norm.row_bound
    plane = NoiseNorm.euclidean(2)
    if not norm.is_euclidean:
        plane = NoiseNorm([True, True], min(1.0, norm.row_bound_2 / length))
    small = Release(loss, plane, release.l2 / length**2)
    rate = claim.noise_rate * length
    if isinstance(loss, SigmoidLoss):
        low, high = loss.labels
        labels = (low, high) if high - low <= 1.0 else (0.0,)
        return worst_of_one_output(small, rate, own, others, labels)
    return worst_of_softmax(small, rate, own, others)


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
    release: Release, noise_rate: float, weight: float, others_weight: float, label_grid: Sequence[float],
    evaluations: int = 250,
) -> float:  # fmt: skip
    """Return the largest ratio found in two dimensions for one output, with own rows almost across it."""
    loss, r = release.loss, release.rows_per_person
    assert isinstance(loss, SigmoidLoss)

    def ratio(point: FloatArray, labels: Sequence[float], angle: float) -> float:
        length = math.exp(np.clip(point[0], -5.0, 25.0))
        direction = np.array([math.cos(angle), math.sin(angle)])
        across = np.array([-direction[1], direction[0]])
        rows = []
        for label, score, side in zip(labels, point[1::2], point[2::2], strict=True):
            z = (score - (loss.shift[0] + loss.shift[1] * label)) / loss.slope
            rows.append(longest(math.copysign(1.0, side) * across, release.norm, z / length * direction))
        own, replaced = (
            Group(np.repeat([row], r, axis=0), np.full(r, label), weight / r)
            for row, label in zip(rows[:2], labels[:2], strict=True)
        )
        others = Group(rows[2][None, :], np.full(1, labels[2]), others_weight)
        return float(log_ratio(release, noise_rate, length * direction[None, :], own, replaced, others))

    far, near = 40.0, (-3.0, -1.0, 0.0, 0.3, 1.0, 3.0, 12.0)
    lengths = np.log(np.geomspace(1.0, 1e6, 13))
    starts = [
        np.array([length, own, 1.0, sign * far, -1.0, sign * far, -1.0])
        for length, own, sign in itertools.product(lengths, near, (1.0, -1.0))
    ]
    angles = (0.0,) if release.norm.euclidean_bound == 1.0 else (0.0, -math.pi / 4.0)
    return max(
        _climbed(lambda p, y=(own, label, label), a=angle: ratio(p, y, a), starts, evaluations, 1)
        for own, label, angle in itertools.product(label_grid, label_grid, angles)
    )


def worst_of_softmax(
    release: Release, noise_rate: float, weight: float, others_weight: float, evaluations: int = 300
) -> float:
    """Return the largest ratio found with two coefficients per class, with wrong classes equally likely."""
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
        return float(log_ratio(release, noise_rate, w, own, replaced, rest))

    starts = [
        np.array([math.log(length), own, shift, math.log(turn / length)])
        for length, own, shift, turn in itertools.product(
            np.geomspace(1.0, 1e5, 9), (-2.0, 0.0, 2.0, 5.0), (0.0, 1.1), (4.0 * classes, 20.0 * classes)
        )
    ]
    return _climbed(ratio, starts, evaluations, 2)


def _climbed(value: Any, starts: Sequence[FloatArray], evaluations: int, climbs: int) -> float:
    """Return the largest value found from the best starts (Nelder and Mead)."""
    values = [value(start) for start in starts]
    options = {"maxfev": evaluations, "adaptive": True}
    found = [
        -float(_minimize(lambda p: -value(p), starts[k], method="Nelder-Mead", options=options).fun)
        for k in np.argsort(values)[-climbs:]
    ]
    return float(max(*values, *found))
