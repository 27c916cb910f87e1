"""Turn the number of classes into the error to expect of a model that tells them apart."""

from __future__ import annotations

from dpmarket import checks
from dpmarket.planning.error_model import USUAL_GRADIENT, ErrorModel, logistic_error


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
    signal = (2.0 * USUAL_GRADIENT) ** 2 / classes * squared
    return ErrorModel(
        (1.0 - 1.0 / classes) * squared, 16.0 * (classes - 1.0) * n * (n + 1.0) * squared, signal
    )


def classifier_error(n_features: int, row_bound: float, n_classes: int) -> ErrorModel:
    """Return the model of what the estimator trains.

    :func:`~dpmarket.planning.error_model.logistic_error` for two classes, :func:`softmax_error` for more.

    Examples
    --------
    >>> classifier_error(31, 1.03, 2) == logistic_error(31, 1.03)
    True
    """
    if checks.whole("n_classes", n_classes, minimum=2) == 2:
        return logistic_error(n_features, row_bound)
    return softmax_error(n_features, row_bound, n_classes)
