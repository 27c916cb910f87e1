"""Give everybody the smallest promise: what is left to do with a learner that knows one epsilon only."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.learner import Learner


class SmallestEpsilon:
    """Train with everybody at the smallest promise that is not 0.

    Parameters
    ----------
    learner
        What trains; it is copied, and itself left as it is.

    Attributes
    ----------
    model_
        The trained copy.
    epsilons_
        What was spent on each person: the smallest promise, or 0 where nothing was promised. Read-only.

    Notes
    -----
    Guaranteed: Those of ``learner``, for promises that are nowhere above the ones made.

    Examples
    --------
    >>> from dpmarket.learning import PrivateLogisticRegression
    >>> learner = SmallestEpsilon(PrivateLogisticRegression(classes=(0, 1)))
    >>> learner.fit([[0.5], [-0.5], [0.1]], [1, 0, 1], [0.5, 2.0, 0.0]).epsilons_.tolist()
    [0.5, 0.5, 0.0]
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` and labels ``y``, one promise per record.

        Raises
        ------
        InvalidInput
            For promises that are not finite numbers of at least 0, or all 0; and what ``learner`` refuses.
        """
        promised = checks.non_negative_vector("epsilons", epsilons)
        if not bool((promised > 0.0).any()):
            raise InvalidInput("expected a promise > 0 for somebody, got only zeros.")
        spent = np.where(promised > 0.0, promised[promised > 0.0].min(), 0.0)
        self.model_ = copy.deepcopy(self.learner).fit(X, y, epsilons=spent)
        self.epsilons_ = read_only(spent)
        return self

    def predict(self, X: Any) -> Any:
        """Return a label for every row."""
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        return self.model_.predict_proba(X)
