"""What every learner promises: records and promises in, a classifier out.

Payments do not depend on the learner (paper, Discussion), so any learner that keeps promises can take the
place of :class:`~dpmarket.learning.estimator.PrivateLogisticRegression`.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

from dpmarket.arrays import FloatArray


@runtime_checkable
class Learner(Protocol):
    """A way to train a classifier with two classes that keeps a promise to every person.

    A protocol: any object with these methods is one, and works with every audit and reference learner.

    Examples
    --------
    The smallest learner looks at no record. It keeps every promise, and learns nothing.

    >>> import numpy as np
    >>> class Guesses:
    ...     def fit(self, X, y, epsilons):
    ...         return self
    ...     def predict(self, X):
    ...         return np.zeros(len(X))
    ...     def predict_proba(self, X):
    ...         return np.full((len(X), 2), 0.5)
    >>> isinstance(Guesses(), Learner)
    True
    >>> Guesses().fit([[0.5]], [1], epsilons=[1.0]).predict_proba([[0.1], [0.2]]).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` (rows of norm at most 1) and labels ``y``, one promise per record."""
        ...

    def predict(self, X: Any) -> Any:
        """Return a label for every row."""
        ...

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        ...
