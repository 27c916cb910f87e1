"""Turn a kernel over a range of rows into a sum over all rows, in an order that threads do not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmarket.arrays import FloatArray, read_only_view
from dpmarket.learning import kernels
from dpmarket.learning.pairs import add_pairs
from dpmarket.learning.rows import Block, Rows

_PARTS = 16
_SMALLEST_PART = 2048
_MANY_ELEMENTS = 200_000


@contextmanager
def threads(rows: Rows) -> Iterator[Callable[..., list[Any]]]:
    """Give a function like ``map`` that runs in threads if there is work for them."""
    count = kernels.thread_count()
    if count == 1 or len(rows) * rows.n_coefficients < _MANY_ELEMENTS:
        yield lambda function, items: [function(item) for item in items]
        return
    with ThreadPoolExecutor(count) as pool:
        yield lambda function, items: list(pool.map(function, items))


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of kernels over rows.

    Attributes
    ----------
    rows
        The records that take part.
    run
        A function like ``map``, from :func:`threads`.
    """

    rows: Rows
    run: Callable[..., list[Any]]

    def pairs(self, kernel: Callable[..., FloatArray], *points: FloatArray) -> FloatArray:
        """Return the sum of what the kernel gives, pairs of floats of shape (2, *shape of a point)."""
        total = np.zeros((2, *points[0].shape))
        for block in self.rows.blocks():
            for part in self.over_parts(kernel, block, *points):
                total = add_pairs(total, part)
        return total

    def over_parts(
        self, kernel: Callable[..., FloatArray], block: Block, *points: FloatArray
    ) -> list[FloatArray]:
        """Return what the kernel gives for every part of a block, in order."""
        size = len(block.labels)
        height = max(_SMALLEST_PART, -(-size // _PARTS) // 64 * 64 + 64)

        views = [read_only_view(point) for point in points]

        def part(start: int) -> FloatArray:
            stop = min(start + height, size)
            return kernel(block.x, *views, block.labels, block.weights, block.scales, start, stop)

        return self.run(part, range(0, size, height))
