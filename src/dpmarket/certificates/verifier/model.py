"""Check what a certificate says of a model: features, classes, and rows as short as the noise norm needs.

The norm of the noise is the Euclidean norm of the joint columns plus the absolute values of the separate
ones. An encoder divides all rows by the largest length that its declarations allow: with m numbers of length
at most r together and K groups of zeros and ones that is ``r + K``, or ``sqrt(m) r + K`` if the numbers are
separate as well; the Euclidean length is then at most ``sqrt(r^2 + K)`` divided by it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .reading import number_text
from .verdicts import HOLDS, SKIPPED, Check

_ROOM = 1e-8
_NUMBERS, _DATES, _LEVELS, _TRUTHS = {"low", "high"}, {"first", "last"}, {"categories"}, {"boolean"}


def model_problems(
    model: Mapping[str, Any],
    loss: Mapping[str, Any],
    norm: Mapping[str, Any] | None,
    shape: tuple[int, int] | None = None,
) -> list[str]:
    """Return the names of parts that do not fit together; ``shape`` is that of the coefficients."""
    features, classes = model["features"], model["classes"]
    names, low, high = features["name"], features["low"], features["high"]
    wrong = [] if 1e-9 <= model["factor"] <= 1e9 else ["factor"]
    outputs = loss.get("classes", 1.0)
    if norm is not None:
        expected = {len(norm["separate"])}
    else:
        assert shape is not None
        expected = {shape[1], shape[1] - 1}
        if shape[0] != outputs:
            wrong.append("coefficients")
    bounded = len(low) == len(high) == len(names) and all(a < b for a, b in zip(low, high, strict=True))
    if len(names) not in expected or not bounded or len(set(names)) < len(names):
        wrong.append("features")
    if classes is not None and (
        len(classes) != max(outputs, 2.0) or len(set(map(repr, classes))) < len(classes)
    ):
        wrong.append("classes")
    if classes is None and outputs != 1.0:
        wrong.append("classes")
    if model["encoder"] is not None and not _is_declared(model, norm):
        wrong.append("encoder")
    return wrong


def row_length_check(release: Mapping[str, Any]) -> list[Check]:
    """Say whether the Euclidean bound on rows follows from what was declared of columns."""
    if release["family"] != "norm" or not any(release["terms"]["norm"]["separate"]):
        return []
    name = "row lengths"
    if release["model"]["encoder"] is None:
        return [Check(name, SKIPPED, "no encoder is stated: the Euclidean bound on rows is the buyer's word")]
    return [Check(name, HOLDS, "follow from what was declared of the columns")]


def _is_declared(model: Mapping[str, Any], norm: Mapping[str, Any] | None) -> bool:
    """Whether an encoder makes the features of a model, and rows as short as its norm says."""
    try:
        encoder = model["encoder"]
        names, numbers, groups = _columns(encoder["columns"])
        radius = encoder["radius"]
        # Canonical JSON sorts what is declared; the order of the columns is that of the features.
        if (
            sorted(names) != sorted(model["features"]["name"])
            or type(radius) is not float
            or not radius > 0.0
        ):
            return False
        if norm is None or not any(norm["separate"]):
            return True
        joint = len(norm["separate"]) - sum(norm["separate"])
        length = min(radius, math.sqrt(numbers))
        largest = math.sqrt(numbers) * length + groups if joint == 0 else length + groups
        shortest = (length**2 + groups) / largest**2
        return joint in (0, numbers) and norm["euclidean_bound"] ** 2 >= shortest * (1.0 - _ROOM)
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
            levels = [level if type(level) is str else number_text(level) for level in part["categories"]]
            levels += ["other"] * (part.get("other") is True)
        elif set(part) >= _TRUTHS:
            levels = ["yes"]
        else:
            raise ValueError("a column of no known kind")
        levels += ["missing"] * (part.get("missing_category") is True)
        names += [f"{name}={level}" for level in levels]
        groups += bool(levels)
    return names, numbers, groups
