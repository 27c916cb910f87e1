r"""Guessing from a model which of two neighbouring data sets it was trained on, and what that shows.

A coin says which. With (epsilon, delta) privacy an output is a function of a randomised response: with
probability delta it may reveal the data set, and otherwise a guess is right with probability at most
:math:`e^\epsilon / (1 + e^\epsilon)` (Kairouz, Oh and Viswanath 2015). Of all right guesses as many may have
been revealed as a binomial count exceeds with probability alpha / 2; from the others Clopper and Pearson's
lower bound :math:`\pi_-` gives :math:`\epsilon \ge \log(\pi_- / (1 - \pi_-))`: wrong with probability at most
alpha, provided that the rule was fixed without looking at these models.

A rule guesses by two thresholds of a score, and passes in between. Scores are the likelihood ratio of the
release as it should be, and functions fitted to the samples; a last rule looks only far out, where a learner
that seldom reveals a record does so. Each rule is tested at its share of the false-alarm rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit, ndtri
from scipy.stats import beta, binom
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import PolynomialFeatures, StandardScaler  # type: ignore[import-untyped]

from dpmarket.arrays import FloatArray
from dpmarket.audit.neighbours import N_FEATURES, Neighbours

Score = Callable[[FloatArray], FloatArray]
"""From outputs, shape (samples, coefficients), to one number for each: high for the first data set."""

_TAIL = np.linspace(0.0005, 0.02, 40)  # shares of the outputs to guess about, at either end
_ANY = np.concatenate([_TAIL[:10:3], np.linspace(0.01, 0.99, 50)])
_DOUBT = 3.5  # standard errors by which a rule is expected to do worse than where it was the best of many
_LITTLE_DOUBT = 2.5  # the same for fewer rules: of the tails, or by a score that was not fitted
_CLIP = 8.0
SHARES = {2: (0.9, 0.1), 3: (0.6, 0.3, 0.1)}
"""The shares of the false-alarm rate of so many rules."""


@dataclass(frozen=True, eq=False)
class Guess:
    """A rule: the first data set if the score is at least ``high``, the second if it is at most ``low``."""

    score: Score
    low: float
    high: float
    expected: float  # the epsilon that it is expected to show: no bound yet

    def count(self, first: FloatArray, second: FloatArray) -> tuple[int, int]:
        """Return how many guesses are right, and how many are made, about outputs of either data set."""
        x, y = self.score(first), self.score(second)
        right = int((x >= self.high).sum() + (y <= self.low).sum())
        wrong = int((y >= self.high).sum() + (x <= self.low).sum())
        return right, right + wrong


def epsilon_bound(right: int, guesses: int, alpha: float, delta: float = 0.0, models: int = 0) -> float:
    """Return the epsilon that so many right guesses show, at least 0; wrong with at most ``alpha``."""
    if delta > 0.0:
        alpha /= 2.0
        revealed = int(binom.isf(alpha, max(models, guesses), delta))
        right, guesses = right - revealed, guesses - revealed
    if right <= 0:
        return 0.0
    return max(float(logit(beta.ppf(alpha, right, guesses - right + 1))), 0.0)


def best_guesses(
    pair: Neighbours, first: FloatArray, second: FloatArray, ratio: Score | None, tests: int, alpha: float
) -> list[Guess]:
    """Return rules with the largest epsilons to expect from ``tests`` further models at level ``alpha``."""
    fitted = fitted_scores(pair, first, second)
    fitted += [lambda outputs, score=score: -score(outputs) for score in fitted]  # type: ignore[misc]

    def best(scores: list[Score], levels: FloatArray, doubt: float) -> Guess:
        def expected(right: FloatArray, made: FloatArray) -> FloatArray:
            tested = made * (tests / (len(first) + len(second)))
            return _lower(_lower(right, made, doubt) * tested, tested, float(-ndtri(alpha)))

        rules = (_thresholds(score, first, second, levels, expected) for score in scores)
        return max(rules, key=lambda rule: rule.expected)

    known = [] if ratio is None else [best([ratio], _ANY, _LITTLE_DOUBT)]
    return [*known, best(fitted, _ANY, _DOUBT), best(fitted, _TAIL, _LITTLE_DOUBT)]


def _thresholds(
    score: Score, first: FloatArray, second: FloatArray, levels: FloatArray,
    expected: Callable[..., FloatArray],
) -> Guess:  # fmt: skip
    """Return the best two thresholds: quantiles of the scores, from below and from above, or infinite."""
    x, y = np.sort(score(first)), np.sort(score(second))
    pooled = np.sort(np.concatenate([x, y]))
    lows = np.append(np.quantile(pooled, levels), -np.inf)
    highs = np.append(np.quantile(pooled, 1.0 - levels), np.inf)
    made = (pooled.size - np.searchsorted(pooled, highs))[:, None] + np.searchsorted(pooled, lows, "right")
    right = (x.size - np.searchsorted(x, highs))[:, None] + np.searchsorted(y, lows, "right")
    shares = expected(right, np.maximum(made, 1))
    shares = np.where((lows[None, :] < highs[:, None]) & (right > 0), shares, 0.0)
    i, j = np.unravel_index(int(shares.argmax()), shares.shape)
    return Guess(score, float(lows[j]), float(highs[i]), float(logit(min(shares[i, j], 1.0 - 1e-12))))


def _lower(right: Any, made: Any, deviations: float) -> FloatArray:
    """Return Wilson's lower bound on the share of right guesses: for choosing, where many are compared."""
    share, square = right / made, deviations**2
    middle = share + square / (2.0 * made)
    reach = deviations * np.sqrt(share * (1.0 - share) / made + square / (4.0 * made**2))
    return np.asarray(np.maximum((middle - reach) / (1.0 + square / made), 0.0))


