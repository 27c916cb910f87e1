"""What every learner promises: records and promises in, a classifier out.

Payments do not depend on the learner (paper, Discussion), so any learner that keeps promises can take the
place of :class:`~dpmarket.learning.estimator.PrivateLogisticRegression`.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

from dpmarket.arrays import FloatArray


@runtime_checkable
class Learner(Protocol):
    """A way to train a classifier with two classes that keeps a promise to every person."""

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` (rows of norm at most 1) and labels ``y``, one promise per record."""
        ...

    def predict(self, X: Any) -> Any:
        """Return a label for every row."""
        ...

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        ...
