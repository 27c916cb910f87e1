"""Turn weights that keep promises to rounding into weights that keep them as computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.errors import NotConverged

_MAX_DOUBLINGS = 30


def lowered(
    weights: FloatArray,
    promises: FloatArray,
    losses: Callable[[FloatArray], FloatArray],
    *,
    share: float,
    smallest: float = 0.0,
) -> FloatArray:
    """Return the weights, each lowered by a share of it until its computed loss is within its promise.

    Parameters
    ----------
    weights, promises
        Of the same people, shape (people,); promises (epsilon) above 0.
    losses
        Turns some people's weights into their privacy losses, rounded up.
    share
        By which part weights are lowered at first; doubled for those that this leaves above their promise.
    smallest
        A weight below this becomes 0.

    Raises
    ------
    NotConverged
        If no weight is left, or none that would do.
    """
    result = weights * (1.0 - share)
    result[result < smallest] = 0.0
    above = np.flatnonzero(result)
    if not above.size:
        raise NotConverged("expected weights that keep every promise after rounding, found none.")
    for _ in range(_MAX_DOUBLINGS):
        above = above[losses(result[above]) > promises[above]]
        if not above.size:
            return result
        share *= 2.0
        result[above] = weights[above] * (1.0 - share)
    raise NotConverged("expected weights that keep every promise after rounding, found none.")
