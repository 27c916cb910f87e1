r"""Turn the scaled weight of one row into its privacy loss, and back.

Formula (*) of the accounting has five parameters, but only two of them matter. With weight ``a`` split
over at most ``r`` rows, noise rate ``eta``, row bound ``R`` and penalty ``Lambda``, put

.. math:: c = \frac{a \eta R}{2 r}, \qquad \beta = \frac{\eta \Lambda}{2 R}.

Then the loss is ``r * P(c)`` with the curve

.. math:: P(c) = c + \max_{0 \le s \le 1} \left[ c s + \log\left(1 + \frac{c}{\beta} s (1 - s)\right) \right].

What the other modules rely on:

* For ``beta >= 1`` the maximum is at ``s = 1`` and ``P(c) = 2 c``: the derivative in ``s`` is decreasing
  and at ``s = 1`` equals ``c - c / beta``.
* For ``beta < 1`` put ``t = 1 - s``. Stationarity reads ``c t^2 - (c + 2) t + (1 - beta) = 0``, and its
  root in ``[0, 1]`` is ``t = 2 (1 - beta) / (c + 2 + sqrt(c^2 + 4 + 4 c beta))``: no cancellation.
* ``P(0) = 0`` and ``P`` is increasing and concave. (With ``p = c s`` the bracket is
  ``p + log(1 + (p - p^2 / c) / beta)``, jointly concave in ``(p, c)``; maximising over ``p`` keeps
  concavity.) So a relative error in ``c`` is at most as large in ``P``, and a tangent lies above.
* ``P`` falls in ``beta``, and ``|dP / d log beta| = y / (1 + y) <= log(1 + y) <= P`` with
  ``y = c s (1 - s) / beta``: a relative error in ``beta`` is at most as large in ``P``, too.
* **An upper bound that needs no exact maximiser.** For every ``z > 0``, ``log x <= log z + x/z - 1``,
  and the right side can be maximised over all real ``s`` by hand:

  .. math:: P(c) \le c + \frac{c (1 + \beta z)^2}{4 \beta z} - \frac{z - 1}{z} + \log z,

  with equality at ``z = 1 + y``. An error in ``z`` can only raise the bound, and only to second order.
"""

from __future__ import annotations

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.errors import NotConverged

ROUND_UP = 2.0**-48
"""Relative outward rounding of a loss: 32 units of 2**-53.

With u = 2**-53 the rounding errors are: 3u in ``c`` and 2u in ``beta`` (by concavity and by the bound on
the derivative they are no larger in P); in the upper bound 7u of its second term, 2u of the third, 4u of
the fourth (``log`` within 2 units in the last place), none of which exceeds P at ``z = 1 + y``, and 9u of
P for three additions whose terms add up to at most 3 P; 2u for the factor r and for the outward rounding
itself: 29u.
"""

_SMALLEST = 1e-280
_BLOCK = 8192
_MAX_STEPS = 200


def loss_upper(scaled: FloatArray, beta: float) -> FloatArray:
    """Return P(c) for every element of ``scaled``, rounded up.

    Parameters
    ----------
    scaled
        Values of c, at least 0 and below 1e100.
    beta
        ``noise_rate * l2 / (2 * row_bound)``, at least 1e-150.

    Returns
    -------
    FloatArray
        At least P(c), at most ``1 + 1e-14`` times it; exactly 0 where c is 0.

    Notes
    -----
    Guaranteed: Never below the real-number value for the given floats, even if ``scaled`` carries a relative
    error of three and ``beta`` one of two half-units in the last place (see :data:`ROUND_UP`).
    """
    if beta >= 1.0:
        return scaled * (2.0 * (1.0 + ROUND_UP))
    result = np.empty_like(scaled)
    for start in range(0, scaled.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        c = scaled[block]
        z = _odds(c, beta)
        z += 1.0
        v = z * beta
        total = v + 1.0
        total *= total
        total *= c
        v *= 4.0
        total /= v
        total -= (z - 1.0) / z
        total += np.log(z)
        total += c
        np.multiply(total, 1.0 + ROUND_UP, out=result[block])
    return result


def keep_above_underflow(scaled: FloatArray, weights: FloatArray) -> FloatArray:
    """Raise positive values so small that products of them would underflow; P is increasing."""
    if float(scaled.min()) >= _SMALLEST:
        return scaled
    return np.where(weights > 0.0, np.maximum(scaled, _SMALLEST), 0.0)


def loss_and_slope(scaled: FloatArray, beta: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return P(c), its derivative in c, and ``-dP / d log beta``, to rounding (not rounded up)."""
    if beta >= 1.0:
        return 2.0 * scaled, np.full_like(scaled, 2.0), np.zeros_like(scaled)
    t = _complement(scaled, beta)
    q = t * (1.0 - t)
    y = scaled * q / beta
    loss = scaled * (2.0 - t) + np.log1p(y)
    slope = (2.0 - t) + q / (beta + scaled * q)
    return loss, slope, y / (1.0 + y)


def inverse(losses: FloatArray, beta: float, start: FloatArray | None = None) -> FloatArray:
    """Return the c with P(c) = loss, to rounding.

    Newton's method on a concave increasing function: from the left of the root it never passes it, and
    from the right it lands on the left, so that it converges from everywhere.

    Parameters
    ----------
    losses
        Values of P, at least 0.
    beta
        As in :func:`loss_upper`.
    start
        A guess, for example the solution for a nearby ``beta``.

    Raises
    ------
    NotConverged
        If 200 steps are not enough, which the arguments above exclude.
    """
    if beta >= 1.0:
        return 0.5 * losses
    floor = losses / (1.0 + (1.0 + beta) ** 2 / (4.0 * beta))  # the tangent at 0 lies above P
    c = _left_of_root(losses, floor, beta) if start is None else np.maximum(start, floor)
    for _ in range(_MAX_STEPS):
        loss, slope, _ = loss_and_slope(c, beta)
        step = (losses - loss) / slope
        c = np.maximum(c + step, floor)
        if not np.any(np.abs(step) > 1e-9 * c):
            return c  # the step just taken was quadratic: its error is below 1e-17 relative
    raise NotConverged(f"expected the inverse of the loss curve within {_MAX_STEPS} steps, beta = {beta!r}.")


def _complement(c: FloatArray, beta: float) -> FloatArray:
    """Return t = 1 - s at the maximum."""
    root = c + 4.0 * beta
    root *= c
    root += 4.0
    np.sqrt(root, out=root)
    root += c
    root += 2.0
    return np.divide(2.0 * (1.0 - beta), root, out=root)


def _odds(c: FloatArray, beta: float) -> FloatArray:
    """Return y = c s (1 - s) / beta at the maximum."""
    t = _complement(c, beta)
    y = 1.0 - t
    y *= t
    y *= c
    y /= beta
    return y


def _left_of_root(losses: FloatArray, floor: FloatArray, beta: float) -> FloatArray:
    """Return a point at or left of the root, close enough for a few Newton steps.

    P(c) <= 2 c + log(1 + c / (4 beta)), so any split of the loss over the two terms gives such a point.
    """
    best = floor
    for share in (0.2, 0.5, 0.8, 0.95):
        with np.errstate(over="ignore"):
            by_log = 4.0 * beta * np.expm1(share * losses)
        best = np.maximum(best, np.minimum(by_log, 0.5 * (1.0 - share) * losses))
    return best
