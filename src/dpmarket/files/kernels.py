"""Compare many numbers with each other, in one pass that stays in the processor's cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmarket.compiling import compiled

BUCKETS = 1 << 12


@compiled(nogil=True)
def are_different(values: Any, placed: Any) -> bool:
    """Tell whether no two of many numbers are equal.

    Parameters
    ----------
    values
        uint64, spread evenly, as hashes are; others are compared as rightly, but not as fast.
    placed
        uint64, as many; changed.
    """
    shift = np.uint64(64 - 12)
    ends = np.zeros(BUCKETS, dtype=np.int64)
    for i in range(values.size):
        ends[values[i] >> shift] += 1
    largest = ends.max()
    for bucket in range(1, BUCKETS):
        ends[bucket] += ends[bucket - 1]
    for i in range(values.size):
        bucket = values[i] >> shift
        ends[bucket] -= 1
        placed[ends[bucket]] = values[i]
    # Now the ends are the starts. A table of 0 is empty: zeros are counted instead.
    size = 2
    while size < 2 * largest:
        size *= 2
    table, mask, zeros = np.zeros(size, dtype=np.uint64), np.uint64(size - 1), 0
    for bucket in range(BUCKETS):
        table[:] = 0
        last = ends[bucket + 1] if bucket + 1 < BUCKETS else values.size
        for i in range(ends[bucket], last):
            own = placed[i]
            zeros += own == 0
            place = own & mask
            while table[place] != 0 and table[place] != own:
                place = (place + np.uint64(1)) & mask
            if zeros > 1 or (own != 0 and table[place] == own):
                return False
            table[place] = own
    return True
