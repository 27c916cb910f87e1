r"""Turn weights and promises into the error to expect: how much of it is noise, how much few people.

Training sees the mean gradient of the records, weighted by ``a``, plus noise ``b'``. For records that do not
depend on the weights the error of that gradient has, exactly,

.. math:: E|error|^2 = |a|^2\, tr\, Cov(g) + E|b'|^2,

and both terms are known before anybody reports: the spread of one gradient within narrow bounds, the noise
exactly. In units of the total promise (the sum of the epsilons) this is ``sampling * |a|^2 + noise/total^2``
with two public numbers, the :class:`ErrorModel`. Another model, another shape of noise or a statistic is
another pair of numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput

SCHEMA = "dpmarket.expected-error/1"
# tr Cov(g) in units of R^2: at most 1/4, reached by coefficients of 0 and rows of full length.
_USUAL_SPREAD = 0.2
# The length of the mean gradient of usual records at coefficients of 0, in units of R; at most 1/2.
_USUAL_GRADIENT = 0.2


@dataclass(frozen=True)
class ErrorModel:
    """What uneven weights and noise add to the mean squared error of a gradient, or of a statistic.

    The expected error of weights ``a`` (1 in sum) and a total promise ``eta`` (the sum of the epsilons) is
    ``sampling * |a|^2 + noise / eta^2``. All three numbers are public: they follow from the number of
    coefficients, the row bound and the shape of the noise, never from a record or a report.

    Parameters
    ----------
    sampling : float
        Squared error of one single record, above 0.
    noise : float
        Squared error of the noise at a total promise of 1, above 0.
    signal : float
        Squared length of what usual data have to tell, above 0: more error than this drowns it.

    Raises
    ------
    InvalidInput
        If a number is not above 0.

    See Also
    --------
    logistic_error : the numbers of a logistic regression.

    Examples
    --------
    >>> model = ErrorModel(sampling=0.2, noise=80.0, signal=0.04)
    >>> model.predict(squared_norm=0.01, total_promise=100.0).total
    0.01
    """

    sampling: float
    noise: float
    signal: float

    def __post_init__(self) -> None:
        for name in ("sampling", "noise", "signal"):
            object.__setattr__(self, name, checks.positive(name, getattr(self, name)))

    def predict(self, squared_norm: float, total_promise: float) -> ExpectedError:
        """Return the error of weights with this squared norm and of this sum of promises; infinite for 0."""
        if total_promise <= 0.0:
            return ExpectedError(math.inf, math.inf, self.signal)
        return ExpectedError(self.sampling * squared_norm, self.noise / total_promise**2, self.signal)

    def to_dict(self) -> dict[str, float]:
        """Return the three numbers by name."""
        return {"sampling": self.sampling, "noise": self.noise, "signal": self.signal}


@dataclass(frozen=True)
class ExpectedError:
    """The mean squared error of a gradient that is to be expected, in two parts.

    Attributes
    ----------
    sampling_part
        From few people, or uneven weights among many.
    noise_part
        From the noise that keeps the promises.
    signal
        Squared length of what usual data have to tell, to compare with.

    Examples
    --------
    >>> error = logistic_error(n_features=31, row_bound=1.03).predict(squared_norm=0.01, total_promise=400.0)
    >>> round(error.total, 4), round(error.noise_share, 2), error.dominates
    (0.0284, 0.93, False)
    >>> print(error.sentence())
    Of the expected error 93% is noise and 7% comes from few people.
    """

    sampling_part: float
    noise_part: float
    signal: float

    @property
    def total(self) -> float:
        """The sum of the two parts."""
        return self.sampling_part + self.noise_part

    @property
    def noise_share(self) -> float:
        """The share of noise in the expected error; 1 where nothing is bought."""
        return self.noise_part / self.total if math.isfinite(self.total) else 1.0

    @property
    def ratio(self) -> float:
        """The error's expected length as a multiple of what usual data have to tell."""
        return math.sqrt(self.total / self.signal)

    @property
    def dominates(self) -> bool:
        """Whether the error is longer than what usual data have to tell: about as good as guessing."""
        return self.total > self.signal

    def sentence(self) -> str:
        """Say what the error comes from."""
        share = round(100.0 * self.noise_share)
        return f"Of the expected error {share}% is noise and {100 - share}% comes from few people."

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name, with the schema's name and version."""
        return {
            "schema": SCHEMA,
            "total": self.total,
            "sampling_part": self.sampling_part,
            "noise_part": self.noise_part,
            "noise_share": self.noise_share,
            "ratio": self.ratio,
        }


def logistic_error(n_features: int, row_bound: float) -> ErrorModel:
    r"""Return the error model of a private logistic regression with two classes.

    .. math:: 0.2\, R^2 |a|^2 + \frac{4 n (n + 1) R^2}{\eta^2}

    The noise of :class:`~dpmarket.learning.PrivateLogisticRegression` has a length with a Gamma(n)
    distribution at scale ``2 R / eta``. A gradient has length ``R/2`` at coefficients of 0, so that its
    spread is at most ``R^2/4``; 0.2 allows for what records have in common.

    Parameters
    ----------
    n_features : int
        Number of coefficients, the constant's included if there is one.
    row_bound : float
        R, the length that no row exceeds, its constant included; ``row_bound_`` of a fitted estimator.

    Returns
    -------
    ErrorModel
        In units of a squared gradient.

    Raises
    ------
    InvalidInput
        If ``n_features`` is no whole number of at least 1, or ``row_bound`` is not above 0.

    Examples
    --------
    >>> model = logistic_error(n_features=31, row_bound=1.0)
    >>> model.sampling, model.noise
    (0.2, 3968.0)
    """
    n = checks.whole("n_features", n_features, minimum=1)
    bound = checks.positive("row_bound", row_bound)
    squared = bound * bound
    return ErrorModel(_USUAL_SPREAD * squared, 4.0 * n * (n + 1.0) * squared, (_USUAL_GRADIENT * bound) ** 2)


