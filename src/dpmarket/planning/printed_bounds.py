"""The constants of the error bound as the paper's theorem ``gen loss`` prints them."""

from __future__ import annotations

import math

import numpy as np

from dpmarket.planning.bounds import BoundConstants, checked_constants, sharp_bound_constants

_LN2 = math.log(2.0)


def paper_bound_constants(
    coef_radius: float, delta: float, noise_delta: float, n_features: int
) -> BoundConstants:
    r"""Return the constants that the paper prints, read with natural logarithms throughout.

    .. math::
        \mu = \tfrac{3 \ln(1/\delta)}{\sqrt 2} \ln(1 + e^{\beta}) + \beta / \ln 2, \qquad
        \sigma = (\tfrac{6 \ln(1/\delta)}{\sqrt 2} + 1)\, 2 \beta\, v^{-1}(\delta')

    With the loss in natural logarithms the bound can fail far more often than it states, so that
    :func:`error_bound` does not take them. The paper writes ``ln`` for the natural logarithm and ``log`` for
    the loss: :func:`paper_bound_constants_in_bits` reads that as base 2, and then the theorem holds.

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


def paper_bound_constants_in_bits(
    coef_radius: float, delta: float, noise_delta: float, n_features: int
) -> BoundConstants:
    r"""Return the constants that the paper prints, its ``log`` read as the logarithm to base 2.

    .. math::
        \mu = \tfrac{3 \ln(1/\delta)}{\sqrt 2} \log_2(1 + e^{\beta}) + \beta / \ln 2, \qquad
        \sigma = (\tfrac{6 \ln(1/\delta)}{\sqrt 2} + 1)\, 2 \beta\, v^{-1}(\delta')

    Parameters
    ----------
    coef_radius, delta, noise_delta, n_features
        As in :func:`bound_constants`; rows are no longer than 1.

    Returns
    -------
    BoundConstants
        ``proved`` where they are no smaller than :func:`sharp_bound_constants`, which is so for every
        ``coef_radius`` if ``delta <= 0.46``.

    Raises
    ------
    InvalidInput
        For values outside their ranges.

    Notes
    -----
    With x = ln(1/delta), and because ``log_2(1 + e^beta) >= beta/ln 2``, the printed mu is at least
    ``(3x/sqrt(2) + 1) beta/ln 2``, and the sharp one is ``(2 + sqrt(x/2)) beta/ln 2``.

    Examples
    --------
    >>> constants = paper_bound_constants_in_bits(1.0, 0.05, 0.05, 3)
    >>> round(constants.concentration, 3), constants.proved
    (13.483, True)
    """
    beta, d, quantile, n, _ = checked_constants(coef_radius, delta, noise_delta, n_features, 1.0)
    rate = math.log(1.0 / d) / math.sqrt(2.0)
    mu = 3.0 * rate * float(np.logaddexp(0.0, beta)) / _LN2 + beta / _LN2
    sigma = (6.0 * rate + 1.0) * 2.0 * beta * quantile
    enough = mu >= sharp_bound_constants(beta, d, noise_delta, n).concentration
    return BoundConstants(mu, sigma, beta, d, float(noise_delta), n, 1.0, proved=enough)
