"""What a campaign buys, as pages show it: statistics in place of a model, and the plan of a draft's rules."""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from dpmarket.campaign.campaigns import Opening
from dpmarket.campaign.log import canonical
from dpmarket.campaign.opening import opening_of
from dpmarket.campaign.rules.pricing import errors_of, guessing_error, prospect_for
from dpmarket.campaign.rules.questions import Question
from dpmarket.campaign.rules.released import StatisticsFile, released_from_bytes
from dpmarket.campaign.rules.rules_file import Money, Rules, rules_from
from dpmarket.errors import DpmarketError
from dpmarket.statistics import ReleasedStatistic

MODEL, NUMBERS = "model", "numbers"  # what a campaign buys; texts about numbers are chosen by the second


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
    level = (question.level or 0.5) if is_quantile else 0.0
    return {
        "kind": "median" if level == 0.5 else question.kind,
        "columns": ", ".join(question.names),
        "low": question.low or 0.0,
        "high": question.high or 0.0,
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


@dataclass(frozen=True)
class Line:
    """What one budget buys."""

    name: str
    budget: int
    people: int
    error: float


@dataclass(frozen=True)
class Planned:
    """A plan beside the form."""

    lines: tuple[Line, ...]
    money: Money
    opening: Opening | None = None
    share: float | None = None
    problem: str | None = None


def planned(rules: Rules) -> Planned:
    """Return what rules would buy."""
    return _planned(canonical(rules.to_data()))


def error_so_far(rules: Rules, people: int, epsilon: float) -> float | None:
    """Return the least error to expect if nobody else came, at even weights; None for nobody."""
    if people == 0 or epsilon <= 0.0:
        return None
    return sum(errors_of(rules, np.full(people, epsilon / people)))


@functools.lru_cache(maxsize=32)
def _planned(text: str) -> Planned:
    rules = rules_from(text)
    lines = tuple(
        line
        for name, factor in (("half", 0.5), ("this", 1.0), ("double", 2.0))
        if (line := _line(rules, name, factor)) is not None
    )
    try:
        return Planned(lines, rules.money, opening_of(rules), _share_of_guessing(rules))
    except DpmarketError as problem:
        return Planned(lines, rules.money, problem=str(problem))


def _share_of_guessing(rules: Rules) -> float | None:
    if rules.sellers.expected is None:
        return None
    try:
        error = prospect_for(rules, rules.people, rules.objective.budget).error
    except DpmarketError:
        return None
    return 100.0 * error / guessing_error(rules)


def _line(rules: Rules, name: str, factor: float) -> Line | None:
    budget, people = rules.objective.budget, rules.sellers.expected
    if budget is None or people is None:
        return None
    try:
        found = prospect_for(rules, people, factor * budget)
    except DpmarketError:
        return None
    minor = math.floor(Fraction(repr(factor * budget)) * rules.money.minor_units)
    return Line(name, minor, round(found.share_bought * people), found.error)