def softmax_error(n_features: int, row_bound: float, n_classes: int) -> ErrorModel:
    r"""Return the error model of a private softmax regression with K classes.

    .. math:: \left(1 - \frac{1}{K}\right) R^2 |a|^2 + \frac{16 (K - 1) n (n + 1) R^2}{\eta^2}

    Errors of all coefficients together, but for what all classes have in common, which no prediction depends
    on. A gradient has the squared length ``(1 - 1/K) R^2`` at coefficients of 0; a person's record moves the
    noise of two classes, so that the noise of each has twice the length that it has with two classes, and K -
    1 of K parts of it remain (:mod:`dpmarket.privacy.softmax`).

    Parameters
    ----------
    n_features : int
        Number of coefficients of one class, the constant's included if there is one.
    row_bound : float
        R, the length that no row exceeds, its constant included.
    n_classes : int
        K, at least 2. The estimator's model of two classes is :func:`logistic_error`.

    Returns
    -------
    ErrorModel
        In units of a squared gradient.

    Raises
    ------
    InvalidInput
        For numbers outside these ranges.

    Examples
    --------
    >>> model = softmax_error(n_features=31, row_bound=1.0, n_classes=4)
    >>> model.sampling, model.noise
    (0.75, 47616.0)
    """
    n = checks.whole("n_features", n_features, minimum=1)
    bound = checks.positive("row_bound", row_bound)
    classes = checks.whole("n_classes", n_classes, minimum=2)
    squared = bound * bound
    # K class means as far from each other as two usual ones: of K shares 1 / K each.
    signal = (2.0 * _USUAL_GRADIENT) ** 2 / classes * squared
    return ErrorModel(
        (1.0 - 1.0 / classes) * squared, 16.0 * (classes - 1.0) * n * (n + 1.0) * squared, signal
    )


def estimator_error(features: int, n_classes: int = 2) -> ErrorModel:
    """Return the error model of this project's estimator, as the market file trains it.

    Rows are scaled to length 1 by :class:`~dpmarket.learning.PublicScaler` and get a constant column, whose
    size follows from the number of features.

    Parameters
    ----------
    features : int
        Number of columns of a record, the constant not counted.
    n_classes : int
        K, at least 2.

    Returns
    -------
    ErrorModel
        In units of a squared gradient.

    Raises
    ------
    InvalidInput
        If ``features`` is no whole number of at least 1, or ``n_classes`` none of at least 2.

    Examples
    --------
    >>> estimator_error(30) == logistic_error(31, row_bound=1.0307764064044154)
    True
    """
    # Takes the solver along.
    from dpmarket.learning.problem import bound_with_constant, suggest_constant

    features = checks.whole("features", features, minimum=1)
    bound = bound_with_constant(suggest_constant(features))
    return classifier_error(features + 1, bound, n_classes)


def classifier_error(n_features: int, row_bound: float, n_classes: int) -> ErrorModel:
    """Return what the estimator trains: :func:`logistic_error`, or :func:`softmax_error` from three on."""
    if checks.whole("n_classes", n_classes, minimum=2) == 2:
        return logistic_error(n_features, row_bound)
    return softmax_error(n_features, row_bound, n_classes)


@runtime_checkable
class Decided(Protocol):
    """What has promises: an outcome, an allocation."""

    @property
    def epsilons(self) -> FloatArray:
        """The promise to each person, shape (m,)."""
        ...


@runtime_checkable
class Planned(Protocol):
    """What expects weights and promises: a plan."""

    @property
    def squared_norm(self) -> float:
        """Expected square of the weights' norm."""
        ...

    @property
    def inverse_square(self) -> float:
        """Expected inverse square of the total promise."""
        ...


def expected_error(purchase: Decided | Planned, error_model: ErrorModel) -> ExpectedError:
    """Return the mean squared error that a purchase, or a plan for one, lets expect.

    Parameters
    ----------
    purchase
        An outcome, an allocation, or anything else with ``epsilons``, to which weights are in proportion; or
        a plan. A function of reported costs at most, never of a record.
    error_model
        What noise and few people cost: :func:`logistic_error` with the number of coefficients and the row
        bound of the model that is, or will be, trained.

    Returns
    -------
    ExpectedError
        Its two parts and their sum; infinite if nothing was bought.

    Raises
    ------
    InvalidInput
        If ``purchase`` is none of these, or ``error_model`` no error model.

    Examples
    --------
    >>> from dpmarket.allocation import BuyerObjective, allocate
    >>> allocation = allocate([1.0, 1.0, 2.0], BuyerObjective(1.0, 30.0, 0.01))
    >>> error = expected_error(allocation, logistic_error(n_features=3, row_bound=1.25))
    >>> error.noise_part > error.sampling_part
    False
    """
    if not isinstance(error_model, ErrorModel):
        raise InvalidInput(
            f"expected an ErrorModel, as logistic_error makes it, got {type(error_model).__name__}."
        )
    if isinstance(purchase, Planned):
        return ExpectedError(
            error_model.sampling * purchase.squared_norm,
            error_model.noise * purchase.inverse_square,
            error_model.signal,
        )
    if not isinstance(purchase, Decided):
        raise InvalidInput(f"expected an outcome or a plan, got {type(purchase).__name__}.")
    promises = checks.non_negative_vector("epsilons", purchase.epsilons)
    total = float(promises.sum())
    weights = promises / total if total > 0.0 else promises
    return error_model.predict(float(weights @ weights), total)
