"""Sorting costs in buckets of their leading bits against ``numpy.sort``, in processor time.

Costs are any numbers, or whole cents, of which many are equal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.allocation.sorting import SMALLEST, sorted_in_buckets


def buckets() -> Iterator[Table]:
    rows = []
    for m in (10**4, 10**5, SMALLEST, 10**6, 10**7):
        tell(f"sorting {m:,} costs")
        psi = np.random.default_rng(m).uniform(1.0, 9.0, m)
        for name, costs in (("any", psi), ("in cents", psi.round(2))):
            runs = [partial(np.sort, costs), partial(sorted_in_buckets, costs)]
            plain, bucketed = compare(runs, 3 if m > 10**6 else 7, clock=time.process_time)
            ratio = bucketed / plain
            cell = at_most(1, ratio) if m >= SMALLEST else f"{ratio:.2f}"
            rows.append([f"{m:,}, {name}", f"{plain * 1e3:,.1f} ms", f"{bucketed * 1e3:,.1f} ms", cell])
    yield Table(
        "Sorting in buckets against `numpy.sort`, processor time",
        ["costs", "`numpy.sort`", "in buckets", "ratio"],
        rows,
        f"From {SMALLEST:,} costs on allocation and payments sort in buckets; the result is the same.",
    )


if __name__ == "__main__":
    measure(__file__, buckets)
