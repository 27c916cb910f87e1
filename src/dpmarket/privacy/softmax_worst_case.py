r"""Turn a person's weight in a softmax regression into data and an output on which the exact mechanism leaks.

The search knows nothing of the accounting: it maximises the exact log density ratio
(:mod:`dpmarket.privacy.softmax_density`) over a family of neighbours with two coefficients per class, first
on a grid, then by local refinement from the best points; no randomness. In the family all labels are the
first class. The person's row is the second axis, and the output gives the wrong classes equal probabilities
there. Everybody else's row, and the one that replaces the person's, points the other way, turned by an angle
so that one wrong class is likely: noise in the same direction, little curvature. What is added to the
coefficients of all classes changes no probability, but turns the noise of every class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.privacy.softmax_density import trusted_softmax_log_density

_LENGTHS = tuple(np.geomspace(1.0, 1e5, 9).tolist())
_LOGITS = (-2.0, 0.0, 2.0, 5.0)
_STARTS = 3
_minimize: Any = minimize  # its type information does not cover the options of Nelder-Mead


@dataclass(frozen=True, eq=False)
class SoftmaxWorstCase:
    """Two neighbouring data sets, an output, and the log density ratio there.

    Attributes
    ----------
    log_ratio
        ``log g(W | own) - log g(W | replaced)`` (epsilon).
    output
        W, shape (K, 2).
    own_row, other_row
        The person's row in the first data set; everybody else's, and the person's in the second, shape (2,).
        All labels are the first class.
    """

    log_ratio: float
    output: FloatArray
    own_row: FloatArray
    other_row: FloatArray


def find_softmax_worst_case(
    loss_weights: ArrayLike, person: int, noise_rate: float, l2: float, n_classes: int, row_bound: float = 1.0
) -> SoftmaxWorstCase:
    """Search for the neighbouring data and the output on which the exact output gives away most.

    Parameters
    ----------
    loss_weights
        Weight of each person, shape (people,), at least two people.
    person
        Whose record differs.
    noise_rate
        The noise rate eta of each class's noise, > 0.
    l2
        The ridge penalty Lambda, > 0.
    n_classes
        K, from 2 to 100.
    row_bound
        R, the largest Euclidean norm of a row.

    Returns
    -------
    SoftmaxWorstCase
        What it states is attained: a ratio above a promise proves the promise broken.

    Raises
    ------
    InvalidInput
        For values outside these ranges.

    Examples
    --------
    >>> from dpmarket.privacy.softmax import softmax_privacy_loss
    >>> found = find_softmax_worst_case([0.05, 0.95], 0, noise_rate=20.0, l2=1e-6, n_classes=3).log_ratio
    >>> bool(0.99 < found / softmax_privacy_loss([0.05], 20.0, 1e-6, n_classes=3)[0] <= 1.0)
    True
    """
    weights = checks.non_negative_vector("loss_weights", loss_weights)
    which = checks.whole("person", person)
    if weights.size < 2 or which >= weights.size:
        raise InvalidInput(f"expected a person among at least two, got {which} of {weights.size}.")
    classes = checks.whole("n_classes", n_classes, minimum=2)
    if classes > 100:
        raise InvalidInput(f"expected at most 100 classes, got {classes}.")
    own = float(weights[which])
    search = _Search(
        np.array([own, max(float(weights.sum()) - own, 0.0)]),
        checks.positive("noise_rate", noise_rate),
        checks.positive("l2", l2),
        classes,
        checks.positive("row_bound", row_bound),
    )
    starts = [
        np.array([math.log(length), logit, shift, math.log(turn / length)])
        for length in _LENGTHS
        for logit in _LOGITS
        for shift in (0.0, 1.1)
        for turn in (4.0 * classes, 20.0 * classes)
    ]
    best = sorted(starts, key=search.minus_ratio)[:_STARTS]
    found = [
        _minimize(search.minus_ratio, start, method="Nelder-Mead", options={"maxfev": 400}) for start in best
    ]
    point = min(found, key=lambda result: float(result.fun)).x
    w, mine, other = search.unpacked(point)
    return SoftmaxWorstCase(-search.minus_ratio(point), *map(read_only, (w, mine, other)))


@dataclass(frozen=True, eq=False)
class _Search:
    weights: FloatArray
    noise_rate: float
    l2: float
    classes: int
    row_bound: float

    def unpacked(self, point: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the output, the person's row and the others' for a point of the search."""
        length, logit, shift, turn = (float(value) for value in point)
        s = 1.0 / (1.0 + math.exp(-min(max(logit, -30.0), 30.0)))
        p = np.full(self.classes, s / (self.classes - 1.0))
        p[0] = 1.0 - s
        steps = np.arange(self.classes) / (self.classes - 1.0) - 0.5
        common = shift * self.weights[0] * p[1] * self.row_bound / self.l2
        first = math.exp(min(length, 20.0)) * steps / self.row_bound
        w = np.stack([first, np.log(p) / self.row_bound - common], axis=1)
        angle = min(math.exp(min(turn, 1.0)), math.pi / 2.0)
        other = self.row_bound * np.array([math.sin(angle), -math.cos(angle)]) * (1.0 - 2.0**-50)
        return w, np.array([0.0, self.row_bound]), other

    def minus_ratio(self, point: FloatArray) -> float:
        w, mine, other = self.unpacked(point)
        labels = np.zeros(2, dtype=np.int64)
        constants = (labels, self.weights, self.noise_rate, self.l2)
        first = trusted_softmax_log_density(w, np.stack([mine, other]), *constants)
        second = trusted_softmax_log_density(w, np.stack([other, other]), *constants)
        return float(second - first)
