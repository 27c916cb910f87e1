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

_ROOM = 1e-8


def model_problems(
    model: Mapping[str, Any],
    loss: Mapping[str, Any],
    norm: Mapping[str, Any] | None,
    shape: tuple[int, int] = (0, 0),
) -> list[str]:
    """Return the names of what does not fit together; ``shape`` is that of coefficients without a norm."""
    features, classes, outputs = model["features"], model["classes"], int(loss.get("classes") or 1)
    names, low, high = features["name"], features["low"], features["high"]
    network = loss["kind"] == "torch"  # with weights of its own, whatever its features
    counts = {len(norm["separate"])} if norm is not None else {shape[1], shape[1] - 1}
    bounded = len(low) == len(high) == len(names) and all(a < b for a, b in zip(low, high, strict=True))
    counted = bool(names) and (network or len(names) in counts)
    tests = {
        "coefficients": norm is not None or shape[0] == (1 if network else outputs),
        "loss": loss["kind"] != "sigmoid" or _is_known(loss, two_classes=classes is not None),
        "features": counted and bounded,
        "classes": outputs == 1 if classes is None else len(classes) == max(outputs, 2),
        "encoder": model["encoder"] is None or (counted and _is_declared(model["encoder"], names, norm)),
    }
    return [name for name, good in tests.items() if not good]


def _is_known(loss: Mapping[str, Any], *, two_classes: bool) -> bool:
    """Whether a loss is of labels 0 to 1 (logistic, hinge) or of residuals (quantile, log-cosh)."""
    scale, slope, (low, high) = loss["scale"], loss["slope"], loss["labels"]
    if two_classes or loss["target"][1] != 0.0:
        return bool(scale == 1.0 and loss["target"] == loss["labels"] == [0.0, 1.0])
    of_residuals = loss["shift"] == [0.0, -slope] and low < high
    return bool(of_residuals and (scale == 1.0 or abs(scale * slope - 4.0) <= _ROOM))


def _is_declared(encoder: Mapping[str, Any], features: list[str], norm: Mapping[str, Any] | None) -> bool:
    """Whether an encoder makes these features, and rows as short as their norm says."""
    names: list[str] = []
    numbers: list[str] = []
    groups = 0
    for name, part in encoder["columns"].items():
        levels = [level if type(level) is str else number_text(level) for level in part.get("categories", [])]
        levels += ["yes"] * ("boolean" in part) + ["other"] * part.get("other", False)
        levels += ["missing"] * part.get("missing_category", False)
        if "low" in part or "first" in part:
            numbers.append(name)
        names += [f"{name}={level}" for level in levels]
        groups += bool(levels)
    # Canonical JSON sorts what is declared; the order of the columns is that of the features.
    if sorted([*numbers, *names]) != sorted(features):
        return False
    if norm is None or not any(norm["separate"]):
        return True
    joint = [name for name, apart in zip(features, norm["separate"], strict=True) if not apart]
    length = min(encoder["radius"], math.sqrt(len(numbers)))
    largest = length + groups if joint else math.sqrt(len(numbers)) * length + groups
    shortest = (length**2 + groups) / largest**2
    fits = not joint or sorted(joint) == sorted(numbers)
    return fits and norm["euclidean_bound"] ** 2 >= shortest * (1.0 - _ROOM)
