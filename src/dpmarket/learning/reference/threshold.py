"""Train only on those whose promise reaches a threshold, all of them at that threshold."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.learner import Learner


class LargeEpsilonsOnly:
    """Train only on people promised at least ``threshold``, each of them at exactly that.

    Parameters
    ----------
    learner
        What trains; it is copied, and itself left as it is. Records promised 0 must not influence it.
    threshold
        The smallest promise that takes part (epsilon), > 0. Public: it must not depend on the records.

    Attributes
    ----------
    model_
        The trained copy.
    epsilons_
        What was spent on each person: the threshold or 0. Read-only.

    Notes
    -----
    Guaranteed: Those of ``learner``, for promises that are nowhere above the ones made.

    Examples
    --------
    >>> from dpmarket.learning import PrivateLogisticRegression
    >>> learner = LargeEpsilonsOnly(PrivateLogisticRegression(classes=(0, 1)), threshold=1.0)
    >>> learner.fit([[0.5], [-0.5], [0.1]], [1, 0, 1], [0.5, 2.0, 1.0]).epsilons_.tolist()
    [0.0, 1.0, 1.0]
    """

    def __init__(self, learner: Learner, threshold: float) -> None:
        self.learner = learner
        self.threshold = threshold

    def fit(self, X: Any, y: Any, epsilons: Any) -> Self:
        """Train on records ``X`` and labels ``y``, one promise per record.

        Raises
        ------
        InvalidInput
            For promises that are not finite numbers of at least 0, or all below the threshold; and what
            ``learner`` refuses.
        """
        threshold = checks.positive("threshold", self.threshold)
        promised = checks.non_negative_vector("epsilons", epsilons)
        spent = np.where(promised >= threshold, threshold, 0.0)
        if not bool((spent > 0.0).any()):
            raise InvalidInput(f"expected a promise of at least threshold = {threshold!r}, got none.")
        self.model_ = copy.deepcopy(self.learner).fit(X, y, epsilons=spent)
        self.epsilons_ = read_only(spent)
        return self

    def predict(self, X: Any) -> Any:
        """Return a label for every row."""
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the two classes for every row, shape (rows, 2)."""
        return self.model_.predict_proba(X)
