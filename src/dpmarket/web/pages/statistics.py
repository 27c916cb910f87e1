"""The statistics that a campaign asks for in place of a model, and those that it released."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dpmarket.campaign.rules.questions import Question
from dpmarket.campaign.rules.released import StatisticsFile, released_from_bytes
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.statistics import ReleasedStatistic

Bins = tuple[tuple[float, float], ...]
MODEL, NUMBERS = "model", "numbers"
"""What a campaign buys; texts about numbers are chosen by the second (:mod:`dpmarket.web.pages.texts`)."""


@dataclass(frozen=True)
class Wanted:
    """One number that a campaign asks for, as its sellers read it."""

    name: str
    kind: str
    columns: str
    low: float
    high: float
    options: str
    level: float
    bound: float
    percent: int
    bins: Bins = ()


@dataclass(frozen=True)
class Value:
    """A released value with the ends of its interval, four digits each; None where there is no interval.

    Its label is a category or a column's name; empty where it is the only one, or has a bin in place of it.
    """

    label: str
    bin: tuple[float, float] | None
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Shown:
    """A released statistic, as everybody reads it who may see it."""

    name: str
    kind: str
    level: float
    values: tuple[Value, ...]
    radius: float | None
    percent: float
    people: int


def purpose_of(rules: Rules) -> str:
    """Return whether rules buy a model or statistics."""
    return NUMBERS if rules.statistics else MODEL


def wanted_of(rules: Rules) -> list[Wanted]:
    """Return the statistics that rules ask for; none if a model is trained."""
    total = sum(question.share or 1.0 for question in rules.statistics.values())
    return [
        _wanted(name, question, round(100 * (question.share or 1.0) / total))
        for name, question in rules.statistics.items()
    ]


def numbers_of(rules: Rules, document: bytes | None) -> list[Shown]:
    """Return the statistics of a released document; none if there is none, or the rules buy a model."""
    found = None if document is None or not rules.statistics else released_from_bytes(document)
    if not isinstance(found, StatisticsFile):
        return []
    return [_shown(name, release) for name, release in found.releases().items()]


def _wanted(name: str, question: Question, percent: int) -> Wanted:
    kind, low, high = question.kind, question.low or 0.0, question.high or 0.0
    options: list[str] = [str(category) for category in question.categories or ()]
    level = 0.0
    told: str = kind
    if kind == "quantile":
        answers = question.answers()
        level, low, high = question.level or 0.5, answers[0], answers[-1]
        told = "median" if level == 0.5 else kind
    bins = tuple(pairwise(question.edges or ()))
    columns, bound = ", ".join(question.names), question.bound or 0.0
    return Wanted(name, told, columns, low, high, ", ".join(options), level, bound, percent, bins)


def _shown(name: str, release: ReleasedStatistic) -> Shown:
    bins = tuple(pairwise(release.question.get("edges") or ()))
    kind = release.kind.replace(" ", "_")
    level = float(release.question["level"]) if kind == "quantile" else 0.0
    several = kind in ("histogram", "vector_mean")
    values = tuple(
        Value(
            label if several and not bins else "",
            bins[k] if bins else None,
            _digits(release.values[k]),
            None if release.lows is None else _digits(release.lows[k]),
            None if release.highs is None else _digits(release.highs[k]),
        )
        for k, label in enumerate(release.labels)
    )
    radius = None if release.radius is None else _digits(release.radius)
    percent = float(f"{100.0 * release.confidence:.6g}")
    told = "median" if level == 0.5 else kind
    people = max(round(release.effective_people), 1)
    return Shown(name, told, level, values, radius, percent, people)


def _digits(number: float) -> float:
    return float(f"{number:.4g}")
