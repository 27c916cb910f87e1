"""Sort many costs: first into buckets by the leading bits of the floats, then each bucket.

The bits of floats of at least 0, read as integers, have the order of the floats. Putting every cost into the
bucket of its leading bits is two passes without comparisons; what is left to sort fits into the processor's
cache. The result is that of ``numpy.sort``, to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.compiling import compiled

SMALLEST = 1 << 18
"""Below as many costs ``numpy.sort`` is about as fast (``benchmarks/allocation.py``)."""
# A bucket is an exponent and the 12 leading bits of the mantissa, or less if that made too many buckets.
_SHIFT = 40
_MOST_BUCKETS = 1 << 15


def sorted_costs(costs: FloatArray) -> FloatArray:
    """Return costs in increasing order, as an array of its own.

    Parameters
    ----------
    costs
        Shape (n,), finite and at least 0: neither is checked.

    Examples
    --------
    >>> sorted_costs(np.array([2.0, 0.5, 1.0])).tolist()
    [0.5, 1.0, 2.0]
    """
    if costs.size < SMALLEST:
        return np.sort(costs)
    return sorted_in_buckets(costs)


def sorted_in_buckets(costs: FloatArray) -> FloatArray:
    """Return what :func:`sorted_costs` does, however many costs there are; at least one."""
    bits = np.ascontiguousarray(costs).view(np.int64)
    low, high = int(bits.min()), int(bits.max())
    shift = _SHIFT
    while (high >> shift) - (low >> shift) >= _MOST_BUCKETS:
        shift += 1
    ends = np.zeros((high >> shift) - (low >> shift) + 1, dtype=np.int64)
    _count(bits, low >> shift, shift, ends)
    np.cumsum(ends, out=ends)
    placed = np.empty(bits.size, dtype=np.int64)
    _place(bits, low >> shift, shift, ends.copy(), placed)
    result: FloatArray = placed.view(np.float64)
    start = 0
    for end in np.unique(ends).tolist():
        result[start:end].sort()
        start = end
    return result


@compiled(nogil=True)
def _count(bits: Any, low: int, shift: int, counts: Any) -> None:
    """Add up how many costs belong to each bucket."""
    for i in range(bits.size):
        counts[(bits[i] >> shift) - low] += 1


@compiled(nogil=True)
def _place(bits: Any, low: int, shift: int, free: Any, placed: Any) -> None:
    """Write each cost to its bucket, from its end down; ``free`` are the ends of the buckets, and changes."""
    for i in range(bits.size):
        bucket = (bits[i] >> shift) - low
        free[bucket] -= 1
        placed[free[bucket]] = bits[i]
