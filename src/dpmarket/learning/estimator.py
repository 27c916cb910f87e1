"""What every private estimator shares: a fit that is whole or changes nothing, people, and publishing.

A fit is made on a copy that has nothing of an earlier one. The estimator takes it over when it has succeeded.
"""

from __future__ import annotations

import copy
import functools
import sys
import warnings
from collections.abc import Mapping
from types import FrameType
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput
from dpmarket.learning.messages import refuse_arguments, validated
from dpmarket.learning.people import (
    Holding,
    named_columns,
    number_of_records,
    read_budgets,
    refuse_other_index,
    taking_part,
)
from dpmarket.learning.training import Records
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.noise import NoiseSource, SeededNoise

Budgets = ArrayLike | Mapping[Any, float] | None
"""Epsilons as ``fit`` takes them: by record, by owner, or the estimator's own."""
MANY_ROWS = 2**53
"""Records of one person where their number does not matter."""
_FOLDING = ("sklearn.model_selection.", "sklearn.calibration", "sklearn.ensemble.")


@functools.cache
def _say_that_folds_spend() -> None:
    """Say it once: a cached call is not repeated in the same process."""
    warnings.warn(
        "Every fold of a cross-validation is a fit that spends everybody's epsilon once more, and its score "
        "on private records is a release of its own. Cross-validate on public records, or pass people and an "
        "account that keeps what is left.",
        stacklevel=3,
    )


def _is_in_a_fold() -> bool:
    """Whether scikit-learn fits this model to a part of the records."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_FOLDING):
            return True
        frame = frame.f_back
    return False


def warn_of_folds() -> None:
    """Say in the first cross-validation, whose folds share people, that every fold spends."""
    if _is_in_a_fold():
        _say_that_folds_spend()


def refuse_numbered_folds(account: PrivacyAccount | None, holding: Holding) -> None:
    """Refuse to charge people by the positions of their records in a part of all records."""
    if account is not None and holding.owners is None and _is_in_a_fold():
        raise InvalidInput(
            "expected people with an account in a cross-validation: every fold numbers its records anew, and "
            "the account would charge others than their owners."
        )


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of linear and torch models."""

    epsilon: float | None
    noise_source: NoiseSource | None
    epsilons_: FloatArray
    loss_weights_: FloatArray

    def _declared(self) -> bool:
        """Tell whether nothing public was read from the labels."""
        return True

    def _fit(self, *given: Any) -> None:
        raise NotImplementedError

    def _fitted(self, unknown: Mapping[str, Any], *given: Any) -> Self:
        """Fit a copy with these arguments, and take over what it has learnt."""
        refuse_arguments("fit", unknown)
        fitted = self._unfitted()
        fitted._fit(*given)
        self.__dict__ = fitted.__dict__
        return self

    def _unfitted(self) -> Self:
        """Return a copy to fit: nothing of an earlier fit stays, and all of it if this one is refused."""
        fitted = copy.copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(fitted, name)
        return fitted

    def _read(
        self, X: Any, y: Any, epsilons: Any, people: Any, rows: int, reserve: float, **options: Any
    ) -> tuple[Records, FloatArray]:
        """Read budgets, drop records whose weight will be 0, and check the others as scikit-learn does.

        ``rows`` bounds the records of one person; people with no more than ``reserve`` get weight 0. Labels
        are returned as they were given.
        """
        X, epsilons, people = named_columns(X, epsilons, people)
        refuse_other_index(X, epsilons, people, y=y)
        count = number_of_records(X, y)
        if count is None:
            validated(self, X, y, accept_sparse="csr", **options)
            raise InvalidInput("expected as many labels as records.")
        budgets, holding = read_budgets(self.epsilon, epsilons, people, count, rows, reserve)
        X, y, kept = taking_part(X, y, budgets, holding, reserve)
        numeric = isinstance(self, RegressorMixin)
        x, y = validated(self, X, y, accept_sparse="csr", y_numeric=numeric, **options)
        return Records(x, y, kept, holding), budgets

    def _finish(self, holding: Holding, source: NoiseSource, account: PrivacyAccount | None) -> None:
        """Keep what follows from the weights and from where the noise came from."""
        if account is None and source.certifiable:
            warn_of_folds()
        self.people_ = holding.people
        self.effective_people_ = 1.0 / float(self.loss_weights_ @ self.loss_weights_)
        self.certifiable_ = bool(source.certifiable) and self._declared()

    def published(self) -> Self:
        """Return a copy without ``people_`` and everybody's epsilon and weights, for other people's eyes."""
        check_is_fitted(self)
        model = copy.copy(self)
        for name in ("epsilons_", "loss_weights_", "whole_weights_", "people_"):
            model.__dict__.pop(name, None)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = not isinstance(self.noise_source, SeededNoise)
        return tags
