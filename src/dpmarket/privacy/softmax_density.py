r"""Turn records, weights and a noise rate into the exact density of released softmax coefficients.

The noise that leads to the output W has the rows :math:`b_k(W) = -\sum_i a_i (p_{ik} - [y_i = k]) x_i -
\Lambda w_k`; its Jacobian is minus the Hessian
:math:`H = \Lambda I + \sum_i a_i (\mathrm{diag}(p_i) - p_i p_i^T) \otimes x_i x_i^T`. The map is one-to-one,
so that the density of W is :math:`\prod_k h(b_k(W)) \det H(W)` with :math:`h(b) \propto e^{-\eta |b| / 2}`.
Nothing here uses a bound: what :func:`~dpmarket.privacy.softmax.softmax_privacy_loss` promises is tested, and
audited, against these densities. For few classes and coefficients: the determinant has K n rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray
from dpmarket.errors import InvalidInput

_LARGEST = 200


def softmax_log_density(
    outputs: ArrayLike,
    rows: ArrayLike,
    labels: ArrayLike,
    row_weights: ArrayLike,
    noise_rate: float,
    l2: float,
) -> FloatArray:
    """Return the log density of the exact output at given coefficients.

    Parameters
    ----------
    outputs
        Coefficients W, shape (..., K, n), K at least 2 and K n at most 200.
    rows
        Rows x, shape (..., rows, n); leading axes broadcast against those of ``outputs``.
    labels
        The class of each row, whole numbers from 0 to K - 1, shape (rows,).
    row_weights
        Weight of each row, shape (rows,), at least 0.
    noise_rate
        The noise rate eta of each class's noise, > 0.
    l2
        The ridge penalty Lambda, > 0.

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
    Guaranteed: Normalised: the density integrates to 1 over all W.

    Examples
    --------
    >>> axis = np.arange(-40.0, 40.0, 0.1)
    >>> w = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)[..., None]
    >>> density = np.exp(softmax_log_density(w, [[1.0], [-0.5]], [0, 1], [0.7, 0.3], noise_rate=2.0, l2=0.5))
    >>> round(float(density.sum() * 0.01), 2)
    1.0
    """
    w = _array("outputs", outputs)
    x = _array("rows", rows)
    weights = checks.non_negative_vector("row_weights", row_weights)
    classes, n = w.shape[-2:]
    if classes < 2 or classes * n > _LARGEST or x.shape[-2:] != (weights.size, n):
        raise InvalidInput(
            f"expected outputs of shape (..., K, n) and rows of shape (..., rows, n) with K >= 2, K n <= "
            f"{_LARGEST} and one weight per row, got {w.shape}, {x.shape} and {weights.size} weights."
        )
    numbers = np.asarray(labels)
    if numbers.shape != weights.shape or numbers.dtype.kind not in "iu" or not _within(numbers, classes):
        raise InvalidInput(f"expected one label per row, whole numbers from 0 to {classes - 1}.")
    eta = checks.positive("noise_rate", noise_rate)
    penalty = checks.positive("l2", l2)
    return trusted_softmax_log_density(w, x, numbers, weights, eta, penalty)


def trusted_softmax_log_density(
    w: FloatArray, x: FloatArray, labels: IntArray, weights: FloatArray, eta: float, penalty: float
) -> FloatArray:
    """Return what :func:`softmax_log_density` does, without its checks: for searches that call it often."""
    classes, n = w.shape[-2:]
    scores = np.einsum("...in,...kn->...ik", x, w)
    scores = scores - scores.max(axis=-1, keepdims=True)
    p = np.exp(scores)
    p = p / p.sum(axis=-1, keepdims=True)
    residuals = p - np.eye(classes)[labels]
    needed = np.einsum("...ik,...in->...kn", weights[:, None] * residuals, x) + penalty * w
    lengths = np.sqrt((needed**2).sum(axis=-1)).sum(axis=-1)
    spread = p[..., :, None] * np.eye(classes) - p[..., :, None] * p[..., None, :]
    hessian = np.einsum("i,...ikl,...in,...im->...knlm", weights, spread, x, x, optimize=True)
    size = classes * n
    hessian = hessian.reshape((*hessian.shape[:-4], size, size)) / penalty + np.eye(size)
    log_det = np.linalg.slogdet(hessian)[1] + size * math.log(penalty)
    # The area of the unit sphere is 2 pi^(n/2) / Gamma(n/2); the length is Gamma(n, 2 / eta).
    constant = n * math.log(eta / 2.0) + math.lgamma(n / 2.0) - math.lgamma(n)
    constant -= math.log(2.0) + n / 2.0 * math.log(math.pi)
    return np.asarray(classes * constant - 0.5 * eta * lengths + log_det)


def _within(numbers: IntArray, classes: int) -> bool:
    return bool(((numbers >= 0) & (numbers < classes)).all())


def _array(name: str, values: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"expected {name} to be an array of numbers.") from None
    if array.ndim < 2 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidInput(
            f"expected {name} to be a non-empty array of finite numbers with at least 2 axes, got shape "
            f"{array.shape}."
        )
    return array
