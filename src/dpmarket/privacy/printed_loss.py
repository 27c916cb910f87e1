"""The privacy loss as the paper's Proposition 1 prints it."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput


def paper_privacy_loss(
    loss_weights: ArrayLike,
    noise_rate: float,
    l2: float,
    weight_cap: float | None = None,
) -> FloatArray:
    """Return the privacy loss as the paper states it: ``a_i * eta + 2 * log(1 + k / (m * Lambda))``.

    Proposition 1, literally, for rows of norm at most 1 and one row per person. It is never below
    :meth:`~dpmarket.privacy.release.Release.epsilons` and is offered for comparison: everybody
    is charged for the largest weight that anybody could have, even people of weight 0.

    Parameters
    ----------
    loss_weights
        Weight of each of the m people, shape (people,), each at most ``weight_cap / m``.
    noise_rate
        The noise rate eta, > 0.
    l2
        The ridge penalty Lambda, > 0.
    weight_cap
        k in ``a_i <= k / m``; None means no cap, k = m.

    Returns
    -------
    FloatArray
        Epsilons, shape (people,), read-only; rounded to nearest, because nothing may rest on them.

    Raises
    ------
    InvalidInput
        For values that are no such numbers, and for a weight above the cap.

    Examples
    --------
    >>> paper_privacy_loss([0.25, 0.75], noise_rate=2.0, l2=1.0).round(3).tolist()
    [1.886, 2.886]
    """
    weights = checks.non_negative_vector("loss_weights", loss_weights)
    eta = checks.positive("noise_rate", noise_rate)
    penalty = checks.positive("l2", l2)
    cap = 1.0
    if weight_cap is not None:
        cap = checks.positive("weight_cap", weight_cap) / weights.size
    if float(weights.max()) > cap * (1.0 + 1e-9):
        raise InvalidInput(
            f"expected every loss weight to be at most weight_cap / people = {cap!r}, found a larger one."
        )
    return read_only(weights * eta + 2.0 * math.log1p(cap / penalty))
