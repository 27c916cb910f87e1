"""Pairs of neighbouring data sets that give one person away.

With u the row times its label's sign, replacing u by u' moves the noise that is needed by ``a (s u - s'
u')``, s and s' the person's errors: most where both records are wrong about the model and yet opposite to
each other. Hence the first pair: the others, all alike, pull the coefficients far; the person contradicts
them both times, but leans to one side or the other. The last pairs change the curvature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from dpmarket.arrays import FloatArray, IntArray

N_FEATURES = 2
Data = tuple[FloatArray, IntArray]
"""Rows of norm at most 1, shape (people, 2), and labels 0 or 1."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two data sets that differ in the record of one person."""

    name: str
    before: Data
    after: Data
    person: int  # the position of the record that differs

    @property
    def labels_only(self) -> bool:
        """Whether both data sets have the same features."""
        return bool((self.before[0] == self.after[0]).all())


def neighbours_of(person: int, n_people: int, lean: float = 0.45) -> list[Neighbours]:
    """Return the pairs that the sampled audit tries, of ``n_people`` records; see :func:`best_lean`."""
    along, across = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    aside = math.sqrt(1.0 - lean**2) * (1.0 - 1e-12)  # norms of at most 1, exactly
    left, right = np.array([lean, aside]), np.array([lean, -aside])
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
    for name, others, *records in cases:
        data = []
        for row, label in records:
            x, y = others.copy(), labels.copy()
            x[person], y[person] = row, label
            data.append((x, y))
        pairs.append(Neighbours(name, data[0], data[1], person))
    return pairs


def best_lean(loss_weights: FloatArray, l2: float, person: int) -> float:
    """Return how far a person should lean against the others, to move the noise of a logistic model most."""
    others = float(np.delete(loss_weights, person).sum())
    pull = brentq(lambda w: l2 * w - others * expit(-w), 0.0, others / l2 + 1e-300)
    lean = np.round(np.linspace(0.05, 0.95, 181), 3)
    return float(lean[int((expit(lean * pull) * np.sqrt(1.0 - lean**2)).argmax())])
