"""Share a compiled loop out among threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from numba import get_num_threads


def in_threads(work: Callable[[slice], None], count: int, smallest: int) -> None:
    """Do ``work`` on slices of ``count`` elements, in as many threads as numba may use.

    ``work`` must let go of Python's lock, as kernels compiled with ``nogil`` do; fewer than ``smallest``
    elements are not worth a thread of their own.
    """
    threads = int(get_num_threads())
    # More slices than threads: elements differ in how much work they are.
    size = max(smallest, -(-count // (8 * threads)))
    parts = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    if threads == 1 or len(parts) == 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))
