"""Rate limits in this process's memory: token buckets, one for each kind of request and caller.

They are not in the database: a refused request must count, and would be rolled back with its act.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

_MOST = 100_000


@dataclass(frozen=True)
class Rate:
    """So many requests at once, and so many more in each ``seconds``."""

    number: int
    seconds: float


class Limits:
    """Buckets of all callers; the ones that were used least recently are forgotten first.

    Examples
    --------
    >>> from datetime import UTC
    >>> limits, now = Limits(), datetime(2026, 3, 1, tzinfo=UTC)
    >>> [limits.take("login", "an address", Rate(2, 60.0), now) for _ in range(3)]
    [0.0, 0.0, 30.0]
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], tuple[float, datetime]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, kind: str, who: str, rate: Rate, now: datetime) -> float:
        """Count a request; return 0, or in how many seconds there is room for it."""
        pace = rate.number / rate.seconds
        with self._lock:
            level, last = self._buckets.pop((kind, who), (float(rate.number), now))
            passed = max((now - last).total_seconds(), 0.0)
            level = min(level + passed * pace, float(rate.number))
            wait = 0.0 if level >= 1.0 else (1.0 - level) / pace
            self._buckets[kind, who] = (level - 1.0 if wait == 0.0 else level, now)
            while len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
        return wait
