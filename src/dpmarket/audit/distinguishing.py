r"""Turn one person into two data sets that give them away, and models trained on both into a bound.

The auditor chooses everybody's records. What a model gives away of a person depends on them: least if the
person's record is lost among random ones, most if the others' records leave the model nothing else to
say. With u the row times its label's sign, replacing u by u' moves the noise that is needed by ``a (s u -
s' u')``, where s and s' are the person's errors: long where both records are wrong about the model and
yet opposite to each other. Hence the first design: the others, all alike, pull the coefficients far in
one direction; the person contradicts them both times, but leans to one side or to the other. The last
ones compare a record with an empty one, which changes the curvature.

Models trained on the two are told apart by an event: "the score is above a threshold", where the score is a
quadratic function of the released coefficients: a projection, the distance from a plane, or a discriminant
fitted to the samples. If event E has probability p under one data set and q under its neighbour, epsilon is
at least :math:`\log(p / q)`. With k of n and l of n samples in E, Clopper and Pearson's bounds give
:math:`p \ge p_-` and :math:`q \le q_+`, each with probability at least :math:`1 - \alpha / 2`, and
:math:`\log(p_- / q_+)` is a lower bound on epsilon with probability at least :math:`1 - \alpha`: provided
that E was chosen without looking at these samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import beta

from dpmarket.arrays import FloatArray, IntArray

N_FEATURES = 2
_LEAN = 0.45


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two data sets that differ in one record.

    Attributes
    ----------
    name
        What is special about them.
    features, replaced_features
        Rows of norm at most 1, shape (people, 2), before and after.
    labels, replaced_labels
        0 or 1, shape (people,).
    person
        Whose record differs.
    """

    name: str
    features: FloatArray
    labels: IntArray
    replaced_features: FloatArray
    replaced_labels: IntArray
    person: int


def neighbours_of(person: int, n_people: int) -> list[Neighbours]:
    """Return the pairs that the sampled audit tries, each with ``n_people`` records.

    From three people on both labels occur in every data set, as some learners demand.

    Examples
    --------
    >>> [pair.name for pair in neighbours_of(0, 3)]  # doctest: +ELLIPSIS
    ['leaning against the others', 'label flipped among others', ...]
    """
    along, across = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    aside = math.sqrt(1.0 - _LEAN**2) * (1.0 - 1e-12)  # norms of at most 1, exactly
    left, right = np.array([_LEAN, aside]), np.array([_LEAN, -aside])
    nothing = np.zeros(N_FEATURES)
    # Every second record is turned round with its label: the same pull, and both labels occur.
    labels = np.arange(n_people, dtype=np.int64) % 2
    signs = 2.0 * labels[:, None] - 1.0
    agreed, divided, empty = signs * along, np.tile(along, (n_people, 1)), np.zeros((n_people, N_FEATURES))
    cases = (
        ("leaning against the others", agreed, (left, 0), (right, 0)),
        ("label flipped among others", agreed, (across, 1), (across, 0)),
        ("label flipped, others divided", divided, (along, 1), (along, 0)),
        ("record against an empty one", agreed, (across, 1), (nothing, 1)),
        ("record against an empty one, others empty", empty, (along, 1), (nothing, 1)),
    )
    pairs = []
    for name, others, (own, own_label), (other, other_label) in cases:
        before, after = others.copy(), others.copy()
        before_labels, after_labels = labels.copy(), labels.copy()
        before[person], before_labels[person] = own, own_label
        after[person], after_labels[person] = other, other_label
        pairs.append(Neighbours(name, before, before_labels, after, after_labels, person))
    return pairs


_CLIP = 8.0
_STEPS = 30


@dataclass(frozen=True, eq=False)
class Event:
    """That the score is above the threshold, and which data set makes that likelier.

    The score of an output z is ``slope . v + v . bend v`` with ``v = clip((z - centre) / spread)``.
    """

    centre: FloatArray
    spread: FloatArray
    slope: FloatArray
    bend: FloatArray
    threshold: float
    first_is_likelier: bool

    def count(self, outputs: FloatArray) -> int:
        """Return how many of the outputs, shape (samples, coefficients), are in the event."""
        values = _scores(_scaled(outputs, self.centre, self.spread), self.slope, self.bend)
        return int((values > self.threshold).sum())


def choose_event(
    first: FloatArray, second: FloatArray, directions: list[FloatArray], alpha: float
) -> tuple[Event, float]:
    """Return the event that shows the largest epsilon on these samples, and that epsilon (no bound yet).

    Parameters
    ----------
    first, second
        Outputs under the two data sets, shapes (samples, coefficients).
    directions
        Directions in which to look besides the difference of the medians.
    alpha
        The level at which the event will be bounded later. A more lenient one would be drawn to rare events
        that are chance.
    """
    pooled = np.concatenate([first, second])
    centre = np.median(pooled, axis=0)
    spread = np.maximum(np.median(np.abs(pooled - centre), axis=0), 1e-12 * (1.0 + np.abs(centre)))
    a, b = _scaled(first, centre, spread), _scaled(second, centre, spread)
    best, chosen = -math.inf, None
    for slope, bend in _candidates(a, b, directions):
        x, y = _scores(a, slope, bend), _scores(b, slope, bend)
        for sign in (1.0, -1.0):
            for first_is_likelier in (True, False):
                likely, rare = (sign * x, sign * y) if first_is_likelier else (sign * y, sign * x)
                threshold, value = _best_threshold(likely, rare, alpha)
                if value > best:
                    best = value
                    event = (centre, spread, sign * slope, sign * bend, threshold, first_is_likelier)
                    chosen = Event(*event)
    assert chosen is not None
    return chosen, best


def epsilon_bound(likely: int, rare: int, samples: int, alpha: float) -> float:
    """Return the epsilon that ``likely`` and ``rare`` counts of ``samples`` each show, at least 0.

    It exceeds the true epsilon with probability at most ``alpha``.

    Examples
    --------
    >>> 0.7 < epsilon_bound(500, 200, 1000, alpha=0.05) < math.log(500 / 200)
    True
    >>> epsilon_bound(10, 12, 1000, alpha=0.05)
    0.0
    """
    value = float(_log_ratio(np.array([likely]), np.array([rare]), samples, samples, alpha)[0])
    return max(value, 0.0)


def _log_ratio(likely: IntArray, rare: IntArray, n: int, others: int, alpha: float) -> FloatArray:
    low = np.where(likely > 0, beta.ppf(alpha / 2.0, np.maximum(likely, 1), n - likely + 1), 0.0)
    room = np.maximum(others - rare, 1)
    high = np.where(rare < others, beta.ppf(1.0 - alpha / 2.0, rare + 1, room), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(low) - np.log(high))


def _best_threshold(likely: FloatArray, rare: FloatArray, alpha: float) -> tuple[float, float]:
    """Return the threshold, among the samples' own values, at which the event shows most, and how much."""
    thresholds = np.quantile(np.concatenate([likely, rare]), np.linspace(0.005, 0.995, 199))
    above = likely.size - np.searchsorted(np.sort(likely), thresholds, side="right")
    others = rare.size - np.searchsorted(np.sort(rare), thresholds, side="right")
    values = _log_ratio(above, others, likely.size, rare.size, alpha)
    k = int(values.argmax())
    return float(thresholds[k]), float(values[k])


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


def _scores(points: FloatArray, slope: FloatArray, bend: FloatArray) -> FloatArray:
    return np.asarray(points @ slope + ((points @ bend) * points).sum(axis=1))
