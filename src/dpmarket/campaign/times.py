"""Times as the database writes them: text, UTC, whole seconds; later ones sort later."""

from __future__ import annotations

from datetime import UTC, datetime

from dpmarket.errors import InvalidInput


def time_text(moment: datetime) -> str:
    """Return a moment as text."""
    if moment.tzinfo is None:
        raise InvalidInput("expected a time with its zone, such as datetime.now(UTC).")
    try:
        return moment.astimezone(UTC).isoformat(timespec="seconds")
    except OverflowError:
        raise InvalidInput("expected a time in the years 1 to 9999.") from None


def moment_of(text: str) -> datetime:
    """Return the moment that a text says."""
    return datetime.fromisoformat(text)
