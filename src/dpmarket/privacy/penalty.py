"""Turn public quantities into a ridge penalty, without a look at the data."""

from __future__ import annotations

import math

from dpmarket import checks
from dpmarket.errors import InvalidInput


def suggest_l2(total_epsilon: float, n_features: int, row_bound: float = 1.0) -> float:
    """Return a ridge penalty that wastes no privacy and suits most data: ``R * max(2, n / 4) / eta``.

    At ``l2 * total_epsilon >= 2 * row_bound`` a weight costs exactly its share of the noise rate (formula
    (*) of :mod:`dpmarket.privacy.accounting`); beyond that, the noise in ``n`` coefficients has a norm near
    ``2 n / total_epsilon``, and a penalty in proportion to ``n`` keeps it from dominating the model. The
    factor one quarter is the best single one over the public sets, promises and mixtures of
    ``benchmarks/penalty.py``; the page "How good is the private model?" says what a better one for every
    case would gain.

    Parameters
    ----------
    total_epsilon
        The noise rate eta, > 0: the sum of the promises divided by ``row_bound``.
    n_features
        Number of coefficients, the constant column included, at least 1.
    row_bound
        R, the largest norm of a row, > 0.

    Returns
    -------
    float
        l2, with ``l2 * total_epsilon >= 2 * row_bound`` as computed.

    Guarantees
    ----------
    A function of public quantities only: choosing the penalty this way costs no privacy.

    Examples
    --------
    >>> suggest_l2(total_epsilon=100.0, n_features=20)
    0.05
    """
    eta = checks.positive("total_epsilon", total_epsilon)
    features = checks.whole("n_features", n_features, minimum=1)
    bound = checks.positive("row_bound", row_bound)
    l2 = max(2.0, features / 4.0) * bound / eta
    if not (1e-290 < l2 < math.inf and l2 * eta < math.inf):
        raise InvalidInput(
            f"expected row_bound * n_features / total_epsilon within the range of floats, got {l2!r}."
        )
    # Rounding may have left the product a little below 2 R, and then there would be slack.
    return l2 if l2 * eta >= 2.0 * bound else l2 * (1.0 + 2.0**-50)
