"""Turn public quantities into a ridge penalty and what undoes its shrinkage, without a look at the data.

A large penalty keeps noise away from the directions about which the data say little, and so gives better
directions than a small one; but it makes all coefficients small, and predictions timid. Multiplying released
coefficients by a public number costs no privacy, so the two are separated: :func:`suggest_l2` chooses the
penalty for the direction, :func:`suggest_stretch` the length.
"""

from __future__ import annotations

import math

from dpmarket import checks
from dpmarket.errors import InvalidInput
from dpmarket.privacy.shapes import noise_power

_LITTLE_NOISE = 100.0
_USUAL_GRADIENT = 0.2
_SHAPED_SHARE = 0.5
_SHAPED_UNDONE = 0.25


def suggest_l2(
    noise_rate: float,
    n_features: int,
    row_bound: float = 1.0,
    euclidean_bound: float | None = None,
    joint_columns: int | None = None,
) -> float:
    r"""Return a ridge penalty that wastes no privacy and suits most data.

    .. math:: \Lambda = \frac{R}{\eta} \max\left(2, \frac{n / 2}{1 + \eta / (100\, n)}\right)

    At :math:`\eta \Lambda \ge 2 R` a weight costs exactly its share of the noise rate (formula (*) of
    :mod:`dpmarket.privacy.accounting`). Beyond that, the noise in n coefficients has a norm near
    :math:`2 n / \eta`, and a penalty in proportion to n keeps it from dominating the model; where the noise
    is small (:math:`\eta` above 100 n) less is needed. One half and 100 are the best over the public sets,
    promises and mixtures of ``benchmarks/penalty.py``; the page "How good is the private model?" says what a
    better choice for every single case would gain.

    Noise shaped by another norm has the length :math:`\sqrt B / \eta`
    (:func:`~dpmarket.privacy.shapes.noise_power`), and rows a Euclidean length R2 of their own:

    .. math:: \Lambda = \frac{1}{\eta} \max\left(\frac{2 R_2^2}{R_1},
              \frac{R_2 \sqrt B / 8}{1 + \eta R_2 / (100\, n)}\right).

    The eighth is the best over the public tables of ``benchmarks/shapes.py``.

    Parameters
    ----------
    noise_rate
        The noise rate eta, > 0: the sum of the promises divided by ``row_bound``.
    n_features
        Number of coefficients, the constant column included, at least 1.
    row_bound
        R, the largest norm of a row, > 0: the noise's norm.
    euclidean_bound
        R2, the largest Euclidean norm of a row, > 0; None means ``row_bound``.
    joint_columns
        m, how many coefficients have radial noise together; None means all.

    Returns
    -------
    float
        l2, with ``l2 * noise_rate >= 2 * R2**2 / row_bound`` as computed.

    Raises
    ------
    InvalidInput
        For values outside these ranges, or so extreme that l2 leaves the range of floats.

    Notes
    -----
    Guaranteed: A function of public quantities only: choosing the penalty this way costs no privacy.

    Examples
    --------
    >>> round(suggest_l2(noise_rate=100.0, n_features=20), 4)
    0.0952
    """
    eta = checks.positive("noise_rate", noise_rate)
    features = checks.whole("n_features", n_features, minimum=1)
    bound = checks.positive("row_bound", row_bound)
    if joint_columns is not None and joint_columns < features:
        return _shaped_l2(eta, features, bound, euclidean_bound or bound, joint_columns)
    l2 = max(2.0, features / 2.0 / (1.0 + eta / (_LITTLE_NOISE * features))) * bound / eta
    if not (1e-290 < l2 < math.inf and l2 * eta < math.inf):
        raise InvalidInput(
            f"expected row_bound * n_features / noise_rate within the range of floats, got {l2!r}."
        )
    # Rounding may have left the product a little below 2 R, and then there would be slack.
    return l2 if l2 * eta >= 2.0 * bound else l2 * (1.0 + 2.0**-50)


def _shaped_l2(eta: float, n: int, bound: float, euclidean: float, joint: int) -> float:
    length = euclidean * math.sqrt(noise_power(n, joint)) / 4.0
    wanted = _SHAPED_SHARE * length / (1.0 + eta * euclidean / (_LITTLE_NOISE * n))
    # Room for the rounding of the accounting's own product: below it there would be slack.
    l2 = max(2.0 * euclidean * euclidean / bound * (1.0 + 2.0**-40), wanted) / eta
    if not (1e-290 < l2 < math.inf and l2 * eta < math.inf):
        raise InvalidInput(f"expected bounds and noise_rate within the range of floats, got l2 = {l2!r}.")
    return l2


def suggest_stretch(
    noise_rate: float,
    l2: float,
    n_features: int,
    row_bound: float = 1.0,
    euclidean_bound: float | None = None,
    joint_columns: int | None = None,
) -> float:
    r"""Return a factor, at least 1, for released coefficients that undoes part of the penalty's shrinkage.

    In a direction of curvature h the penalty shrinks a coefficient by :math:`h / (h + \Lambda)`. The
    curvature of n directions is :math:`R^2 / (4 n)` on average, at most. Shrinking helps against noise, so
    only the share :math:`v = g / (g + 2 n / \eta)` of the penalty is undone, which is near 1 where the noise,
    of norm :math:`2 n / \eta`, is small beside a gradient of usual length, g = 0.2:

    .. math:: \frac{h + \Lambda}{h + (1 - v) \Lambda}, \qquad h = \frac{R^2}{4 n}.

    Parameters
    ----------
    noise_rate
        The noise rate eta, > 0.
    l2
        The ridge penalty Lambda, > 0.
    n_features
        Number of coefficients, the constant column included, at least 1.
    row_bound
        R, the largest norm of a row, > 0.
    euclidean_bound, joint_columns
        As for :func:`suggest_l2`. Shaped noise has the norm :math:`\sqrt B / \eta` in the place of
        :math:`2 n / \eta`, R2 is the length of rows and g = 0.2 R2; a quarter of what the factor is above 1
        is used (``benchmarks/shapes.py``): rare categories say little, and are easily overdone.

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
    Guaranteed: A function of public quantities only: multiplying released coefficients by it costs no
    privacy. It moves no prediction of a class, only probabilities.

    Examples
    --------
    >>> round(suggest_stretch(noise_rate=100.0, l2=0.1, n_features=20), 3)
    1.421
    """
    eta = checks.positive("noise_rate", noise_rate)
    penalty = checks.positive("l2", l2)
    features = checks.whole("n_features", n_features, minimum=1)
    bound = checks.positive("row_bound", row_bound)
    if joint_columns is not None and joint_columns < features:
        bound = euclidean_bound or bound
        kept = 1.0 / (1.0 + _USUAL_GRADIENT * bound * eta / math.sqrt(noise_power(features, joint_columns)))
    else:
        kept = 1.0 / (1.0 + _USUAL_GRADIENT * eta / (2.0 * features))
    excess = stretch_excess(bound**2 / (4.0 * features), penalty, kept)
    if joint_columns is not None and joint_columns < features:
        excess *= _SHAPED_UNDONE
    return 1.0 + excess


def stretch_excess(curvature: float, l2: float, kept: float) -> float:
    r"""Return by how much :math:`(h + \Lambda) / (h + k \Lambda)` is above 1, with k the share kept."""
    return (1.0 - kept) / (curvature / l2 + kept)
