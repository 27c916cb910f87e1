r"""Turn models trained on two neighbouring data sets into a lower bound on epsilon: guess which is which.

A game: a fair coin says on which of the two data sets a model is trained; whoever sees the model guesses, or
passes. If the learner is epsilon-differentially private, no model makes one data set more than
:math:`e^\epsilon` times likelier than the other, so that every guess that is made is right with probability
at most :math:`e^\epsilon / (1 + e^\epsilon)`, whatever the rule. With k right of m guesses, Clopper and
Pearson's lower bound :math:`\pi_-` on that probability gives :math:`\epsilon \ge \log(\pi_- / (1 - \pi_-))`,
wrong with probability at most alpha: provided that the rule was fixed without looking at these models.

The rule here: guess the first data set if a score is above one threshold, the second if it is below another,
and pass in between. Compared with bounding the probability of one event under both data sets, this needs one
bound in place of two, and both ends of the score tell something: about a third of the models show as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import beta

from dpmarket.arrays import FloatArray
from dpmarket.audit.scores import Score

_TAIL = np.array([0.0005, 0.001, 0.002, 0.005])
_LEVELS = np.concatenate([_TAIL, np.linspace(0.01, 0.99, 50), 1.0 - _TAIL[::-1]])
"""Quantiles to try as thresholds: a learner that tells all, but seldom, tells it in the tails."""
_RUN = 6
"""How many outputs must lie on their sides alone before they are a rule of their own."""
_DOUBT = 3.5
"""By how many standard errors a rule is thought to do worse than where it was the best of very many."""

_RUN_DOUBT = 2.5
"""The same for a run: chosen from fewer. Twelve alone by chance promise nothing, twenty promise 0.6."""
_DISBELIEF = 2.0
"""By how many standard errors a likelihood ratio may do better than it was seen to do, at most."""


@dataclass(frozen=True, eq=False)
class Guess:
    """A rule for guessing: the first data set above ``high``, the second below ``low``.

    Attributes
    ----------
    score
        From outputs to numbers, high for the first data set.
    low, high
        The thresholds; infinite where one side is never guessed.
    """

    score: Score
    low: float
    high: float

    def count(self, first: FloatArray, second: FloatArray) -> tuple[int, int]:
        """Return how many guesses are right, and how many are made, about outputs of either data set."""
        x, y = self.score(first), self.score(second)
        right = int((x > self.high).sum() + (y < self.low).sum())
        wrong = int((y > self.high).sum() + (x < self.low).sum())
        return right, right + wrong


def choose_guess(
    first: FloatArray,
    second: FloatArray,
    scores: Sequence[Score],
    ratio: Score | None,
    tests: int,
    alpha: float,
) -> tuple[Guess, float]:
    """Return the rule that promises to show the largest epsilon, and that epsilon (no bound yet).

    Parameters
    ----------
    first, second
        Outputs under the two data sets, shapes (samples, coefficients).
    scores
        What to choose from; each is also tried the other way round.
    ratio
        The log likelihood ratio, if one is known: how often its guesses are right need not be counted, it
        says so itself, and is believed as far as the outputs do not contradict it.
    tests
        How many models the rule will be tested on.
    alpha
        The level at which it will be bounded then.
    """
    deviations = float(-ndtri(alpha))
    best, chosen = -math.inf, None
    if ratio is not None:
        known, best = _best_certainty(ratio(np.concatenate([first, second])), tests, deviations)
        chosen = Guess(ratio, -known, known)
        best = min(
            best, _not_contradicted(*chosen.count(first, second), len(first) + len(second), tests, deviations)
        )
        scores = [*scores, ratio]  # counted as well: a learner with too little noise shows more than it says
    for score in scores:
        x, y = score(first), score(second)
        for sign in (1.0, -1.0):
            low, high, value = _best_thresholds(sign * x, sign * y, tests, deviations)
            if value > best:
                best, chosen = value, Guess(score if sign > 0.0 else _turned(score), low, high)
    assert chosen is not None
    return chosen, best


def seldom_guess(first: FloatArray, second: FloatArray, scores: Sequence[Score]) -> Guess | None:
    """Return a rule for the outputs farthest out, if they lie on the right sides there; otherwise None.

    A learner may tell outright, but so seldom that no rule which is thought to do worse than it did would be
    chosen for it. This rule counts on what it saw, so it is tested beside the other one, not in its place.
    """
    rules: list[tuple[int, float, Guess]] = []
    for score in scores:
        for turned in (score, _turned(score)):
            x, y = turned(first), turned(second)
            high, above, gap_above = _alone_beyond(x, y)
            low, below, gap_below = _alone_beyond(-y, -x)
            rules.append((above + below, min(gap_above, gap_below), Guess(turned, -low, high)))
    most = max(run for run, _, _ in rules)
    if most < _RUN:
        return None
    # The longest run is often one that begins among the others by chance: a clear gap is worth more.
    _, _, chosen = max((rule for rule in rules if 3 * rule[0] >= 2 * most), key=lambda rule: rule[1])
    return chosen


def _alone_beyond(own: FloatArray, others: FloatArray) -> tuple[float, int, float]:
    """Return beyond which value only own samples lie, how many, and the gap there in spreads of the others.

    The widest gap of the run's lower half; infinite if there is no run.
    """
    end = float(others.max())
    run = np.sort(own[own > end])
    if not run.size:
        return math.inf, 0, math.inf
    places = np.append(end, run)
    gaps = np.diff(places[: run.size // 2 + 2])
    k = int(gaps.argmax())
    spread = max(end - float(np.median(others)), 1e-300)
    return float(0.5 * (places[k] + places[k + 1])), run.size - k, float(gaps[k]) / spread


def epsilon_bound(right: int, guesses: int, alpha: float) -> float:
    """Return the epsilon that so many right guesses show, at least 0.

    It exceeds the true epsilon with probability at most ``alpha``.

    Examples
    --------
    >>> 0.7 < epsilon_bound(700, 1000, alpha=0.05) < math.log(700 / 300)
    True
    >>> epsilon_bound(500, 1000, alpha=0.05), epsilon_bound(0, 0, alpha=0.05)
    (0.0, 0.0)
    """
    if right == 0:
        return 0.0
    least = float(beta.ppf(alpha, right, guesses - right + 1))
    return max(math.log(least) - math.log1p(-least), 0.0) if 0.0 < least < 1.0 else 0.0


def expected_epsilon(right: int, guesses: int, tests_per_sample: float, alpha: float) -> float:
    """Return what a rule that was the best of many, and right so often, can be expected to show when tested.

    Examples
    --------
    >>> expected_epsilon(10, 10, 8.0, alpha=1e-3) < 0.0 < expected_epsilon(30, 30, 8.0, alpha=1e-3)
    True
    """
    tested = guesses * tests_per_sample
    least = float(_lower(float(_lower(right, guesses, _RUN_DOUBT)) * tested, tested, float(-ndtri(alpha))))
    return _log_odds(least)


def _turned(score: Score) -> Score:
    return lambda outputs: -score(outputs)


def _best_certainty(ratios: FloatArray, tests: int, deviations: float) -> tuple[float, float]:
    """Return from which log likelihood ratio on guessing promises most, and how much."""
    sure = np.sort(np.abs(ratios))[::-1]
    made = np.arange(1, sure.size + 1)
    tested = made * (tests / sure.size)
    values = _lower(np.cumsum(expit(sure)) / made * tested, tested, deviations)
    k = int(values.argmax())
    return float(np.nextafter(sure[k], 0.0)), _log_odds(float(values[k]))


def _not_contradicted(right: int, made: int, samples: int, tests: int, deviations: float) -> float:
    """Return the most that so many right guesses let one expect of a rule that was not chosen by them."""
    made = max(made, 1)
    share = 1.0 - float(_lower(made - right, made, _DISBELIEF))
    tested = made * tests / samples
    return _log_odds(float(_lower(share * tested, tested, deviations)))


def _best_thresholds(
    x: FloatArray, y: FloatArray, tests: int, deviations: float
) -> tuple[float, float, float]:
    """Return the two thresholds, among quantiles of the samples, that promise most, and how much."""
    pooled = np.concatenate([x, y])
    levels = np.quantile(pooled, _LEVELS)
    lows, highs = np.append(levels, -np.inf), np.append(levels, np.inf)
    x, y = np.sort(x), np.sort(y)
    right = (x.size - np.searchsorted(x, highs, "right"))[:, None] + np.searchsorted(y, lows, "left")
    wrong = (y.size - np.searchsorted(y, highs, "right"))[:, None] + np.searchsorted(x, lows, "left")
    made = np.maximum(right + wrong, 1)
    share = _lower(right, made, _DOUBT)
    tested = made * (tests / pooled.size)
    values = _lower(share * tested, tested, deviations)
    values = np.where((lows[None, :] <= highs[:, None]) & (right > 0), values, 0.0)
    i, j = np.unravel_index(int(values.argmax()), values.shape)
    return float(lows[j]), float(highs[i]), _log_odds(float(values[i, j]))


def _log_odds(share: float) -> float:
    share = min(share, 1.0 - 1e-12)
    return math.log(share) - math.log1p(-share) if share > 0.0 else -math.inf


def _lower(right: Any, made: Any, deviations: float) -> FloatArray:
    """Return Wilson's lower bound on the share of right guesses: for choosing, where many are compared."""
    share, square = right / made, deviations**2
    middle = share + square / (2.0 * made)
    reach = deviations * np.sqrt(share * (1.0 - share) / made + square / (4.0 * made**2))
    return np.asarray((middle - reach) / (1.0 + square / made))
