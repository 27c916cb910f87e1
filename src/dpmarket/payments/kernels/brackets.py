"""Narrow a bracket around a root: the rule of false position, both of whose ends move."""

from __future__ import annotations

from typing import Any, NamedTuple

from dpmarket.compiling import compiled


class Bracket(NamedTuple):
    """Two points at which a function has different signs, with its values there.

    ``moved``: which end moved last, -1 the lower, 1 the higher, 0 none; the value at an end that stayed twice
    counts half, so that the next guess lies beyond the root (Illinois).
    """

    low: float
    high: float
    f_low: float
    f_high: float
    moved: int


@compiled(forceinline=True)
def guess(bracket: Any) -> float:
    """Return where a straight line through both ends is 0."""
    low, high, f_low, f_high, _ = bracket
    point: float = high - f_high * (high - low) / (f_high - f_low)
    return point


@compiled(forceinline=True)
def narrowed(bracket: Any, point: float, f: float) -> Any:
    """Return the bracket with one end at a point inside, at which the function is ``f``."""
    low, high, f_low, f_high, moved = bracket
    if f * f_low > 0.0:
        return Bracket(point, high, f, 0.5 * f_high if moved == -1 else f_high, -1)
    return Bracket(low, point, 0.5 * f_low if moved == 1 else f_low, f, 1)
