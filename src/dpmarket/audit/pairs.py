"""Turn two sellers into the best joint lie of theirs: information, because no such payment rule forbids it."""

from __future__ import annotations

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.audit.answers import Answers
from dpmarket.audit.lies import width
from dpmarket.costs import CostDistribution

_PAIRS = 3
_STEPS = (-0.3, -0.1, -0.03, 0.0, 0.03, 0.1, 0.3)


def best_pair_gain(
    answers: Answers, dist: CostDistribution, costs: FloatArray, rng: np.random.Generator
) -> float:
    """Return the largest joint gain, in money, of a few pairs over a grid of joint lies; at least 0.

    The pairs are the two cheapest sellers and some drawn at random.
    """
    if costs.size < 2:
        return 0.0
    pairs = [np.argsort(costs, kind="stable")[:2]]
    pairs += [rng.choice(costs.size, 2, replace=False) for _ in range(_PAIRS - 1)]
    return max(_joint_gain(answers, dist, costs, int(i), int(j)) for i, j in pairs)


def _joint_gain(answers: Answers, dist: CostDistribution, costs: FloatArray, i: int, j: int) -> float:
    low, high = dist.support
    steps = width(dist) * np.array(_STEPS)
    # Not down to the lowest cost itself: where that is 0, some markets have no best allocation.
    lowest = np.minimum(low + 1e-6 * width(dist), costs)
    reports = {k: np.clip(costs[k] + steps, lowest[k], high) for k in (i, j)}
    utilities = {k: np.zeros((steps.size, steps.size)) for k in (i, j)}
    for k, other in ((i, j), (j, i)):
        for row, lie in enumerate(reports[other]):
            moved = costs.copy()
            moved[other] = lie
            asked = answers.at(moved, k, reports[k])
            utilities[k][row] = np.where(asked.answered, asked.payments - costs[k] * asked.epsilons, -np.inf)
    total = utilities[i].T + utilities[j]
    truth = _STEPS.index(0.0)
    if not np.isfinite(total[truth, truth]):
        return 0.0
    return max(0.0, float(total.max() - total[truth, truth]))
