"""Turn the standard error off while polars reads a file: it may quote a damaged one there."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

_SILENCE = threading.Lock()


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Send what polars itself writes to the standard error nowhere: it may quote a damaged file there.

    Several threads may read at once: the first of them turns it off, the last one on again.
    """
    _turn_off()
    try:
        yield
    finally:
        _turn_on()


def _turn_off() -> None:
    with _SILENCE:
        _silencing.readers += 1
        if _silencing.readers > 1:
            return
        try:
            _silencing.kept = os.dup(2)
        except OSError:  # there is no standard error
            return
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 2)
        os.close(sink)


def _turn_on() -> None:
    with _SILENCE:
        _silencing.readers -= 1
        if _silencing.readers or _silencing.kept is None:
            return
        os.dup2(_silencing.kept, 2)
        os.close(_silencing.kept)
        _silencing.kept = None


@dataclass
class _Silencing:
    """How many threads read, and where the standard error is kept meanwhile."""

    readers: int = 0
    kept: int | None = None


_silencing = _Silencing()
