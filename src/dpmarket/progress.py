"""How long work says how far it is: by callbacks ``progress``, of which only a user interface makes a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

Progress = Callable[[int, int], object]
"""Called with how much of the work is done and how much there is in all, counted in steps of one kind."""

StageProgress = Callable[[str, float], object]
"""Called with what is being done and the share of all work that is done, from 0 to 1."""


def silent(what: str, share: float) -> None:
    """Do nothing: the progress of work that nobody watches."""


_WATCHING: list[Callable[..., object]] = []
_READING: list[Callable[..., object]] = []


@contextmanager
def _told(listeners: list[Callable[..., object]], callback: Callable[..., object]) -> Iterator[None]:
    listeners.append(callback)
    try:
        yield
    finally:
        listeners.remove(callback)


told_of_compiling = partial(_told, _WATCHING)
"""Has a callback called whenever a function is compiled, which happens once after installing."""
told_of_reading = partial(_told, _READING)
"""Has a callback called with a sentence on what is not read from a file as it stands there."""


def compiling() -> None:
    """Report that a function is being compiled."""
    for callback in tuple(_WATCHING):
        callback()


def tell_reading(sentence: str) -> None:
    """Report how something was read."""
    for callback in tuple(_READING):
        callback(sentence)
