r"""Turn public quantities into a ridge penalty for a softmax regression and what undoes its shrinkage.

As :mod:`dpmarket.privacy.penalty` does for two classes: the penalty is chosen for the direction of the
coefficients, the stretch for their length; neither looks at the data.
"""

from __future__ import annotations

from dpmarket import checks
from dpmarket.privacy.penalty import stretch_excess, suggest_l2

_SHARE = 4.0
_USUAL_GRADIENT = 0.4


def softmax_suggest_l2(
    total_promise: float, n_classes: int, n_coefficients: int, row_bound: float = 1.0
) -> float:
    r"""Return a ridge penalty that keeps every promise and suits most data.

    Four times what :func:`~dpmarket.privacy.penalty.suggest_l2` gives for two classes and the same promises.
    A record moves the noise of two classes, which doubles the noise in a coefficient, and the other
    factor of two is the best over the public sets and promises of ``benchmarks/softmax.py``. With it
    :math:`\Lambda \sum \epsilon \ge 8 R^2 \ge R^2 (K + 2) / (K - 1)`, where weights in proportion to promises
    keep them.

    Parameters
    ----------
    total_promise
        The sum of the promises (epsilon), > 0.
    n_classes
        K, at least 2.
    n_coefficients
        n, coefficients of one class, the constant's included.
    row_bound
        R, the largest Euclidean norm of a row, > 0.

    Returns
    -------
    float

    Raises
    ------
    InvalidInput
        For values outside these ranges.

    Notes
    -----
    Guaranteed: A function of public quantities only: choosing the penalty this way costs no privacy.

    Examples
    --------
    >>> round(softmax_suggest_l2(100.0, n_classes=5, n_coefficients=20), 4)
    0.381
    """
    total = checks.positive("total_promise", total_promise)
    checks.whole("n_classes", n_classes, minimum=2)
    bound = checks.positive("row_bound", row_bound)
    return _SHARE * suggest_l2(total / bound, n_coefficients, bound)


def softmax_suggest_stretch(
    noise_rate: float, l2: float, n_classes: int, n_coefficients: int, row_bound: float = 1.0
) -> float:
    r"""Return a factor, at least 1, for released coefficients that undoes part of the penalty's shrinkage.

    The formula of :func:`~dpmarket.privacy.penalty.suggest_stretch` with the mean curvature
    :math:`h = R^2 / (K n)` of the directions that decide predictions, and the noise of a class, of norm
    :math:`2 n / \eta`, held against g = 0.4, the best over the sets of ``benchmarks/softmax.py``:

    .. math:: \frac{h + \Lambda}{h + (1 - v) \Lambda}, \qquad v = \frac{g}{g + 2 n / \eta}.

    Parameters
    ----------
    noise_rate
        The noise rate eta of each class's noise, > 0.
    l2
        The ridge penalty Lambda, > 0.
    n_classes, n_coefficients, row_bound
        As for :func:`softmax_suggest_l2`.

    Returns
    -------
    float
        The factor; 1 would leave the coefficients as they are.

    Raises
    ------
    InvalidInput
        For values outside these ranges.

    Notes
    -----
    Guaranteed: A function of public quantities only. It moves no prediction of a class, only probabilities.

    Examples
    --------
    >>> round(softmax_suggest_stretch(100.0, 0.1, n_classes=5, n_coefficients=20), 3)
    1.833
    """
    eta = checks.positive("noise_rate", noise_rate)
    penalty = checks.positive("l2", l2)
    classes = checks.whole("n_classes", n_classes, minimum=2)
    n = checks.whole("n_coefficients", n_coefficients, minimum=1)
    bound = checks.positive("row_bound", row_bound)
    kept = 1.0 / (1.0 + _USUAL_GRADIENT * eta / (2.0 * n))
    return 1.0 + stretch_excess(bound**2 / (classes * n), penalty, kept)
