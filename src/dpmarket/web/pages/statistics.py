"""The statistics that a campaign asks for in place of a model, and those that it released, for pages."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from dpmarket.campaign.rules.questions import Question
from dpmarket.campaign.rules.released import StatisticsFile, released_from_bytes
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.statistics import ReleasedStatistic

MODEL, NUMBERS = "model", "numbers"
"""What a campaign buys; texts about numbers are chosen by the second (:mod:`dpmarket.web.pages.texts`)."""


def purpose_of(rules: Rules) -> str:
    """Return whether rules buy a model or statistics."""
    return NUMBERS if rules.statistics else MODEL


def wanted_of(rules: Rules) -> list[dict[str, Any]]:
    """Return the statistics that rules ask for; none if a model is trained."""
    total = sum(question.share or 1.0 for question in rules.statistics.values())
    return [
        _wanted(question) | {"name": name, "percent": round(100 * (question.share or 1.0) / total)}
        for name, question in rules.statistics.items()
    ]


def numbers_of(rules: Rules, document: bytes | None) -> list[dict[str, Any]]:
    """Return the statistics of a released document; none if there is none, or the rules buy a model."""
    found = None if document is None or not rules.statistics else released_from_bytes(document)
    if not isinstance(found, StatisticsFile):
        return []
    return [_shown(release) | {"name": name} for name, release in found.releases().items()]


def _wanted(question: Question) -> dict[str, Any]:
    is_quantile = question.kind == "quantile"
    answers = question.answers() if is_quantile else (question.low or 0.0, question.high or 0.0)
    level = (question.level or 0.5) if is_quantile else 0.0
    return {
        "kind": "median" if level == 0.5 else question.kind,
        "columns": ", ".join(question.names),
        "low": answers[0],
        "high": answers[-1],
        "level": level,
        "options": ", ".join(str(category) for category in question.categories or ()),
        "bins": list(pairwise(question.edges or ())),
        "bound": question.bound or 0.0,
    }


def _shown(release: ReleasedStatistic) -> dict[str, Any]:
    """Return a release with four digits of each number; a value's label is empty where it needs none."""
    bins = list(pairwise(release.question.get("edges") or ()))
    level = float(release.question["level"]) if release.kind == "quantile" else 0.0
    has_labels = release.kind in ("histogram", "vector mean") and not bins
    values = [
        {
            "label": label if has_labels else "",
            "bin": bins[k] if bins else None,
            "value": _digits(release.values[k]),
            "low": None if release.lows is None else _digits(release.lows[k]),
            "high": None if release.highs is None else _digits(release.highs[k]),
        }
        for k, label in enumerate(release.labels)
    ]
    return {
        "kind": "median" if level == 0.5 else release.kind.replace(" ", "_"),
        "level": level,
        "values": values,
        "radius": _digits(release.radius),
        "percent": float(f"{100.0 * release.confidence:.6g}"),
        "people": max(round(release.effective_people), 1),
    }


def _digits(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")
