"""Time a function against a peer in the same run, and print the ratios as a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def best_seconds(function: Callable[[], object], repeat: int = 7) -> float:
    """Return the shortest of several runs: the one that the machine disturbed least."""
    return compare([function], repeat)[0]


def compare(functions: Sequence[Callable[[], object]], repeat: int = 7) -> list[float]:
    """Time functions in turns, so that a slow phase of the machine hits all of them; best of each."""
    best = [float("inf")] * len(functions)
    for _ in range(repeat):
        for k, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns, the first as text and the others as numbers."""
    widths = [max(len(name), *(len(row[k]) for row in rows)) for k, name in enumerate(columns)]
    print(f"\n{title}")
    for row in (columns, *rows):
        cells = (
            f"{cell:>{w}}" if k else f"{cell:<{w}}"
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "  ".join(cells))
