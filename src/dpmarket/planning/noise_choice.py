r"""Say which noise is smaller for given promises: without a delta, shaped, or Gaussian with one.

In units of a squared gradient the noise of :mod:`dpmarket.planning.error_model` adds
:math:`4 n (n + 1) R^2 / (\sum \epsilon)^2`, shaped noise :math:`B R_1^2 / (\sum \epsilon)^2`, and Gaussian
noise :math:`4 n R^2 / (\sum \mu)^2`, where :math:`\mu_i` is what a promise allows at the delta
(:mod:`dpmarket.privacy.gaussian`): at epsilon 1 and delta 1e-5 about a quarter of it, so that Gaussian noise
is the smaller one from about 14 coefficients on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.planning.class_error import classifier_error
from dpmarket.planning.error_model import (
    Decided,
    ErrorModel,
    ExpectedError,
    estimator_error,
    expected_error,
)
from dpmarket.planning.plan import Plan
from dpmarket.privacy import NoiseShape, gaussian_suggest_l2, gaussian_weights_for

WORTH_SAYING = 0.9
"""A larger share of the error left is not worth a word."""
_USUAL_DELTA = 1e-5
_NAMES = {"pure": "noise without a delta", "shaped": "shaped noise", "gaussian": "Gaussian noise"}


def gaussian_error(n_features: int, row_bound: float, n_classes: int = 2) -> ErrorModel:
    r"""Return the error model of a model with Gaussian noise, in units of the sum of mu.

    .. math:: 0.2\, R^2 |a|^2 + \frac{4 n R^2}{(\sum \mu)^2}

    With K > 2 classes :math:`(1 - 1/K) R^2 |a|^2 + 8 (K - 1) n R^2 / (\sum \mu)^2`.

    Parameters
    ----------
    n_features : int
        Number of coefficients of one class, the constant's included if there is one.
    row_bound : float
        R, the length that no row exceeds, its constant included.
    n_classes : int
        K, at least 2.

    Returns
    -------
    ErrorModel
        In units of a squared gradient; its total promise is the sum of mu, not of epsilon.

    Raises
    ------
    InvalidInput
        For numbers outside these ranges.

    Examples
    --------
    >>> gaussian_error(101, row_bound=1.0).noise
    404.0
    """
    n = checks.whole("n_features", n_features, minimum=1)
    pure = classifier_error(n, row_bound, n_classes)
    blocks = 4.0 * n if n_classes == 2 else 8.0 * (n_classes - 1.0) * n
    return ErrorModel(pure.sampling, blocks * row_bound**2, pure.signal)


@dataclass(frozen=True)
class NoiseComparison:
    """What to expect of each kind of noise with the same promises.

    Attributes
    ----------
    errors
        By name: ``pure``, ``shaped`` (only for rows with a shape) and ``gaussian``.
    delta
        The delta of the last one.
    """

    errors: dict[str, ExpectedError]
    delta: float

    @property
    def best(self) -> str:
        """The name of the noise with the least expected error."""
        return min(self.errors, key=lambda name: self.errors[name].total)

    @property
    def gain(self) -> float:
        """The expected error with a delta as a share of the least one without."""
        without = min(error.total for name, error in self.errors.items() if name != "gaussian")
        return self.errors["gaussian"].total / without

    def sentence(self) -> str:
        """Say it."""
        if self.best != "gaussian":
            return f"A delta would gain nothing here: {_NAMES[self.best]} is the smaller one."
        return (
            f"With a delta of {self.delta:.2g} the expected error would be {self.gain:.0%} of what it is "
            "without: each epsilon then comes with this delta."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name."""
        return {
            "delta": self.delta,
            "best": self.best,
            "gain": self.gain,
            "errors": {name: error.to_dict() for name, error in self.errors.items()},
        }


