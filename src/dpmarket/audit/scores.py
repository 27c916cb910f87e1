"""Turn models trained on two data sets into scores: high for what the first makes likelier.

Two kinds. The likelihood ratio of the mechanism as it should be: the best score there is if the learner is
what it says, and a good one if it uses too little noise. And quadratic functions of the released
coefficients, fitted to the samples, for learners of whom nothing is known: a projection, the distance from a
plane, a discriminant.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from dpmarket.arrays import FloatArray
from dpmarket.audit.books import Books
from dpmarket.audit.neighbours import N_FEATURES, Neighbours, l2_of
from dpmarket.audit.worst_case import log_density

Score = Callable[[FloatArray], FloatArray]
"""From outputs, shape (samples, coefficients), to one number for each."""

_CLIP = 8.0
_STEPS = 30


def fitted_scores(pair: Neighbours, first: FloatArray, second: FloatArray) -> list[Score]:
    """Return quadratic scores to try for a pair, fitted to outputs under its two data sets."""
    pooled = np.concatenate([first, second])
    centre = np.median(pooled, axis=0)
    spread = np.maximum(np.median(np.abs(pooled - centre), axis=0), 1e-12 * (1.0 + np.abs(centre)))
    a, b = _scaled(first, centre, spread), _scaled(second, centre, spread)

    def quadratic(slope: FloatArray, bend: FloatArray) -> Score:
        return lambda z: _values(_scaled(z, centre, spread), slope, bend)

    def linear(slope: FloatArray) -> Score:
        # Not cut off: what lies far out may be what gives a side away.
        return lambda z: np.asarray((z - centre) / spread @ slope)

    candidates = _candidates(a, b, _directions(pair, first.shape[1]))
    straight = [linear(slope) for slope, bend in candidates if not bend.any()]
    return [*(quadratic(*parts) for parts in candidates), *straight]


def likelihood_ratio(pair: Neighbours, outputs: FloatArray, books: Books) -> Score | None:
    """Return the log likelihood ratio of a learner with these books, if outputs are two coefficients.

    What comes after them, such as a constant that is not used, must be 0.
    """
    if outputs.shape[1] < N_FEATURES or np.any(outputs[:, N_FEATURES:]):
        return None
    return lambda z: _log_ratio(z, pair, books)


def _log_ratio(outputs: FloatArray, pair: Neighbours, books: Books) -> FloatArray:
    """Return the exact log density ratio of outputs without a constant, were the learner as it should be."""
    w = outputs[:, :N_FEATURES]
    densities = [
        log_density(
            w, rows * (2.0 * labels - 1.0)[:, None], books.loss_weights, books.noise_rate, l2_of(books)
        )
        for rows, labels in (
            (pair.features, pair.labels),
            (pair.replaced_features, pair.replaced_labels),
        )
    ]
    return densities[0] - densities[1]


def _directions(pair: Neighbours, n: int) -> list[FloatArray]:
    """Return the changed record before and after, and their difference, as directions of coefficients."""
    own = pair.features[pair.person] * (2.0 * pair.labels[pair.person] - 1.0)
    other = pair.replaced_features[pair.person] * (2.0 * pair.replaced_labels[pair.person] - 1.0)
    found = []
    for direction in (own, other, own - other):
        full = np.zeros(n)
        full[: min(n, N_FEATURES)] = direction[: min(n, N_FEATURES)]
        found.append(full)
    return found


def _candidates(
    a: FloatArray, b: FloatArray, directions: list[FloatArray]
) -> list[tuple[FloatArray, FloatArray]]:
    n = a.shape[1]
    found = []
    for direction in [np.median(a, axis=0) - np.median(b, axis=0), *directions, *np.eye(n)]:
        length = float(np.linalg.norm(direction))
        if direction.shape == (n,) and length > 0.0:
            unit = direction / length
            found.append((unit, np.zeros((n, n))))
            for sample in (a, b):
                # The distance from where a sample is densest: -(unit . v - middle)^2 but for a constant.
                middle = _densest(sample @ unit)
                found.append((2.0 * middle * unit, -np.outer(unit, unit)))
    return [*found, _discriminant(a, b)]


def _densest(values: FloatArray) -> float:
    """Return the middle of the shortest interval that holds a thirtieth of the values."""
    ranked = np.sort(values)
    reach = max(values.size // 30, 3)
    lengths = ranked[reach:] - ranked[:-reach]
    k = int(lengths.argmin())
    return 0.5 * float(ranked[k] + ranked[k + reach])


def _discriminant(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Fit a quadratic logistic discriminant by Newton's method with a ridge."""
    n = a.shape[1]
    rows, columns = np.triu_indices(n)
    points = np.concatenate([a, b])
    features = np.column_stack([points, points[:, rows] * points[:, columns], np.ones(len(points))])
    scale = np.maximum(features.std(axis=0), 1e-9)
    scale[-1] = 1.0
    features = features / scale
    sides = np.concatenate([np.ones(len(a)), np.zeros(len(b))])
    w = np.zeros(features.shape[1])
    for _ in range(_STEPS):
        p = expit(features @ w)
        gradient = features.T @ (p - sides) + w
        hessian = (features * (p * (1.0 - p))[:, None]).T @ features + np.eye(w.size)
        step = np.linalg.solve(hessian, gradient)
        w = w - step * min(1.0, 5.0 / float(np.linalg.norm(step) + 1e-300))
        if float(np.abs(step).max()) < 1e-8:
            break
    w = w / scale
    bend = np.zeros((n, n))
    bend[rows, columns] = w[n:-1]
    return w[:n], bend


def _scaled(outputs: FloatArray, centre: FloatArray, spread: FloatArray) -> FloatArray:
    return np.clip((outputs - centre) / spread, -_CLIP, _CLIP)


def _values(points: FloatArray, slope: FloatArray, bend: FloatArray) -> FloatArray:
    return np.asarray(points @ slope + ((points @ bend) * points).sum(axis=1))
