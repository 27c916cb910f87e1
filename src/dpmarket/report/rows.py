"""What a page lists row by row: exact settings, the features of a model, released numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from dpmarket.campaign.rules.released import ModelFile, StatisticsFile
from dpmarket.version import __version__

_SHOWN = ("label", "value", "low", "high")
_LONG = 300  # characters beyond which a table is shown as its digest


@dataclass(frozen=True)
class Parameter:
    """One setting: the part that it belongs to, its name as in the code, and its value."""

    part: str
    name: str
    value: float | int | str | bool | None


@dataclass(frozen=True)
class Feature:
    """One encoded feature: its column's declaration, coefficient, label if many, and any 90% interval."""

    name: str
    declared: str
    coefficient: float
    label: str | None = None
    interval: str | None = None


def parameters_of(
    rules: Mapping[str, Any], minor_units: int, model: ModelFile | None
) -> tuple[Parameter, ...]:
    """Return all public settings; a table with many numbers is shown as its SHA-256."""
    rows = [Parameter("market", "dpmarket", __version__), Parameter("market", "minor_units", minor_units)]
    for name, value in rules.items():
        if name != "objective":
            rows.append(Parameter("market", name, value if _plain(value) else _shortened(value)))
    rows += [Parameter("objective", name, value) for name, value in rules["objective"].items()]
    if model is not None:
        rows += [Parameter("model", name, value) for name, value in model.to_dict().items() if _plain(value)]
    return tuple(rows)


def features_of(model: ModelFile) -> tuple[Feature, ...]:
    """Return the encoded features with their public bounds and coefficients, label after label if many."""
    if model.is_network:
        return ()  # its weights say nothing one by one
    columns = model.encoder["columns"]
    names = sorted(columns, key=len, reverse=True)  # a level's name begins with its column's

    def declared(feature: str) -> str:
        """Say what is public about a column: the true bounds, not those after scaling."""
        own = next(name for name in names if feature == name or feature.startswith(f"{name}="))
        column = columns[own]
        if feature != own:
            return "0 or 1"
        if "first" in column:
            return f"{column['first']} to {column['last']}"
        return f"{column['low']:g} to {column['high']:g}" if "low" in column else "yes or no"

    outputs = model.labels if len(model.labels) > 2 else [None]
    intervals: Iterator[str | None] = repeat(None)
    if "intervals" in model.description:
        ends = model.estimator.coef_interval()
        pairs = zip(ends.low.ravel().tolist(), ends.high.ravel().tolist(), strict=True)
        intervals = (f"{low:.4g} to {high:.4g}" for low, high in pairs)
    return tuple(
        Feature(name, declared(name), value, None if label is None else str(label), next(intervals))
        for label, values in zip(outputs, model.coefficients, strict=True)
        for name, value in zip(model.features, values[:-1].tolist(), strict=True)
    )


def _shortened(data: object) -> str:
    text = json.dumps(data, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text if len(text) <= _LONG else f"SHA-256 of its JSON: {digest}"


def _plain(value: object) -> bool:
    return isinstance(value, int | float | str)


@dataclass(frozen=True)
class Numbers:
    """Released statistics row by row, with the least confidence and effective people of any, and a radius."""

    rows: tuple[dict[str, Any], ...]
    confidence: float
    radius: float | None
    effective_people: float
    caution: str


def numbers_in(statistics: StatisticsFile) -> Numbers:
    """Return what a page shows of released statistics."""
    releases = statistics.releases()
    radii = [release.radius for release in releases.values() if release.radius is not None]
    return Numbers(
        rows=tuple(
            {"name": name, "kind": release.kind, **dict(zip(_SHOWN, row, strict=True))}
            for name, release in releases.items()
            for row in release.to_frame().rows()
        ),
        confidence=min(release.confidence for release in releases.values()),
        radius=max(radii, default=None),
        effective_people=min(release.effective_people for release in releases.values()),
        caution=next(iter(releases.values())).caution,
    )
