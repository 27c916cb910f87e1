"""Count how long writers wait for their turn: the first sign that a ledger is too busy."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa


class Waits:
    """How often somebody waited for a ledger's lock, and for how many seconds in all."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._number, self._seconds, self._longest = 0, 0.0, 0.0

    def add(self, seconds: float) -> None:
        """Count one wait."""
        with self._guard:
            self._number += 1
            self._seconds += seconds
            self._longest = max(self._longest, seconds)

    def told(self) -> tuple[int, float, float]:
        """Return how many, how many seconds in all, and the longest since this was last asked."""
        with self._guard:
            longest, self._longest = self._longest, 0.0
            return self._number, self._seconds, longest


_known: weakref.WeakKeyDictionary[sa.Engine, Waits] = weakref.WeakKeyDictionary()
_known_guard = threading.Lock()


def waits_of(engine: sa.Engine) -> Waits:
    """Return the waits of one open ledger in this process."""
    with _known_guard:
        return _known.setdefault(engine, Waits())


@contextmanager
def waiting(engine: sa.Engine) -> Iterator[None]:
    """Count how long a block takes that waits for a lock."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        waits_of(engine).add(time.perf_counter() - begun)
