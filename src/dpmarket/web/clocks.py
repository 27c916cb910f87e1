"""A service's time: the machine's, or, in tests only, one that a file shifts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from dpmarket.errors import FileProblem
from dpmarket.web.settings import LOOPBACK, Settings

Clock = Callable[[], datetime]


def clock() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


def clock_of(settings: Settings) -> Clock:
    """Return the clock of a service."""
    if settings.clock_file is None:
        return clock
    # Moving the clock decides when quotes end.
    called = {settings.host, urlsplit(settings.public_url).hostname}
    if not settings.testing or not called <= set(LOOPBACK):
        raise FileProblem("clock_file is for tests on loopback only: expected testing = true there, or none.")
    file = settings.clock_file
    _shift(file)
    return lambda: datetime.now(UTC) + _shift(file)


def _shift(file: Path) -> timedelta:
    try:
        return timedelta(seconds=float(file.read_text(encoding="ascii")))
    except (OSError, ValueError, OverflowError):
        raise FileProblem(f"cannot use {file} as a clock: expected a number of seconds.") from None