def fitted_scores(pair: Neighbours, first: FloatArray, second: FloatArray) -> list[Score]:
    """Return projections, distances from planes, and a quadratic discriminant, fitted to outputs."""
    pooled = np.concatenate([first, second])
    centre = np.median(pooled, axis=0)
    spread = np.maximum(np.median(np.abs(pooled - centre), axis=0), 1e-12 * (1.0 + np.abs(centre)))

    def scaled(outputs: FloatArray) -> FloatArray:
        return np.asarray(np.clip((outputs - centre) / spread, -_CLIP, _CLIP))

    def projection(unit: FloatArray) -> Score:
        # Not cut off: what lies far out may be what gives a side away.
        return lambda outputs: np.asarray((outputs - centre) / spread @ unit)

    def distance(unit: FloatArray, middle: float) -> Score:
        return lambda outputs: np.asarray(-((scaled(outputs) @ unit - middle) ** 2))

    a, b = scaled(first), scaled(second)
    directions = [np.median(a, axis=0) - np.median(b, axis=0), *_directions(pair, len(centre))]
    scores: list[Score] = []
    for unit in (along / np.linalg.norm(along) for along in directions if along.any()):
        scores += [projection(unit), *(distance(unit, _densest(sample @ unit)) for sample in (a, b))]
    discriminant = make_pipeline(PolynomialFeatures(2), StandardScaler(), LogisticRegression(max_iter=300))
    discriminant.fit(np.concatenate([a, b]), np.repeat([1, 0], [len(a), len(b)]))
    return [*scores, lambda outputs: np.asarray(discriminant.decision_function(scaled(outputs)))]


def _directions(pair: Neighbours, n: int) -> FloatArray:
    """Return the changed record before and after, their difference, and the axes."""
    own, other = (x[pair.person] * (2.0 * y[pair.person] - 1.0) for x, y in (pair.before, pair.after))
    used = min(n, N_FEATURES)
    full = np.zeros((3, n))
    full[:, :used] = np.array([own, other, own - other])[:, :used]
    return np.concatenate([full, np.eye(n)])


def _densest(values: FloatArray) -> float:
    """Return the middle of the shortest interval that holds a thirtieth of the values."""
    ranked = np.sort(values)
    reach = max(values.size // 30, 3)
    k = int((ranked[reach:] - ranked[:-reach]).argmin())
    return 0.5 * float(ranked[k] + ranked[k + reach])