def compare_noises(
    purchase: Decided | FloatArray | list[float],
    features: int,
    delta: float,
    *,
    noise_shape: NoiseShape | None = None,
    n_classes: int = 2,
) -> NoiseComparison:
    """Return the expected error of given promises with every kind of noise that there is.

    Parameters
    ----------
    purchase
        An outcome, an allocation, or anything else with ``epsilons``; or the promises themselves.
    features
        Number of columns of a record, the constant not counted.
    delta
        The delta that everybody would accept, above 0 and below 1.
    noise_shape
        The shape for which rows are scaled; None for Euclidean rows, which have no shaped noise.
    n_classes
        K, at least 2; with more there is no shaped noise.

    Returns
    -------
    NoiseComparison

    Raises
    ------
    InvalidInput
        For arguments out of their range, and if nothing was promised.

    Examples
    --------
    >>> few, many = (compare_noises([1.0] * 1000, features, delta=1e-5) for features in (5, 100))
    >>> few.best, many.best, round(many.gain, 2)
    ('pure', 'gaussian', 0.14)
    """
    # Takes the solver along.
    from dpmarket.learning.gaussian_geometry import GaussianGeometry
    from dpmarket.learning.geometry import geometry_of

    count = checks.whole("features", features, minimum=1)
    promises = purchase.epsilons if isinstance(purchase, Decided) else purchase
    epsilons = checks.non_negative_vector("epsilons", promises)
    rows = geometry_of(count, None, noise_shape, wanted=True)
    n, bound = rows.n_coefficients, GaussianGeometry.of(rows, n_classes, delta).row_bound
    errors = {"pure": expected_error(epsilons, classifier_error(n, bound, n_classes))}
    if rows.shape is not None and n_classes == 2:
        errors["shaped"] = expected_error(epsilons, estimator_error(count, rows.shape))
    l2 = gaussian_suggest_l2(epsilons, delta, n, row_bound=bound, n_classes=n_classes)
    weights = gaussian_weights_for(epsilons, delta, l2, row_bound=bound, n_classes=n_classes)
    # noise_rate * R is the sum of mu, but for the root of 2 with more than two classes.
    total = weights.noise_rate * bound * (1.0 if n_classes == 2 else np.sqrt(2.0))
    norm = float(weights.loss_weights @ weights.loss_weights)
    errors["gaussian"] = gaussian_error(n, bound, n_classes).predict(norm, float(total))
    return NoiseComparison(errors, float(delta))


def delta_gain(
    plan: Plan, features: int, n_classes: int = 2, noise_shape: NoiseShape | None = None
) -> NoiseComparison:
    """Return what a delta would gain a plan, if those bought from were promised its mean epsilon.

    Parameters
    ----------
    plan
        Expected weights and promises.
    features
        Number of columns of a record, the constant not counted.
    n_classes
        K, at least 2.
    noise_shape
        The shape for which rows are scaled; None for Euclidean rows.

    Returns
    -------
    NoiseComparison
        At a delta of 1e-5, or of 1 / (10 * sellers) where that is less.

    Examples
    --------
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.planning import plan_prices
    >>> plan = plan_prices(Uniform(1, 5), 456, 600.0, estimator_error(100))
    >>> print(delta_gain(plan, 100).sentence())
    With a delta of 1e-05 the expected error would be ...
    """
    delta = min(_USUAL_DELTA, 0.1 / plan.sellers)
    one = compare_noises(
        [plan.mean_promise], features, delta, noise_shape=noise_shape, n_classes=n_classes
    ).errors
    model = estimator_error(features, n_classes=n_classes)
    pure = expected_error(plan, model)
    # Everybody's noise shrinks alike: by the ratio of the two for one person at the mean promise.
    noise = pure.noise_part * one["gaussian"].noise_part / one["pure"].noise_part
    errors = {"pure": pure, "gaussian": ExpectedError(pure.sampling_part, noise, pure.signal)}
    if "shaped" in one:
        errors["shaped"] = expected_error(plan, estimator_error(features, noise_shape))
    return NoiseComparison(errors, delta)
