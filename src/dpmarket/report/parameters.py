"""Turn a market's settings and its model into rows that a reader can copy: every value exact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpmarket.campaign import ModelFile
from dpmarket.version import __version__

_LONG = 300  # characters beyond which a table is shown as its digest


@dataclass(frozen=True)
class Parameter:
    """One setting: the part that it belongs to, its name as in the code, and its value."""

    part: str
    name: str
    value: float | int | str | bool | None


@dataclass(frozen=True)
class Feature:
    """One feature of the model with its public bounds, and its coefficient after scaling to them.

    ``label`` says for which label the coefficient is, where there are more than two.
    """

    name: str
    low: float
    high: float
    coefficient: float
    label: str | None = None


def parameters_of(
    rules: Mapping[str, Any], minor_units: int, model: ModelFile | None
) -> tuple[Parameter, ...]:
    """Return all public settings; a table with many numbers is shown as its SHA-256."""
    rows = [
        Parameter("market", "dpmarket", __version__),
        Parameter("market", "minor_units", minor_units),
    ]
    for name, value in rules.items():
        if name != "objective":
            rows.append(Parameter("market", name, value if _plain(value) else _shortened(value)))
    rows += [Parameter("objective", name, value) for name, value in rules["objective"].items()]
    if model is not None:
        rows += [Parameter("model", name, value) for name, value in model.to_dict().items() if _plain(value)]
    return tuple(rows)


def features_of(model: ModelFile) -> tuple[Feature, ...]:
    """Return the features of a model with their bounds and coefficients, label after label if many."""
    return tuple(
        Feature(feature.name, feature.low, feature.high, value, str(label) if model.has_many_labels else None)
        for label, values in model.by_label()
        for feature, value in zip(model.features, values[:-1].tolist(), strict=True)
    )


def _shortened(data: object) -> str:
    text = json.dumps(data, sort_keys=True)
    if len(text) <= _LONG:
        return text
    return f"SHA-256 of its JSON: {hashlib.sha256(text.encode()).hexdigest()}"


def _plain(value: object) -> bool:
    return isinstance(value, int | float | str)
