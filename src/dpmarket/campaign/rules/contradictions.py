"""Contradictions in a rules file: between keys, each of which may be fine by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpmarket.campaign.rules.questions import LEAST_SHARE, question_problems
from dpmarket.errors import InvalidInput
from dpmarket.learning.columns import column_from

RESERVED_COLUMNS = (
    "epsilon", "payment", "payment_minor_units", "currency", "minor_units", "state", "reason", "reference",
    "probability", "prediction",
)  # fmt: skip


def probability_columns(labels: Sequence[object]) -> list[str]:
    """Return the columns in which predictions tell the probability of each of more than two labels."""
    return [f"probability_{label}" for label in labels]


def contradictions(data: Mapping[str, Any], feature_keys: set[str], features: str) -> list[tuple[str, str]]:
    """Find what is wrong between keys, each of which may be fine or not; ill-typed ones are skipped.

    Parameters
    ----------
    data
        Tables by name, as a TOML file gives them.
    feature_keys
        The keys that a feature may have.
    features
        What is expected where there are no features.

    Returns
    -------
    list of (str, str)
        The path of a key, and the sentence for it.
    """
    found = []
    objective, sellers = _table(data, "objective"), _table(data, "sellers")
    if isinstance(data.get("objective"), Mapping):
        given = [name for name in ("payment_weight", "budget") if name in objective]
        if len(given) != 1:
            what = "both" if given else "neither"
            found.append(("objective", f"objective: expected either payment_weight or budget, found {what}."))
        if _table(data, "campaign").get("mechanism") == "posted" and "budget" not in objective:
            line = "campaign.mechanism: expected objective.budget beside a posted price, found none."
            found.append(("campaign.mechanism", line))
        if "confidence" in objective and "budget" not in objective:
            line = "objective.confidence: expected a budget beside it, found none."
            found.append(("objective.confidence", line))
        found += _paper_problems(data, objective)
        if "budget" in objective and "expected" not in sellers:
            line = "sellers.expected: missing; expected a whole number >= 1, because objective.budget is set."
            found.append(("sellers.expected", line))
        elif _table(data, "campaign").get("mechanism") == "online" and "expected" not in sellers:
            line = "sellers.expected: missing; expected a whole number >= 1, for which prices are planned."
            found.append(("sellers.expected", line))
    found += delta_problems(data)
    found += _purposes(data, features)
    for name, bounds in _table(data, "features").items():
        if isinstance(bounds, Mapping):
            found += _feature_problems(f"features.{name}", bounds, feature_keys)
    return found + _clashes(data, sellers)


def delta_problems(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Find what contradicts a delta in a rules file, or what it lacks beside it; ill-typed keys are skipped.

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
    if data.get("statistics"):
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
                f"{delta!r}: publishing the records of a few people at random would keep such guarantees.",
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


def _paper_problems(data: Mapping[str, Any], objective: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Find what the paper's objective excludes: it has two prices, pure epsilon and linear costs."""
    given = [name for name in ("concentration", "noise") if name in objective]
    if not given:
        return []
    path = f"objective.{given[0]}"
    if len(given) == 1:
        other = "noise" if given[0] == "concentration" else "concentration"
        return [(path, f"{path}: expected objective.{other} beside it: the paper's objective has both.")]
    if "delta" in objective:
        return [(path, f"{path}: expected none beside objective.delta: the paper's objective has no delta.")]
    if _table(data, "costs").get("shape", "linear") != "linear":
        return [(path, f"{path}: expected linear costs beside it, as in the paper.")]
    return []


def _purposes(data: Mapping[str, Any], features: str) -> list[tuple[str, str]]:
    """Find what is missing for a model, what is wrong with statistics, and where rules want both."""
    if not data.get("statistics"):
        found = []
        if "features" not in data:
            found.append(("features", f"features: missing; expected {features}."))
        elif data["features"] == {}:
            found.append(("features", f"features: expected {features}, got {{}}."))
        if "label" not in data and "target" not in data:
            found.append(("label", "label: missing; expected the table [label], or [target]."))
        elif "label" in data and "target" in data:
            found.append(("target", "target: expected none beside [label]: a model predicts one of them."))
        target = _table(data, "target")
        low, high = target.get("low"), target.get("high")
        if isinstance(low, int | float) and isinstance(high, int | float) and not low < high:
            found.append(("target", f"target: expected low < high, got low = {low}, high = {high}."))
        return found
    found = [
        (name, f"{name}: expected none beside [statistics]: a campaign trains a model or asks for numbers.")
        for name in ("features", "label", "target")
        if data.get(name)
    ]
    several = _table(data, "statistics")
    for name, declared in several.items():
        if isinstance(declared, Mapping):
            found += question_problems(f"statistics.{name}", declared)
    return found + _shares(several) + _kinds(data)


