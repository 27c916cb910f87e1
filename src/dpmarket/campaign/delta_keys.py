"""Find what contradicts a delta in a market file: keys that it excludes, and keys that it needs beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def delta_problems(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Find what contradicts a delta in a market file, or what it lacks beside it; ill-typed keys are skipped.

    Returns
    -------
    list of (str, str)
        The path of a key, and the sentence for it.
    """
    objective, sellers = (_table(data, name) for name in ("objective", "sellers"))
    found = []
    if "lifetime_delta" in sellers and "lifetime_epsilon" not in sellers:
        line = "sellers.lifetime_delta: expected sellers.lifetime_epsilon beside it, found none."
        found.append(("sellers.lifetime_delta", line))
    delta = objective.get("delta")
    if not isinstance(delta, int | float) or isinstance(delta, bool) or not 0.0 < delta < 1.0:
        return found
    others = {
        "objective.weight_cap": "max_epsilon bounds what anybody gives",
        "objective.max_mean_epsilon": "max_epsilon bounds what anybody gives",
        "objective.concentration": "the prices of error follow from the features",
        "objective.noise": "the prices of error follow from the features",
        "objective.confidence": "a budget is met on average, and online never exceeded",
    }
    for path, why in others.items():
        if path.removeprefix("objective.") in objective:
            found.append((path, f"{path}: expected none beside objective.delta: {why}."))
    if objective.get("mechanism") == "posted price":
        line = 'objective.mechanism: expected "best" beside objective.delta, got "posted price".'
        found.append(("objective.mechanism", line))
    if data.get("statistic") or data.get("statistics"):
        line = "objective.delta: expected none with statistics, whose noise needs no delta."
        found.append(("objective.delta", line))
    expected = sellers.get("expected")
    if "expected" not in sellers:
        line = "sellers.expected: missing; expected a whole number >= 1, because objective.delta is set."
        found.append(("sellers.expected", line))
    elif isinstance(expected, int) and expected >= 1 and delta > 1.0 / (10.0 * expected):
        found.append(
            (
                "objective.delta",
                f"objective.delta: expected at most 1 / (10 * sellers.expected) = {0.1 / expected:.3g}, got "
                f"{delta!r}: publishing the records of a few people at random would keep such promises.",
            )
        )
    if "lifetime_epsilon" in sellers:
        limit = sellers.get("lifetime_delta")
        if limit is None:
            line = (
                "sellers.lifetime_delta: missing; expected a number >= objective.delta, because "
                "sellers.lifetime_epsilon is set: over a lifetime epsilons and deltas add up, each by itself."
            )
            found.append(("sellers.lifetime_delta", line))
        elif isinstance(limit, int | float) and limit < delta:
            line = f"sellers.lifetime_delta: expected at least objective.delta = {delta!r}, got {limit!r}."
            found.append(("sellers.lifetime_delta", line))
    return found


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}
