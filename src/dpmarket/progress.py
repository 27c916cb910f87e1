"""How long work tells how far it is: functions that it calls, and that only a user interface gives it.

A function that takes a while takes ``progress``; whoever wants to see something passes a callback, and only
``cli`` turns it into a bar.
"""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], object]
"""Called with how much of the work is done and how much there is in all, counted in steps of one kind."""

StageProgress = Callable[[str, float], object]
"""Called with what is being done and the share of all work that is done, from 0 to 1."""