def _shares(several: Mapping[str, Any]) -> list[tuple[str, str]]:
    tables = {name: declared for name, declared in several.items() if isinstance(declared, Mapping)}
    shares = {name: declared.get("share", 1.0) for name, declared in tables.items()}
    if not all(isinstance(share, int | float) and share > 0 for share in shares.values()):
        return []
    small = [name for name, share in shares.items() if share < LEAST_SHARE * sum(shares.values())]
    paths = [f"statistics.{name}.share" for name in small]
    return [(path, f"{path}: expected at least a thousandth of all shares.") for path in paths]


def _kinds(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Find columns that are read in two ways: as numbers, as yes or no, or as one of these categories."""
    found: list[tuple[str, str]] = []
    first: dict[str, tuple[str, Any]] = {}
    for path, declared in _questions(data):
        reading: Any = "numbers"
        if declared.get("kind") == "share":
            reading = "yes or no"
        elif declared.get("kind") == "histogram" and "edges" not in declared:
            given = declared.get("categories")
            reading = sorted(map(str, given)) if isinstance(given, list) else []
        for column in _columns(declared):
            other, was = first.setdefault(column, (path, reading))
            if was != reading:
                line = f"{path}: expected another column than {other}, which reads {column!r} otherwise."
                found.append((path, line))
    return found


def _questions(data: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    named = [(f"statistics.{name}", declared) for name, declared in _table(data, "statistics").items()]
    return [(path, declared) for path, declared in named if isinstance(declared, Mapping)]


def _columns(declared: Mapping[str, Any]) -> list[str]:
    columns = declared.get("columns") or [declared.get("column", "value")]
    return [column for column in columns if isinstance(column, str)] if isinstance(columns, list) else []


def _feature_problems(path: str, declared: Mapping[str, Any], known: set[str]) -> list[tuple[str, str]]:
    """Find what is wrong between the keys of one feature."""
    if not {"categories", "first", "last", "boolean"} & set(declared):
        ends = {"low": "a number", "high": "a number above low"}
        absent = [(f"{path}.{end}", words) for end, words in ends.items() if end not in declared]
        if absent:
            return [(place, f"{place}: missing; expected {words}.") for place, words in absent]
        low, high = declared["low"], declared["high"]
        if isinstance(low, int | float) and isinstance(high, int | float) and not low < high:
            return [(path, f"{path}: expected low < high, got low = {low}, high = {high}.")]
    if not set(declared) <= known:
        return []
    try:
        column_from(path, declared)
    except InvalidInput as error:
        return [(path, f"{path}: {str(error).removeprefix(f'column {path!r}: ')}")]
    return []


def _clashes(data: Mapping[str, Any], sellers: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    ids = sellers.get("id_column", "seller")
    uses = [
        ("sellers.id_column", ids),
        ("sellers.cost_column", sellers.get("cost_column", "cost")),
        *((f"features.{name}", name) for name in _table(data, "features")),
    ]
    if "target" in data:
        uses.insert(2, ("target.column", _table(data, "target").get("column", "target")))
    elif not _questions(data):
        uses.insert(2, ("label.column", _table(data, "label").get("column", "label")))
    asked = dict.fromkeys((path, name) for path, declared in _questions(data) for name in _columns(declared))
    for path, name in asked:  # two statistics may ask about one column
        clash = next((other for other, used in uses if used == name), None)
        if clash is not None:
            line = f"{path}: expected another column than {clash}, got {name!r} in both."
            found.append((path, line))
    first: dict[Any, str] = {}
    for path, name in uses:
        if isinstance(name, str) and name in first:
            found.append((path, f"{path}: expected another column than {first[name]}, got {name!r} in both."))
        elif isinstance(name, str):
            first[name] = path
    reserved = [*RESERVED_COLUMNS]
    if len(_labels(data)) > 2:
        reserved += probability_columns(_labels(data))
    if ids in reserved:
        words = ", ".join(reserved)
        found.append(("sellers.id_column", f"sellers.id_column: expected none of {words}, got {ids!r}."))
    return found


def _labels(data: Mapping[str, Any]) -> list[Any]:
    values = _table(data, "label").get("values")
    return values if isinstance(values, list) else []


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}
