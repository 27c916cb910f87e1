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

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy import NoiseShape, noise_power
from dpmarket.statistics import StatisticError

SCHEMA = "dpmarket.expected-error/1"
# tr Cov(g) in units of R^2: at most 1/4, reached by coefficients of 0 and rows of full length.
_USUAL_SPREAD = 0.2
# The length of the mean gradient of usual records at coefficients of 0, in units of R; at most 1/2.
USUAL_GRADIENT = 0.2


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

    def hint(self) -> str | None:
        """Say that such a model is hardly worth fitting, where it is so; None where it is not."""
        if not self.dominates:
            return None
        return (
            f"the expected error is {self.ratio:.2g} times as long as what usual data have to tell: about as "
            "good as guessing. Fewer columns, larger promises or more people are needed."
        )

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
    return ErrorModel(_USUAL_SPREAD * squared, 4.0 * n * (n + 1.0) * squared, (USUAL_GRADIENT * bound) ** 2)


def estimator_error(features: int, noise_shape: NoiseShape | None = None, n_classes: int = 2) -> ErrorModel:
    r"""Return the error model of this project's estimator, as the market file trains it.

    Rows are scaled to length 1 by :class:`~dpmarket.learning.PublicScaler` and get a constant column, whose
    size follows from the number of features. With a shape of its own the noise has the mean square
    :math:`B R_1^2 / \eta^2` (:func:`~dpmarket.privacy.shapes.noise_power`), and rows are R2 long.

    Parameters
    ----------
    features : int
        Number of columns of a record, the constant not counted.
    noise_shape : NoiseShape or None
        The shape of the noise, as :class:`~dpmarket.learning.PublicEncoder` chooses it; None for Euclidean
        noise.
    n_classes : int
        How many labels there are, at least 2; of more than two see
        :func:`~dpmarket.planning.class_error.softmax_error`.

    Returns
    -------
    ErrorModel
        In units of a squared gradient.

    Raises
    ------
    InvalidInput
        If ``features`` is no whole number of at least 1, or there is a shape with more than two classes.

    Examples
    --------
    >>> estimator_error(30) == logistic_error(31, row_bound=1.0307764064044154)
    True
    """
    # Takes the solver along.
    from dpmarket.learning.geometry import geometry_of

    rows = geometry_of(checks.whole("features", features, minimum=1), None, noise_shape, wanted=True)
    if checks.whole("n_classes", n_classes, minimum=2) > 2:
        from dpmarket.planning.class_error import softmax_error  # which builds on this module

        if rows.shape is not None:
            raise InvalidInput("expected no noise_shape with more than two classes.")
        return softmax_error(rows.n_coefficients, rows.row_bound, n_classes)
    if rows.euclidean_bound is None:
        return logistic_error(rows.n_coefficients, rows.row_bound)
    length = rows.euclidean_bound
    noise = noise_power(rows.n_coefficients, rows.joint_columns) * rows.row_bound**2
    return ErrorModel(_USUAL_SPREAD * length**2, noise, (USUAL_GRADIENT * length) ** 2)


def statistic_error(statistic: Asked) -> ErrorModel:
    """Return the error model of a private statistic, so that prices are planned for it.

    Parameters
    ----------
    statistic
        A statistic of :mod:`dpmarket.statistics`, such as a mean with its public bounds, or several.

    Returns
    -------
    ErrorModel
        In units of the statistic, squared; of levels for a quantile; of what guessing costs for several.

    Raises
    ------
    InvalidInput
        If it is no statistic.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import plan_prices
    >>> from dpmarket.statistics import PrivateMean
    >>> model = statistic_error(PrivateMean(low=0, high=1))
    >>> round(plan_prices(Uniform(1, 5), 1000, 20.0, model).expected_error.total ** 0.5, 3)
    0.093
    """
    if not isinstance(statistic, Asked):
        raise InvalidInput(f"expected a statistic, such as a PrivateMean, got {type(statistic).__name__}.")
    error = statistic.error
    return ErrorModel(error.sampling, error.noise, error.signal)


@runtime_checkable
class Asked(Protocol):
    """What knows its own error: a statistic with its public bounds."""

    @property
    def error(self) -> StatisticError:
        """What spread and noise cost."""
        ...


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


def expected_error(purchase: Decided | Planned | ArrayLike, error_model: ErrorModel) -> ExpectedError:
    """Return the mean squared error that a purchase, or a plan for one, lets expect.

    Parameters
    ----------
    purchase
        An outcome, an allocation, or anything else with ``epsilons``, to which weights are in proportion;
        the promises themselves, an array; or a plan. A function of reported costs at most, never of a
        record.
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
    >>> print(expected_error([1.0] * 10_000, estimator_error(2_000)).hint())
    the expected error is 2 times as long as what usual data have to tell: about as good as guessing. ...
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
    if isinstance(purchase, Decided):
        purchase = purchase.epsilons
    elif not isinstance(purchase, list | tuple | np.ndarray):
        raise InvalidInput(f"expected an outcome, a plan or promises, got {type(purchase).__name__}.")
    promises = checks.non_negative_vector("epsilons", purchase)
    total = float(promises.sum())
    weights = promises / total if total > 0.0 else promises
    return error_model.predict(float(weights @ weights), total)
