"""Check the bounds of rows against the shape of the noise, and both against what was declared of columns.

The norm of the noise is the Euclidean norm of the joint columns plus the absolute values of the others. An
encoder divides all rows by the largest length that its declarations allow: with numbers of length at most r
and K groups of zeros and ones that is ``r + K``, or ``sqrt(m) r + K`` if the m numbers are separate, too; the
Euclidean length is then at most ``sqrt(r^2 + K)`` divided by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from .layout import Release

_ROOM = 1e-8
_NUMBERS, _DATES, _LEVELS, _TRUTHS = {"low", "high"}, {"first", "last"}, {"categories"}, {"boolean"}


def misshapen(release: Release, constant: Fraction) -> list[str]:
    """Return the names of the parts of a release that do not fit its shape."""
    first, second = Fraction(release.row_bound), Fraction(release.longest)
    if release.joint == len(release.coef_grid):
        fits = first**2 >= 1 + constant**2 and second == first
    elif release.is_gaussian:  # its one bound is Euclidean, and follows from the encoder
        fits = first >= constant and release.joint >= 0
    else:
        fits = first >= 1 + constant and constant <= second <= first and release.joint >= 0
    wrong = [] if fits and release.joint <= len(release.coef_grid) else ["row_bound"]
    if release.encoder is not None and not _declared(release, float(constant)):
        wrong.append("encoder")
    return wrong


def _declared(release: Release, constant: float) -> bool:
    """Whether an encoder makes the columns of a release, and rows as short as it says."""
    encoder = release.encoder or {}
    try:
        names, numbers, groups = _columns(encoder["columns"])
        radius = encoder["radius"]
        # The canonical text sorts what is declared; the order of the columns is that of the features.
        if sorted(names) != sorted(release.features["name"]):
            return False
        if type(radius) is not float or not radius > 0.0:
            return False
        length = min(radius, math.sqrt(numbers))
        largest = math.sqrt(numbers) * length + groups if release.joint == 0 else length + groups
        if release.joint == len(release.coef_grid):
            return True
        if release.joint not in (0, numbers):
            return False
        shortest = (length**2 + groups) / largest**2 + constant**2
        return float(release.longest) ** 2 >= shortest * (1.0 - _ROOM)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError):
        return False


def _columns(columns: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], int, int]:
    """Return the names of the encoded columns, how many are numbers, and how many groups of levels."""
    names: list[str] = []
    numbers = groups = 0
    for name, part in columns.items():
        levels: list[str] = []
        if set(part) >= _NUMBERS or set(part) >= _DATES:
            names.append(name)
            numbers += 1
        elif set(part) >= _LEVELS:
            levels = _texts(part["categories"])
            levels += ["other"] * (part.get("other") is True)
        elif set(part) >= _TRUTHS:
            levels = ["yes"]
        else:
            raise ValueError("a column of no known kind")
        levels += ["missing"] * (part.get("missing_category") is True)
        names += [f"{name}={level}" for level in levels]
        groups += bool(levels)
    return names, numbers, groups


def _texts(levels: Any) -> list[str]:
    if type(levels) is not list or not all(isinstance(level, str | int | float) for level in levels):
        raise TypeError
    return [str(level) for level in levels]


def declared_alike(features: Mapping[str, Mapping[str, Any]], encoder: Mapping[str, Any]) -> bool:
    """Whether an encoder has the declarations of a market's features; categories are compared as text."""
    return {name: _as_text(part) for name, part in features.items()} == dict(encoder["columns"])


def _as_text(part: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in part.items() if value is not False or key == "missing"}
    if "categories" in found:
        found["categories"] = [str(level) for level in found["categories"]]
        if "missing" in found:
            found["missing"] = str(found["missing"])
    return found
