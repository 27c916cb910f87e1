"""The constants of the error bound as the paper's theorem ``gen loss`` prints them."""

from __future__ import annotations

import math

import numpy as np

from dpmarket.planning.bounds import BoundConstants, checked_constants

_LN2 = math.log(2.0)


def paper_bound_constants(
    coef_radius: float, delta: float, noise_delta: float, n_features: int
) -> BoundConstants:
    r"""Return the constants that the paper prints: to compare with, not to rely on.

    .. math::
        \mu = \tfrac{3 \ln(1/\delta)}{\sqrt 2} \ln(1 + e^{\beta}) + \beta / \ln 2, \qquad
        \sigma = (\tfrac{6 \ln(1/\delta)}{\sqrt 2} + 1)\, 2 \beta\, v^{-1}(\delta')

    With the loss in natural logarithms the bound can fail far more often than it states (the documentation
    has a case), so that :func:`error_bound` does not take them.

    Parameters
    ----------
    coef_radius, delta, noise_delta, n_features
        As in :func:`bound_constants`; rows are no longer than 1.

    Returns
    -------
    BoundConstants
        With ``proved = False``; also unpacks as ``concentration, noise``.

    Raises
    ------
    InvalidInput
        For values outside their ranges.

    Examples
    --------
    >>> round(paper_bound_constants(1.0, 0.05, 0.05, 3).concentration, 3)
    9.788
    """
    beta, d, quantile, n, _ = checked_constants(coef_radius, delta, noise_delta, n_features, 1.0)
    rate = math.log(1.0 / d) / math.sqrt(2.0)
    mu = 3.0 * rate * float(np.logaddexp(0.0, beta)) + beta / _LN2
    sigma = (6.0 * rate + 1.0) * 2.0 * beta * quantile
    return BoundConstants(mu, sigma, beta, d, float(noise_delta), n, 1.0, proved=False)
