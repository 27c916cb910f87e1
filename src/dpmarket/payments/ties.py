"""Turn sellers into the distinct costs among them: what depends on the cost alone is then computed once each.

People type in round numbers: a million reports in cents are a few hundred costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmarket.arrays import FloatArray, IntArray

# Costs looked at first, and the share of them that may differ where it pays to look at all.
_SAMPLE = 2048
_MOST = 0.5


class Distinct(NamedTuple):
    """The distinct ones of many costs.

    Attributes
    ----------
    first
        The position of one seller with each distinct cost, in the order of costs.
    which
        For each seller, the number of their cost.
    """

    first: IntArray
    which: IntArray


def distinct_costs(costs: FloatArray) -> Distinct | None:
    """Return the distinct ones among ``costs``, or None where too few are equal for it to pay.

    Examples
    --------
    >>> first, which = distinct_costs(np.array([2.0, 1.5, 2.0, 2.0]))
    >>> first.tolist(), which.tolist()
    ([1, 3], [1, 0, 1, 1])
    >>> distinct_costs(np.array([1.0, 2.0, 3.0])) is None
    True
    """
    sample = costs[:: max(costs.size // _SAMPLE, 1)]
    if np.unique(sample).size > _MOST * sample.size:
        return None
    values = np.unique(costs)
    if values.size > _MOST * costs.size:
        return None
    which = np.searchsorted(values, costs)
    first = np.empty(values.size, dtype=np.int64)
    first[which] = np.arange(costs.size)
    return Distinct(first, which)
