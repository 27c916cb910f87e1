"""Turn a market's settings and its model into rows that a reader can copy: every value exact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpmarket.campaign import ModelFile
from dpmarket.mechanisms import Outcome
from dpmarket.version import __version__

_LONG = 300  # characters beyond which a distribution is told by its digest


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


def parameters_of(outcome: Outcome, minor_units: int, model: ModelFile | None) -> tuple[Parameter, ...]:
    """Return all public settings; a distribution with many numbers is told by its SHA-256."""
    rows = [
        Parameter("market", "dpmarket", __version__),
        Parameter("market", "mechanism", outcome.mechanism),
        Parameter("market", "distribution", _distribution(outcome.parameters["distribution"])),
        Parameter("market", "minor_units", minor_units),
    ]
    rows += [Parameter("objective", name, value) for name, value in outcome.parameters["objective"].items()]
    if "curve" in outcome.parameters:
        names = ("expected_sellers", "slope", "cutoff", "max_epsilon", "margin_epsilon")
        rows += [Parameter("curve", name, outcome.parameters["curve"][name]) for name in names]
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


def _distribution(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True)
    if len(text) <= _LONG:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{data.get('kind', 'distribution')}, SHA-256 of its JSON: {digest}"


def _plain(value: object) -> bool:
    return isinstance(value, int | float | str)
