"""Time a function against a peer in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def best_seconds(function: Callable[[], object], repeat: int = 7) -> float:
    """Return the shortest of several runs: the one that the machine disturbed least."""
    return compare([function], repeat)[0]


def compare(
    functions: Sequence[Callable[[], object]],
    repeat: int = 7,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Time functions in turns, so that a slow phase of the machine hits all of them; best of each.

    With ``clock=time.process_time`` what counts is the processor time of all threads.
    """
    best = [float("inf")] * len(functions)
    for _ in range(repeat):
        for k, function in enumerate(functions):
            start = clock()
            function()
            best[k] = min(best[k], clock() - start)
    return best
