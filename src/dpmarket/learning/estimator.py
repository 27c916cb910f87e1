"""What every private estimator shares: a fit that is whole or changes nothing, people, and publishing."""

from __future__ import annotations

import copy
import functools
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.curvature import Split
from dpmarket.learning.people import (
    Holding,
    named_columns,
    number_of_records,
    read_budgets,
    refuse_other_index,
    taking_part,
)
from dpmarket.learning.records import Records
from dpmarket.learning.validation import refuse_arguments, validated
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.descent import Descent
from dpmarket.privacy.noise import Bits, NoiseSource, SeededNoise, checked_source
from dpmarket.progress import Progress

Charge = Callable[[FloatArray], None]
"""Charges these epsilons, or distances mu of a descent, person by person, before noise is drawn."""
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
    modules = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(None))
    return any(name.startswith(_FOLDING) for name in modules)


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of linear and torch models."""

    epsilon: float | None
    delta: float | None
    noise_source: NoiseSource | None
    epsilons_: FloatArray
    loss_weights_: FloatArray

    def _fit(
        self, X: Any, y: Any, epsilons: Any, people: Any, account: PrivacyAccount | None,
        intervals: float | None, progress: Progress | None,
    ) -> None:  # fmt: skip
        raise NotImplementedError

    def fit(
        self, X: Any, y: Any, epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None, account: PrivacyAccount | None = None, *,
        intervals: float | None = None, progress: Progress | None = None, **unknown: Any,
    ) -> Self:  # fmt: skip
        """Fit and release a model.

        Parameters
        ----------
        X, y
            Features, shape (records, features): an array, a data frame or a CSR matrix; and labels, shape
            (records,). Of torch models the first axis is records; images and series keep their shape.
        epsilons
            The privacy budgets: one per record; or, with ``people``, a mapping from owner to epsilon, or an
            array per person that ``people`` numbers from 0; or the name of a column of ``X``, a data frame,
            which then is no feature. None means the constructor's ``epsilon`` for everybody.
        people
            Owner of each record, shape (records,), or the name of a column of ``X``.
        account
            Keeps what each person has left over many releases; everybody is charged before noise is drawn.
        intervals
            Of linear models: the share of every epsilon, strictly between 0 and 1, that is spent on a noisy
            Hessian, so that intervals need no public rows. None spends nothing on it.
        progress
            Called with the steps made and all of them, where training is a descent.

        Notes
        -----
        Refusals come before noise is drawn. Infeasible are budgets that no noise keeps at this ``l2``, an
        account with too little left for somebody, and epsilons too small for a Hessian; EntropyUnavailable is
        raised if the operating system gives no random bits.
        """
        refuse_arguments("fit", unknown)
        fitted = self._unfitted()
        fitted._fit(X, y, epsilons, people, account, intervals, progress)
        self.__dict__ = fitted.__dict__
        return self

    def _unfitted(self) -> Self:
        """Return a copy to fit: nothing of an earlier fit stays, and all of it if this one is refused."""
        fitted = copy.copy(self)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(fitted, name)
        return fitted

    def _read(
        self, X: Any, y: Any, epsilons: Any, people: Any, account: PrivacyAccount | None, rows: int,
        reserve: float, **options: Any,
    ) -> tuple[Records, FloatArray]:  # fmt: skip
        """Read budgets, drop records whose weight will be 0, and check the others as scikit-learn does."""
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
        if account is not None and holding.owners is None and _is_in_a_fold():
            raise InvalidInput(
                "expected people with an account in a cross-validation: every fold numbers its records anew, "
                "and the account would charge others than their owners."
            )
        return Records(x, y, kept, holding), budgets

    def _charging(
        self, account: PrivacyAccount | None, holding: Holding, split: Split | None = None
    ) -> Charge:
        """Return what charges people for a model and, with a split, for its Hessian."""
        if account is None:
            return lambda spent: None
        names, delta = holding.names(), self.delta
        if delta is None:
            return lambda spent: account.charge(names, spent if split is None else split.total(spent))
        if split is None:
            return lambda mus: account.charge(names, mus=mus, delta=float(delta))
        return lambda mus: account.charge(names, split.spent, mus=mus)

    def _descend(
        self, descent: Descent, whole: IntArray, loss: dict[str, Any], charge: Charge,
        run: Callable[[Bits], FloatArray],
    ) -> FloatArray:  # fmt: skip
        """Charge everybody, run a descent with a stream of noise, and keep what is public about it."""
        spent, total = descent.epsilons(whole), int(whole.sum())
        charge(descent.mu(whole))
        coefficients = run(checked_source(self.noise_source).bits())
        self.descent_, self.whole_weights_ = descent, whole
        self.loss_weights_ = read_only(whole / float(total))
        self.epsilons_, self.delta_ = spent, descent.delta
        self.description_ = {
            "release": descent.to_dict(),
            "loss": loss,
            "weight_total": total,
            "coefficients": coefficients.tolist(),
        }
        return coefficients

    def _finish(self, holding: Holding, account: PrivacyAccount | None) -> None:
        """Keep what follows from the weights and from where the noise came from."""
        source = checked_source(self.noise_source)
        if account is None and source.certifiable and _is_in_a_fold():
            _say_that_folds_spend()
        self.people_ = holding.people
        self.effective_people_ = 1.0 / float(self.loss_weights_ @ self.loss_weights_)
        # Classes that were not declared were read from the labels.
        self.certifiable_ = bool(source.certifiable) and getattr(self, "classes", ()) is not None

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


class Classifier(ClassifierMixin):  # type: ignore[misc]
    """Scores and classes, from ``_outputs``: one column for two classes, else one per class."""

    classes: Sequence[Any] | None
    classes_: np.ndarray[Any, Any]
    _outputs: Callable[[Any], FloatArray]

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores: shape (records,) for two classes, above 0 means the second; else one per class."""
        scores = self._outputs(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the likeliest class of each record, shape (records,)."""
        scores = self.decision_function(X)
        places = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[places])


class Probabilities:
    """Probabilities of a classifier whose scores are log odds, or the logits of a softmax."""

    decision_function: Callable[[Any], FloatArray]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, shape (records, classes)."""
        z = self.decision_function(X)
        return np.column_stack([expit(-z), expit(z)]) if z.ndim == 1 else np.asarray(softmax(z, axis=1))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of the probabilities, shape (records, classes)."""
        z = self.decision_function(X)
        if z.ndim == 1:
            return np.column_stack([log_expit(-z), log_expit(z)])
        return np.asarray(log_softmax(z, axis=1))
