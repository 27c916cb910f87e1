r"""Turn records and promises into a logistic regression that keeps every promise.

.. math:: \min_w \; \sum_i a_i \log(1 + e^{-y_i w \cdot x_i}) + b' \cdot w + \frac{\Lambda}{2} |w|^2

with weights from promises (:mod:`dpmarket.privacy.weights`), noise from the operating system
(:mod:`dpmarket.privacy.noise`), a minimiser with a proved accuracy (:mod:`dpmarket.learning.minimiser`), and
its release on a public grid (:mod:`dpmarket.privacy.grid`). Paper: Algorithm 1, step 2. Promises with a delta
have Gaussian noise and their own accounting (:mod:`dpmarket.privacy.gaussian`).
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.gaussian_geometry import GaussianGeometry
from dpmarket.learning.geometry import carried_shape, geometry_of, shape_of
from dpmarket.learning.labels import read_classes
from dpmarket.learning.messages import refuse_arguments, refuse_known, validated
from dpmarket.learning.problem import check_constant
from dpmarket.learning.promises import (
    Prepared,
    number_of_records,
    read_promises,
    refuse_other_index,
    taking_part,
)
from dpmarket.learning.row_bounds import clipping_scales, rounding_scales
from dpmarket.learning.rows import Rows
from dpmarket.learning.softmax_geometry import SoftmaxGeometry
from dpmarket.privacy import NoiseShape
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.gaussian_weights import checked_delta
from dpmarket.privacy.grid import ReleasePlan, round_to_grid
from dpmarket.privacy.noise import NoiseSource, SecureNoise, SeededNoise
from dpmarket.privacy.weights import usable_promises


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression with a privacy promise (epsilon) to every person.

    Two classes have one vector of coefficients, more (softmax) one each, with independent noise.

    Rows must have norm at most 1, in the Euclidean norm or in that of a ``noise_shape`` (see
    :class:`~dpmarket.learning.scaling.PublicScaler` and :class:`~dpmarket.learning.encoder.PublicEncoder`);
    what exceeds it by rounding only, up to 4 units in the last place, is shortened. The constant column is
    part of the row for the accounting, and its coefficient is penalised like the others.

    Parameters
    ----------
    l2
        The ridge penalty Lambda, > 0, in the objective whose loss weights add up to 1. None means
        :func:`~dpmarket.privacy.penalty.suggest_l2`, for more than two classes
        :func:`~dpmarket.privacy.softmax_penalty.softmax_suggest_l2`, which use public quantities only.
    epsilon
        The common promise, > 0, used where ``fit`` is given no ``epsilons``.
    fit_intercept
        Whether to add the constant column.
    intercept_scaling
        The number in the constant column, a power of two. None means the one nearest to
        ``1 / sqrt(features)``, as if the constant were one more feature of a row of norm 1: a larger one
        lengthens rows and so adds noise to everything, a smaller one lets the constant move less.
    classes
        The labels, at least two, of two the negative one first. None reads them from ``y`` and so treats the
        set of labels as public; a certificate needs them declared.
    clip
        Whether rows longer than 1 are shortened to 1, in ``fit`` and in prediction. If not, ``fit`` refuses
        them.
    numerical_epsilon
        The part of every promise set aside for releasing rounded numbers, > 0. Smaller values need a more
        accurate minimiser; people promised no more than this have no influence.
    rows_per_person
        Public upper bound on the number of records of one person, used with ``people``. More are refused.
    noise_source
        Where the noise comes from; None means :class:`~dpmarket.privacy.noise.SecureNoise`.
    stretch
        Public factor, > 0, by which the released coefficients are multiplied. None means 1 if ``l2`` is given
        (the minimiser itself), and otherwise :func:`~dpmarket.privacy.penalty.suggest_stretch` (or
        :func:`~dpmarket.privacy.softmax_penalty.softmax_suggest_stretch`), which undoes part of the suggested
        penalty's shrinkage.
    noise_shape
        The public :class:`~dpmarket.privacy.shapes.NoiseShape` of the noise, and the norm in which rows are
        at most 1 long. None means the shape that :class:`~dpmarket.learning.encoder.PublicEncoder` chose for
        its rows, a function of declarations only, and the Euclidean norm for other rows. Refused with more
        than two classes. With ``delta`` it says only how long rows are: the noise is Gaussian.
    delta
        The delta of everybody's (epsilon, delta) guarantee: no set of models gains more probability than
        this beyond the factor exp(epsilon). At most ``1 / (10 * people)``; None means 0. The noise is then
        Gaussian, which is
        smaller from about 14 coefficients on.

    Attributes
    ----------
    classes_
        The labels.
    coef_, intercept_
        Coefficients, shape (1, features), and what the constant column adds to every margin, shape (1,);
        with K > 2 classes shapes (K, features) and (K,), adding up to 0 over the classes.
    coef_grid_
        Integers, the constant's last: the release itself. Everything else follows from it and public values:
        ``coef_grid_ * grid_`` is the minimiser, ``stretch_`` times it are the coefficients, and
        ``intercept_scaling_`` times the last of them is the intercept. With more than two classes shape
        (K, n), not yet centred over the classes.
    grid_
        Width of the public grid.
    intercept_scaling_, stretch_
        The number in the constant column (1 without such a column), and the factor of the coefficients.
    epsilons_
        What was spent on each person, never above the promise; in the order of the records or, with
        ``people``, of the promises. Read-only.
    delta_
        The delta with which ``epsilons_`` hold; 0.0 without one.
    people_
        The people of ``epsilons_`` if they have names, or None.
    loss_weights_
        The weight of each person in the objective, in the order of ``epsilons_``: a function of promises and
        public constants. Read-only.
    l2_, noise_rate_, row_bound_, rows_per_person_, numerical_epsilon_
        The penalty, the noise rate, the bounds on rows with their constant and on the rows of a person that
        were charged, and what releasing cost (at most what was set aside).
    noise_shape_, euclidean_bound_
        The shape of the noise and the Euclidean bound on rows with their constant that was charged; None
        for Euclidean noise, whose bound is ``row_bound_``.
    release_plan_
        The public :class:`~dpmarket.privacy.grid.ReleasePlan`: with the constants above it lets anybody
        check what releasing cost.
    noise_standard_error_
        Public bound on the root mean square, over coefficients, of the standard deviation that the noise
        causes in them: ``sqrt(B / n) / (noise_rate * l2)``, times ``stretch_``, with B of
        :func:`~dpmarket.privacy.shapes.noise_power`. What the data fix well varies less.
    certifiable_
        Whether the noise was secure and the classes were declared.

    Notes
    -----
    Guaranteed:

    * Replacing everything that one person contributed changes the probability of no set of released models
      by more than the factor ``exp(epsilon)`` of that person, and ``delta_``: for the numbers really
      computed, not for an idealisation of them.
    * Records of people whose promise is 0, or at most ``numerical_epsilon``, have no influence at all.
    * No iteration count, loss, noise or time is kept.

    Not promised: what a score on private records tells (a release of its own), how long ``fit`` takes, and
    what error messages tell. Messages contain no value of a record, but that a fit was refused may depend on
    the records, so they are for the data holder's eyes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(500, 2))
    >>> y = np.where(X[:, 0] > 0.0, "yes", "no")
    >>> epsilons = np.where(np.arange(500) < 250, 0.5, 2.0)
    >>> model = PrivateLogisticRegression(classes=("no", "yes")).fit(X, y, epsilons=epsilons)
    >>> bool((model.epsilons_ <= epsilons).all()), model.certifiable_
    (True, True)
    """

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Refuse arguments of other estimators, with the reason."""
        # Looked at here because scikit-learn takes every argument of __init__ for a parameter.
        refuse_known(named)
        return object.__new__(cls)

    def __init__(
        self,
        l2: float | None = None,
        epsilon: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        classes: Sequence[Any] | None = None,
        clip: bool = False,
        numerical_epsilon: float = 1e-6,
        rows_per_person: int = 1,
        noise_source: NoiseSource | None = None,
        stretch: float | None = None,
        noise_shape: NoiseShape | None = None,
        delta: float | None = None,
    ) -> None:
        self.l2 = l2
        self.epsilon = epsilon
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.clip = clip
        self.numerical_epsilon = numerical_epsilon
        self.rows_per_person = rows_per_person
        self.noise_source = noise_source
        self.stretch = stretch
        self.noise_shape = noise_shape
        self.delta = delta

    def fit(
        self,
        X: Any,
        y: Any,
        epsilons: ArrayLike | Mapping[Any, float] | Prepared | None = None,
        people: ArrayLike | None = None,
        account: PrivacyAccount | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit and release a model.

        Parameters
        ----------
        X
            Features, shape (records, features): an array, a data frame or a CSR matrix.
        y
            Labels, shape (records,), of two classes or more.
        epsilons
            The promises: one per record; or, with ``people``, a mapping from owner to promise, or an array
            per person (of another length than the records) that ``people`` numbers from 0. Or prepared
            :class:`~dpmarket.privacy.weights.Weights`, whose constants then replace this estimator's. None
            means the constructor's ``epsilon`` for everybody.
        people
            Owner of each record, shape (records,). A person's weight is split evenly over the person's
            records.
        account
            Keeps what each person has left over many models, in epsilon and in delta
            (:class:`~dpmarket.privacy.account.Account`); everybody is charged before noise is drawn.

        Returns
        -------
        Self

        Raises
        ------
        InvalidInput
            For promises that are NaN, negative, infinite, text, of a wrong length or all 0; rows longer than
            1 (without ``clip``); features that are not finite numbers; labels of one class only or not
            declared; more records of a person than ``rows_per_person``. All before noise is drawn.
        Infeasible
            If no noise keeps the promises at this ``l2``, ``numerical_epsilon`` is too small to compute
            with, or the account has too little left for somebody: nobody is charged then.
        EntropyUnavailable
            If the operating system gives no random bits.
        """
        refuse_arguments("fit", unknown)
        source = self._settings()
        shape = shape_of(self.noise_shape, X)
        refuse_other_index(X, epsilons, people)
        count = number_of_records(X, y)
        if count is None:
            validated(self, X, y, accept_sparse="csr")
            raise InvalidInput("expected as many labels as records.")
        promised, holding = read_promises(self.epsilon, epsilons, people, count, self.rows_per_person)
        X, y, kept = taking_part(X, y, promised, holding, float(self.numerical_epsilon))
        x, y = validated(self, X, y, accept_sparse="csr")
        classes = read_classes(self.classes, y)
        geometry = self._geometry(x.shape[1], shape, len(classes))
        labels = geometry.labels(classes, y)
        charge = geometry.charging(account, holding.n_people)
        weights = self._weights(promised, geometry)
        own = holding.record_weights(weights.loss_weights)[kept]
        rows = Rows(x, labels, own, constant=bool(self.fit_intercept))
        shorten = clipping_scales if self.clip else rounding_scales
        rows = replace(rows, scales=shorten(rows, geometry.shape))
        geometry.check_source(source)
        plan = geometry.plan(weights)
        problem = geometry.problem(rows, weights, plan)
        problem.check_attainable(geometry.largest_noise(weights.noise_rate))
        spent = weights.privacy_losses()
        spent = np.where(weights.loss_weights > 0.0, spent + plan.numerical_epsilon, 0.0)
        if isinstance(promised, np.ndarray):
            # The plan keeps one per cent of the reserve back, far more than this sum can be off by rounding.
            spent = np.minimum(spent, promised)
        charge(holding.names(), spent)
        noise = geometry.noise(source, weights.noise_rate, plan.noise_accuracy)
        high, low = problem.minimise(*noise)
        cells = round_to_grid(high, low, plan.grid)
        stretch = self._stretch(weights, geometry, not isinstance(promised, np.ndarray))
        self._release(cells, plan, weights, geometry, stretch)
        self.epsilons_ = read_only(spent)
        self.delta_ = 0.0 if self.delta is None else float(self.delta)
        self.people_ = holding.people
        self.classes_ = classes
        secure = isinstance(source, SecureNoise) and bool(source.certifiable)
        self.certifiable_ = secure and self.classes is not None
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return ``X . coef + intercept``.

        Shape (records,) for two classes, above 0 means the second one; otherwise (records, classes), and the
        largest wins.
        """
        check_is_fitted(self)
        carried = carried_shape(X)
        if carried is not None and carried != self.noise_shape_:
            raise InvalidInput("expected rows encoded as those of the fit were: their noise shapes differ.")
        x = validated(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = np.asarray(x @ self.coef_.T, dtype=np.float64)
        if self.clip:
            rows = Rows(x, np.ones(x.shape[0]), np.ones(x.shape[0]))
            scales = clipping_scales(rows, self.noise_shape_)
            scores = scores * scales[:, None] if scales.size else scores
        scores = np.asarray(scores + self.intercept_)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """Return the likelier class of each row, shape (records,)."""
        scores = self.decision_function(X)
        places = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[places])

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of the classes, shape (records, classes)."""
        scores = self.decision_function(X)
        return (
            np.column_stack([expit(-scores), expit(scores)]) if scores.ndim == 1 else softmax(scores, axis=1)
        )

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithms of the probabilities, shape (records, classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return np.asarray(log_softmax(scores, axis=1))

    def published(self) -> Self:
        """Return a copy for other people's eyes: without what was promised to whom.

        ``epsilons_``, ``loss_weights_`` and ``people_`` are left out, so that a pickled model does not carry
        them. The coefficients and every public constant stay; predictions are the same.

        Returns
        -------
        Self
        """
        check_is_fitted(self)
        model = copy.copy(self)
        for name in ("epsilons_", "loss_weights_", "people_"):
            del model.__dict__[name]
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = not isinstance(self.noise_source, SeededNoise)
        return tags

    def _settings(self) -> NoiseSource:
        """Check the constructor's arguments; return the noise source."""
        if self.l2 is not None:
            checks.positive("l2", self.l2)
        if self.stretch is not None:
            checks.positive("stretch", self.stretch)
        if self.epsilon is not None:
            checks.positive("epsilon", self.epsilon)
        for name in ("fit_intercept", "clip"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InvalidInput(f"expected {name} to be True or False, got {getattr(self, name)!r}.")
        if self.intercept_scaling is not None:
            check_constant("intercept_scaling", self.intercept_scaling)
        checks.positive("numerical_epsilon", self.numerical_epsilon)
        checks.whole("rows_per_person", self.rows_per_person, minimum=1)
        if self.delta is not None:
            checked_delta(self.delta, float(self.numerical_epsilon))
        if self.noise_source is None:
            return SecureNoise()
        if not callable(getattr(self.noise_source, "draw", None)):
            raise InvalidInput("expected noise_source to be None or a noise source with a method draw.")
        return self.noise_source

    def _geometry(self, features: int, shape: NoiseShape | None, classes: int) -> Any:
        """Return what is public about the rows, for two classes or for more."""
        geometry = geometry_of(features, self.intercept_scaling, shape, wanted=bool(self.fit_intercept))
        if self.delta is not None:
            return GaussianGeometry.of(geometry, classes, float(self.delta))
        return geometry if classes == 2 else SoftmaxGeometry(geometry, classes)

    def _weights(self, promised: FloatArray | Prepared, geometry: Any) -> Any:
        rows = int(self.rows_per_person)
        if not isinstance(promised, np.ndarray):
            geometry.check_prepared(promised, rows)
            return self._prepared(promised)
        reserve = float(self.numerical_epsilon)
        l2 = self.l2
        if l2 is None:
            l2 = geometry.suggested_l2(usable_promises(promised, reserve), rows)
        return geometry.weights(promised, float(l2), rows, reserve)

    def _stretch(self, weights: Any, geometry: Any, prepared: bool) -> float:
        if self.stretch is not None:
            return float(self.stretch)
        if self.l2 is not None or prepared:
            return 1.0
        return float(geometry.suggested_stretch(weights))

    def _prepared(self, weights: Prepared) -> Prepared:
        if not weights.numerical_epsilon > 0.0:
            raise InvalidInput("expected prepared weights with numerical_epsilon > 0, got 0.")
        if self.l2 is not None and self.l2 != weights.l2:
            raise InvalidInput(
                f"expected l2 to be None or that of the prepared weights, {weights.l2!r}, got {self.l2!r}."
            )
        return weights

    def _release(
        self, cells: IntArray, plan: ReleasePlan, weights: Any, geometry: Any, stretch: float
    ) -> None:
        values = geometry.coefficients(cells, plan.grid) * stretch
        features = geometry.features
        constant = geometry.constant or 1.0
        self.coef_grid_ = geometry.arranged(cells)
        self.grid_ = plan.grid
        self.release_plan_ = plan
        self.coef_ = values[:, :features]
        self.intercept_ = values[:, features] * constant if self.fit_intercept else np.zeros(len(values))
        self.intercept_scaling_ = constant
        self.stretch_ = stretch
        self.l2_ = weights.l2
        self.noise_rate_ = weights.noise_rate
        self.loss_weights_ = read_only(weights.loss_weights.copy())
        self.row_bound_ = weights.row_bound
        self.rows_per_person_ = weights.rows_per_person
        self.numerical_epsilon_ = plan.numerical_epsilon
        self.noise_shape_ = geometry.shape
        self.euclidean_bound_ = weights.euclidean_bound
        self.noise_standard_error_ = stretch * geometry.standard_error(weights)


# Python shows the arguments of __new__ where there is one; those of __init__ are meant.
PrivateLogisticRegression.__new__.__signature__ = inspect.signature(  # type: ignore[attr-defined]
    PrivateLogisticRegression.__init__
)
