r"""Turn records, weights and a noise rate into the exact density of the released coefficients.

The noise that leads to the output w is :math:`b'(w) = \sum_i a_i s_i u_i - \Lambda w` with
:math:`u_i = y_i x_i` and :math:`s_i = 1/(1 + e^{w \cdot u_i})`; its Jacobian is minus the Hessian
:math:`H(w) = \Lambda I + \sum_i a_i s_i (1 - s_i) u_i u_i^T`. The map is one-to-one (the objective is
strictly convex), so that the density of w is :math:`h(b'(w)) \det H(w)`, with
:math:`h(b') \propto e^{-\eta N(b') / 2}` in :math:`R^n` (paper, proof of Proposition 1, with the Euclidean
norm for N; :mod:`dpmarket.privacy.shapes` has others). Nothing here uses a
bound: what :func:`~dpmarket.privacy.accounting.privacy_loss` promises is tested, and audited, against these
densities.

Only n = 1 and n = 2, where the determinant is written without cancellation:
:math:`\det H = \Lambda^2 + \Lambda \sum_i d_i |u_i|^2 + \sum_{i<j} d_i d_j (u_i \times u_j)^2`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from dpmarket import checks
from dpmarket.arrays import FloatArray
from dpmarket.errors import InvalidInput


def log_density(
    outputs: ArrayLike,
    signed_rows: ArrayLike,
    row_weights: ArrayLike,
    noise_rate: float,
    l2: float,
    separate: int = 0,
) -> FloatArray:
    """Return the log density of the exact output at given coefficients.

    Parameters
    ----------
    outputs
        Coefficients w, shape (..., n) with n = 1 or 2.
    signed_rows
        Rows ``y_i * x_i``, shape (..., rows, n); leading axes broadcast against those of ``outputs``.
    row_weights
        Weight of each row, shape (rows,), at least 0.
    noise_rate
        The noise rate eta, > 0.
    l2
        The ridge penalty Lambda, > 0.
    separate
        How many coefficients, the last ones, have independent noise; the others have radial noise together.

    Returns
    -------
    FloatArray
        Natural logarithm of the density with respect to Lebesgue measure, shape (...,).

    Raises
    ------
    InvalidInput
        For shapes or values other than these.

    Notes
    -----
    Guaranteed: Normalised: the density integrates to 1 over all w.

    Examples
    --------
    >>> import numpy as np
    >>> w = np.linspace(-60.0, 60.0, 120_001)[:, None]
    >>> density = np.exp(log_density(w, [[1.0], [-0.5]], [0.7, 0.3], noise_rate=2.0, l2=0.5))
    >>> round(float(density.sum() * 0.001), 6)
    1.0
    """
    w = _array("outputs", outputs, 1)
    rows = _array("signed_rows", signed_rows, 2)
    weights = checks.non_negative_vector("row_weights", row_weights)
    n = w.shape[-1]
    if n not in (1, 2) or rows.shape[-1] != n or rows.shape[-2] != weights.size:
        raise InvalidInput(
            f"expected outputs of shape (..., n) and signed_rows of shape (..., rows, n) with n = 1 or 2 and "
            f"one weight per row, got {w.shape}, {rows.shape} and {weights.size} weights."
        )
    eta = checks.positive("noise_rate", noise_rate)
    penalty = checks.positive("l2", l2)
    alone = checks.whole("separate", separate)
    if alone > n:
        raise InvalidInput(f"expected at most {n} separate coefficients, got {alone}.")
    return trusted_log_density(w, rows, weights, eta, penalty, alone)


def log_density_ratio(
    outputs: ArrayLike,
    own_rows: ArrayLike,
    replaced_rows: ArrayLike,
    own_weights: ArrayLike,
    other_rows: ArrayLike,
    other_weights: ArrayLike,
    *,
    noise_rate: float,
    l2: float,
    separate: int = 0,
) -> FloatArray:
    """Return the log density ratio of the output between two data sets that differ in one person.

    Parameters
    ----------
    outputs
        Coefficients w, shape (..., n) with n = 1 or 2.
    own_rows, replaced_rows
        The person's signed rows in the first and in the second data set, shape (..., own, n).
    own_weights
        Their weights, shape (own,).
    other_rows, other_weights
        Everybody else's signed rows and weights, shapes (..., others, n) and (others,).
    noise_rate
        The noise rate eta, > 0.
    l2
        The ridge penalty Lambda, > 0.
    separate
        As for :func:`log_density`.

    Returns
    -------
    FloatArray
        ``log g(w | own) - log g(w | replaced)``, shape (...,).

    Examples
    --------
    >>> ratio = log_density_ratio([-2.0], [[1.0]], [[-1.0]], [0.5], [[1.0]], [0.5], noise_rate=1.0, l2=2.0)
    >>> round(float(ratio), 6)
    -0.25
    """
    other = _array("other_rows", other_rows, 2)
    weights = np.concatenate(
        [
            checks.non_negative_vector("own_weights", own_weights),
            checks.non_negative_vector("other_weights", other_weights),
        ]
    )
    first = _joined(_array("own_rows", own_rows, 2), other)
    second = _joined(_array("replaced_rows", replaced_rows, 2), other)
    return log_density(outputs, first, weights, noise_rate, l2, separate) - log_density(
        outputs, second, weights, noise_rate, l2, separate
    )


def trusted_log_density(
    w: FloatArray, rows: FloatArray, weights: FloatArray, eta: float, penalty: float, separate: int = 0
) -> FloatArray:
    """Return what :func:`log_density` returns, without its checks: for searches that call it often."""
    n = w.shape[-1]
    margins = (rows * w[..., None, :]).sum(axis=-1)
    low, high = expit(-margins), expit(margins)
    needed = ((weights * low)[..., None] * rows).sum(axis=-2) - penalty * w
    curvatures = weights * low * high
    joint = n - separate
    length = np.sqrt((needed[..., :joint] ** 2).sum(axis=-1))
    constant = n * math.log(eta / 2.0) - separate * math.log(2.0)
    if separate:
        length = length + np.abs(needed[..., joint:]).sum(axis=-1)
    if joint:
        constant -= math.log(2.0 if joint == 1 else 2.0 * math.pi)
    return np.asarray(constant - 0.5 * eta * length + _log_det(rows, curvatures, penalty))


def _log_det(rows: FloatArray, curvatures: FloatArray, penalty: float) -> FloatArray:
    n = rows.shape[-1]
    trace = (curvatures * (rows**2).sum(axis=-1)).sum(axis=-1)
    relative = trace / penalty
    if n == 2:
        scaled = np.sqrt(curvatures)[..., None] * rows
        x, y = scaled[..., 0], scaled[..., 1]
        cross = x[..., :, None] * y[..., None, :] - x[..., None, :] * y[..., :, None]
        relative = relative + 0.5 * (cross**2).sum(axis=(-1, -2)) / penalty**2
    return np.asarray(n * math.log(penalty) + np.log1p(relative))


def _joined(own: FloatArray, other: FloatArray) -> FloatArray:
    lead = np.broadcast_shapes(own.shape[:-2], other.shape[:-2])
    return np.concatenate([np.broadcast_to(part, lead + part.shape[-2:]) for part in (own, other)], axis=-2)


def _array(name: str, values: ArrayLike, least_axes: int) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"expected {name} to be an array of numbers.") from None
    if array.ndim < least_axes or array.size == 0 or not np.isfinite(array).all():
        raise InvalidInput(
            f"expected {name} to be a non-empty array of finite numbers with at least {least_axes} axes, "
            f"got shape {array.shape}."
        )
    return array
