"""Compile loops, all in the same way, and report that it takes a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import event

from dpmarket.progress import compiling

_Function = TypeVar("_Function", bound=Callable[..., Any])
# numba's own types know neither all options nor what a decorated function returns.
_njit: Any = numba.njit
_register: Any = event.register


def compiled(**options: Any) -> Callable[[_Function], _Function]:
    """Return a decorator that compiles a function at its first call; divisions by 0 give infinity or NaN."""
    decorator: Callable[[_Function], _Function] = _njit(
        cache=True, error_model="numpy", no_cfunc_wrapper=True, **options
    )
    return decorator


class _Listener(event.Listener):
    """Hears of functions that numba finds compiled nowhere."""

    def on_start(self, event: Any) -> None:
        compiling()

    def on_end(self, event: Any) -> None:
        """Nothing is left to say."""


_register("numba:compile", _Listener())
