r"""Private linear models: scikit-learn's faces of one release.

Each estimator names a loss (:mod:`dpmarket.privacy.loss`) and what its labels and predictions mean. To add
one, copy :class:`PrivateLinearSVC`: a loss, labels as the loss takes them, and ``predict``. What all share is
one release: weights from epsilons, exact noise, a minimiser with a proof, the grid; or, with a delta, a noisy
descent in whole numbers.

Without a delta rows must have norm at most 1 in the declared ``noise_norm``; the constant column is part of
the row for the accounting, and its coefficient is penalised like the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit
from sklearn.base import RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput, NotConverged
from dpmarket.learning.curvature import Split, release_hessian, split_epsilons
from dpmarket.learning.descent import descend, gradient_clip
from dpmarket.learning.estimator import MANY_ROWS, Charge, Classifier, PrivateEstimator, Probabilities
from dpmarket.learning.intervals import IntervalsMixin
from dpmarket.learning.minimiser import check_attainable, minimise
from dpmarket.learning.people import Holding
from dpmarket.learning.records import Records
from dpmarket.learning.rows import Rows, row_scales
from dpmarket.learning.spread import released
from dpmarket.learning.sums import largest_noise
from dpmarket.learning.validation import numbers_of, read_classes, validated
from dpmarket.numerics import exact_sum
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.descent import Descent
from dpmarket.privacy.grid import round_to_grid
from dpmarket.privacy.loss import Loss, Softmax, hinge_loss, log_cosh_loss, logistic_loss, quantile_loss
from dpmarket.privacy.noise import Bits, NoiseSource, checked_source
from dpmarket.privacy.noise_norm import NoiseNorm, suggested_constant
from dpmarket.privacy.release import Release, default_l2, shrinkage_correction, usable_epsilons
from dpmarket.progress import Progress

_REGRESSION_SHARE = 0.25
_LABEL_BOUND = 2.0**10


@dataclass(kw_only=True, eq=False, repr=False)
class _PrivateLinearModel(IntervalsMixin, PrivateEstimator):
    """Parameters and the fit that all estimators of this module share.

    Parameters
    ----------
    epsilon
        The common privacy budget, > 0, used where ``fit`` is given no ``epsilons``.
    delta
        None for pure epsilon. Otherwise the delta of everybody's (epsilon, delta) guarantee, at most
        ``1 / (10 people)``: training is a noisy descent (:mod:`dpmarket.privacy.descent`), rows may have any
        length and people any number of records; l2, clip, rows_per_person and numerical_epsilon do not count.
    l2
        The ridge penalty Lambda, > 0, in the objective whose loss weights add up to 1. None means
        :func:`~dpmarket.privacy.release.default_l2`.
    fit_intercept, intercept_scaling
        Whether to add the constant column, and the number in it, a power of two. None means
        :func:`~dpmarket.privacy.noise_norm.suggested_constant`.
    clip
        Whether rows longer than 1 are shortened to 1, in ``fit`` and in prediction. If not, ``fit`` refuses
        them.
    noise_norm
        The norm of the noise and of rows, as an encoder declares it; None for the Euclidean norm.
    private
        "records", or "labels" where features are public: about half the epsilon for the same model. Offered
        where the label enters the loss's target alone.
    rows_per_person
        Public upper bound on the number of records of one person, used with ``people``. More are refused.
    numerical_epsilon
        The part of every epsilon set aside for releasing rounded numbers, > 0; people with no more than this
        have no influence.
    noise_source
        Where the noise comes from; None means :class:`~dpmarket.privacy.noise.SecureNoise`.

    Attributes
    ----------
    coef_, intercept_
        Coefficients and what the constant column adds to every output.
    coef_grid_, grid_, release_plan_
        Without a delta: integers of shape (outputs, n), the constant's last, and the public grid. The
        integers are the release; everything else follows from them and public values.
    release_, noise_rate_, l2_, shrinkage_correction_
        Without a delta: the :class:`~dpmarket.privacy.release.Release`, the rate of its noise, the penalty,
        and the public factor between the released integers and ``coef_``.
    descent_
        With a delta: the :class:`~dpmarket.privacy.descent.Descent`.
    epsilons_, delta_
        What was spent on each person, never above the budget, in the order of the records or, with
        ``people``, of the budgets; and the delta, 0.0 without one. Read-only.
    loss_weights_, people_
        The weight of each person, a function of budgets and public constants; and the people if they have
        names, or None.
    description_
        Everything public about the release, as plain data: what a certificate states.
    certifiable_
        Whether the noise source says that its noise is secret, and nothing public was read from the labels.
    effective_people_
        As many people with equal weights would have the same sampling error. Public.
    hessian_
        With ``intervals=``: the :class:`~dpmarket.learning.curvature.NoisyHessian`. Public.

    Notes
    -----
    Guaranteed:

    * Replacing everything that one person contributed changes the probability of no set of released models
      by more than the factor ``exp(epsilon)`` of that person, and ``delta_``: for the numbers really
      computed, not for an idealisation of them.
    * Records of people whose budget is 0, or at most ``numerical_epsilon``, have no influence at all, not
      even on whether a fit is refused.
    """

    epsilon: float | None = None
    delta: float | None = None
    l2: float | None = None
    fit_intercept: bool = True
    intercept_scaling: float | None = None
    clip: bool = False
    noise_norm: NoiseNorm | None = None
    private: Literal["records", "labels"] = "records"
    rows_per_person: int = 1
    numerical_epsilon: float = 1e-6
    noise_source: NoiseSource | None = None
    _share: ClassVar[float | None] = None
    """Of :func:`~dpmarket.privacy.release.default_l2`; None also undoes a part of the penalty's shrinkage."""

    def _read_labels(self, y: Any) -> tuple[Loss, FloatArray]:
        """Return the loss and the labels as it takes them."""
        raise NotImplementedError

    def _fit(
        self, X: Any, y: Any, epsilons: Any, people: Any, account: PrivacyAccount | None,
        intervals: float | None, progress: Progress | None,
    ) -> None:  # fmt: skip
        self._check_settings()
        rows = int(self.rows_per_person) if self.delta is None else MANY_ROWS
        records, budgets = self._read(X, y, epsilons, people, account, rows, self._reserve)
        loss, labels = self._read_labels(records.labels)
        records, holding = replace(records, labels=labels), records.holding
        self._fit_records(records, loss, budgets, holding, account, intervals, progress)

    def _fit_records(
        self, records: Records, loss: Loss, budgets: FloatArray, holding: Holding,
        account: PrivacyAccount | None, intervals: float | None = None, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """Release a model of checked records, also of those on many machines; these have no intervals."""
        split = None if intervals is None else self._split(intervals, loss, records.n_features, budgets)
        charge = self._charging(account, holding, split)
        budgets = budgets if split is None else split.left
        if self.delta is None:
            self._perturb(records, loss, budgets, charge)
        else:
            self._descend_linearly(records, loss, budgets, charge, progress)
        if split is not None:
            self._release_hessian(split, records)
        self._finish(holding, account)

    @property
    def _reserve(self) -> float:
        """What is set aside of every epsilon for the grid."""
        return float(self.numerical_epsilon) if self.delta is None else 0.0

    def _check_settings(self) -> None:
        for name in ("l2", "epsilon", "intercept_scaling"):
            if getattr(self, name) is not None:
                checks.positive(name, getattr(self, name))
        for name in ("fit_intercept", "clip"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InvalidInput(f"expected {name} to be True or False, got {getattr(self, name)!r}.")
        checks.positive("numerical_epsilon", self.numerical_epsilon)
        checks.whole("rows_per_person", self.rows_per_person, minimum=1)
        if self.noise_norm is not None and not isinstance(self.noise_norm, NoiseNorm):
            raise InvalidInput("expected noise_norm to be a NoiseNorm or None.")
        if self.private not in ("records", "labels"):
            raise InvalidInput("expected private to be 'records' or 'labels'.")
        if self.delta is not None and self.private == "labels":
            raise InvalidInput("expected private='records' with a delta: clipping mixes features and labels.")
        checked_source(self.noise_source)

    def _norm(self, features: int) -> NoiseNorm:
        own = NoiseNorm.euclidean(features) if self.noise_norm is None else self.noise_norm
        separate, bound, constant = own.separate, own.euclidean_bound, self.intercept_scaling
        if len(separate) != features:
            raise InvalidInput(
                f"expected a noise_norm of {features} features, as X has, got one of {len(separate)}."
            )
        if constant is None:
            constant = suggested_constant(separate, bound)
        return NoiseNorm(separate, bound, constant if self.fit_intercept else None)

    def _split(self, share: float, loss: Loss, features: int, budgets: FloatArray) -> Split:
        """Divide epsilons between a noisy Hessian and the model, or refuse."""
        if self.private == "labels":
            raise InvalidInput(
                "expected no intervals= with private='labels': X is public there, pass it as public_rows."
            )
        epsilons = np.where(budgets > self._reserve, budgets, 0.0)
        clip = None if self.delta is None else gradient_clip(loss)
        return split_epsilons(loss, self._norm(features), share, epsilons, clip=clip)

    def _release_hessian(self, split: Split, records: Records) -> None:
        """Release the Hessian at the released coefficients; its owners were charged with the model."""
        norm = split.plan.norm
        people = records.people(split.weights, norm.constant)
        stream = checked_source(self.noise_source).bits()
        self.hessian_ = release_hessian(split.plan, people, released(self, norm), stream)
        self.epsilons_: FloatArray = split.total(self.epsilons_)
        self.description_ = {**self.description_, "intervals": self.hessian_.to_dict()}

    def _perturb(self, records: Records, loss: Loss, budgets: FloatArray, charge: Charge) -> None:
        """Release a model by objective perturbation: debit first, then noise, then the release."""
        norm, l2 = self._norm(records.n_features), self.l2
        if l2 is None:
            total_epsilon = exact_sum(usable_epsilons(budgets, self._reserve))
            l2 = default_l2(loss, norm, total_epsilon, self.private, share=self._share)
        release = Release(loss, norm, l2, int(self.rows_per_person), self.private)
        shares, rate = release.weights(budgets, self._reserve)
        total = exact_sum(shares) * (1.0 + 1e-9)
        plan = release.grid_plan(self._reserve, rate, total)
        sums = records.sums(release, shares, clip=bool(self.clip))
        largest = largest_noise(loss.outputs, norm.n_coefficients, rate)
        check_attainable(sums.errors, release.l2, largest, plan.gradient_bound, 2.0**52 * plan.grid)
        spent = np.where(shares > 0.0, release.epsilons(shares, rate) + plan.numerical_epsilon, 0.0)
        if (spent > budgets).any():  # one per cent of the reserve is left for the rounding of this sum
            raise NotConverged("expected weights that keep every epsilon after rounding, found none.")
        charge(spent)
        stream = checked_source(self.noise_source).bits()
        high, low = norm.draw(stream, loss.outputs, rate, plan.noise_accuracy)
        minimum = minimise(sums, release.l2, high, low, plan.gradient_bound)
        cells = round_to_grid(minimum.high.ravel(), minimum.low.ravel(), plan.grid).reshape(high.shape)
        self.coef_grid_, self.grid_, self.release_plan_ = cells, plan.grid, plan
        self.release_, self.noise_rate_, self.l2_ = release, rate, release.l2
        self.loss_weights_, self.epsilons_, self.delta_ = shares, read_only(spent), 0.0
        corrected = self.l2 is None and self._share is None
        self.shrinkage_correction_ = shrinkage_correction(release, rate) if corrected else 1.0
        self._keep(_centred(np.asarray(cells * plan.grid)) * self.shrinkage_correction_, norm.constant)
        self.description_ = {
            "release": release.to_dict(),
            "noise_rate": rate,
            "weight_total": total,
            "grid": plan.grid,
            "gradient_bound": plan.gradient_bound,
            "noise_accuracy": plan.noise_accuracy,
            "numerical_epsilon": plan.numerical_epsilon,
            "cells": cells.tolist(),
        }

    def _descend_linearly(
        self, records: Records, loss: Loss, budgets: FloatArray, charge: Charge, progress: Progress | None
    ) -> None:
        norm = self._norm(records.n_features)
        delta = checks.strictly_between("delta", self.delta, 0.0, 1.0)
        descent, whole = Descent.for_epsilons(budgets, delta, loss.outputs * norm.n_coefficients)
        people = records.people(whole, norm.constant)

        def run(bits: Bits) -> FloatArray:
            return descend(people, loss, descent, bits, progress)

        values = self._descend(descent, whole, loss.to_dict(), charge, run)
        self._keep(_centred(values), norm.constant)

    def _keep(self, values: FloatArray, constant: float | None) -> None:
        """Keep coefficients of shape (outputs, n) in the usual attributes."""
        self.intercept_scaling_ = 1.0 if constant is None else constant
        self.coef_ = values if constant is None else values[:, :-1]
        self.intercept_: Any = np.zeros(len(values)) if constant is None else values[:, -1] * constant

    def _outputs(self, X: Any) -> FloatArray:
        """Return ``X . coef + intercept``, shape (records, outputs)."""
        check_is_fitted(self)
        x = validated(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = np.asarray(x @ np.atleast_2d(self.coef_).T, dtype=np.float64)
        if self.clip and self.delta is None:
            ones = np.ones(len(scores))
            scales = row_scales(Rows(x, ones, ones), self.release_.norm, clip=True)
            scores = scores * scales[:, None] if scales.size else scores
        return np.asarray(scores + self.intercept_)


def _centred(values: FloatArray) -> FloatArray:
    """Return released coefficients without what all outputs of a softmax share: it is noise only."""
    return values if len(values) == 1 else np.asarray(values - values.mean(axis=0))


@dataclass(eq=False, repr=False)
class PrivateLogisticRegression(Probabilities, Classifier, _PrivateLinearModel):
    """Logistic regression, softmax for more than two classes, with a privacy budget for every person.

    Parameters
    ----------
    classes
        The labels, at least two, of two the negative one first. None reads them from ``y`` and so treats the
        set of labels as public; a certificate needs them declared.
    epsilon, delta, l2, fit_intercept, intercept_scaling, clip, noise_norm, private, rows_per_person, \
numerical_epsilon, noise_source
        See the module's common parameters.

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

    classes: Sequence[Any] | None = None

    def _linked(self, scores: FloatArray) -> FloatArray:
        return np.asarray(expit(scores))

    def _read_labels(self, y: Any) -> tuple[Loss, FloatArray]:
        self.classes_ = read_classes(self.classes, y)
        loss = logistic_loss() if len(self.classes_) == 2 else Softmax(len(self.classes_))
        return loss, numbers_of(self.classes_, y)


@dataclass(eq=False, repr=False)
class PrivateLinearSVC(Classifier, _PrivateLinearModel):
    """A linear support vector classifier of two classes, its hinge smoothed over ``width``.

    Parameters
    ----------
    classes
        The two labels, the negative one first; None reads them from ``y`` and so treats them as public.
    width
        Width of the smoothed corner of the hinge, in units of the margin, > 0. Smaller needs a larger
        penalty.
    epsilon, delta, l2, fit_intercept, intercept_scaling, clip, noise_norm, private, rows_per_person, \
numerical_epsilon, noise_source
        See the module's common parameters.

    Examples
    --------
    >>> X, y = np.array([[0.5], [-0.5]] * 200), np.array([1, 0] * 200)
    >>> model = PrivateLinearSVC(classes=(0, 1), epsilon=1.0).fit(X, y)
    >>> model.predict([[0.4], [-0.4]]).tolist()
    [1, 0]
    """

    _share: ClassVar[float | None] = 1.0

    classes: Sequence[Any] | None = None
    width: float = 0.5

    def _read_labels(self, y: Any) -> tuple[Loss, FloatArray]:
        self.classes_ = read_classes(self.classes, y)
        if len(self.classes_) != 2:
            raise InvalidInput(
                f"Only binary classification is supported: expected two classes, got {len(self.classes_)}."
            )
        return self._loss(), numbers_of(self.classes_, y)

    def _loss(self) -> Loss:
        return hinge_loss(self.width)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class _PrivateRegressor(RegressorMixin, _PrivateLinearModel):  # type: ignore[misc]
    """Labels and predictions in units of ``scale`` around ``center``."""

    _share: ClassVar[float | None] = _REGRESSION_SHARE
    center: float
    scale: float

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _read_labels(self, y: Any) -> tuple[Loss, FloatArray]:
        center, scale = checks.finite("center", self.center), checks.positive("scale", self.scale)
        labels = (np.asarray(y, dtype=np.float64) - center) / scale
        return self._loss(), np.clip(labels, -_LABEL_BOUND, _LABEL_BOUND)

    def _keep(self, values: FloatArray, constant: float | None) -> None:
        super()._keep(values * float(self.scale), constant)
        self.coef_ = self.coef_[0]
        self.intercept_ = float(self.intercept_[0]) + float(self.center)

    def predict(self, X: Any) -> FloatArray:
        """Return the predicted label of each row, shape (records,)."""
        return self._outputs(X)[:, 0]


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(_PrivateRegressor):
    """Linear regression with the log-cosh loss: squares of small errors, absolute values of large ones.

    Parameters
    ----------
    center, scale
        A public guess of the labels' mean and standard deviation, in their units: a wrong one fits badly, and
        no error can say so without looking at private labels. Labels further than 1,024 scales from the
        center count as that far.
    width
        Where errors start to count linearly, in units of ``scale``, > 0.
    epsilon, delta, l2, fit_intercept, intercept_scaling, clip, noise_norm, private, rows_per_person, \
numerical_epsilon, noise_source
        See the module's common parameters. Rows scaled with ``PublicScaler(low, high, radius=1.5)`` suit
        regressions better than the default radius of 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(2000, 2))
    >>> y = 100.0 + 20.0 * X[:, 0]
    >>> model = PrivateLinearRegression(center=100.0, scale=6.0, epsilon=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    center: float
    scale: float
    width: float = 0.3

    def _loss(self) -> Loss:
        return log_cosh_loss(self.width, _LABEL_BOUND)


@dataclass(eq=False, repr=False)
class PrivateQuantileRegressor(_PrivateRegressor):
    """Regression of a quantile, with a smoothed pinball loss.

    Parameters
    ----------
    quantile
        Which share of labels lies below the predicted value, strictly between 0 and 1.
    center, scale
        As for :class:`PrivateLinearRegression`.
    width
        Width of the smoothed corner, in units of ``scale``, > 0.
    epsilon, delta, l2, fit_intercept, intercept_scaling, clip, noise_norm, private, rows_per_person, \
numerical_epsilon, noise_source
        See the module's common parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.zeros((4000, 1))
    >>> y = rng.uniform(0.0, 1.0, 4000)
    >>> model = PrivateQuantileRegressor(0.9, center=0.5, scale=0.3, epsilon=1.0).fit(X, y)
    >>> 0.8 < model.intercept_ < 1.0
    True
    """

    quantile: float
    center: float
    scale: float
    width: float = 0.1

    def _loss(self) -> Loss:
        return quantile_loss(self.quantile, self.width, _LABEL_BOUND)


@dataclass(eq=False, repr=False)
class PrivateBinomialRegression(_PrivateRegressor):
    """Logistic regression of shares: labels from 0 to 1, such as successes divided by trials.

    Fractions cost no more than yes or no.

    Parameters
    ----------
    epsilon, delta, l2, fit_intercept, intercept_scaling, clip, noise_norm, private, rows_per_person, \
numerical_epsilon, noise_source
        See the module's common parameters.

    Examples
    --------
    >>> X, y = np.array([[0.5], [-0.5]] * 500), np.array([0.9, 0.1] * 500)
    >>> model = PrivateBinomialRegression(epsilon=1.0).fit(X, y)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.9) < 0.15)
    True
    """

    _share: ClassVar[float | None] = None
    center: float = field(default=0.0, init=False)
    scale: float = field(default=1.0, init=False)

    def _read_labels(self, y: Any) -> tuple[Loss, FloatArray]:
        labels = np.asarray(y, dtype=np.float64)
        if not bool(((labels >= 0.0) & (labels <= 1.0)).all()):
            raise InvalidInput("expected every label to be a share from 0 to 1; some are not.")
        return logistic_loss(), labels

    def predict(self, X: Any) -> FloatArray:
        """Return the expected share of each row, shape (records,)."""
        return self._linked(self._outputs(X)[:, 0])

    def _linked(self, scores: FloatArray) -> FloatArray:
        return np.asarray(expit(scores))
