r"""Check a release of statistics: noise that fits the unit, and settings that make sense.

Everybody has a whole weight A in each statistic; a weight of one spends u, a power of two. Records are whole
parts from 0 to :math:`M = 2^{24}` (a vector's are at most M long), so that replaced records move a sum by at
most :math:`A M` (twice that for a histogram of more than two categories, a quantile's scores and a vector):
discrete Laplace noise of scale :math:`M / u` (:math:`2 M / u`) costs :math:`A u` exactly, and so do radial
noise and report noisy max of that scale. A line's weight is the sum of :math:`A u` over all statistics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .layout import is_whole, is_whole_text, refuse_other_parts

_PARTS = 1 << 24
_LARGEST_WEIGHT = 1 << 80
_TERMS = {"confidence", "kind", "rows_per_person"}
_SETTINGS: dict[str, set[str]] = {
    "mean": {"low", "high"},
    "share": set(),
    "histogram": {"categories"},
    "quantile": {"level", "candidates", "interval_share"},
    "vector mean": {"names", "bound"},
}


def unit_of(release: Mapping[str, Any]) -> Fraction:
    """Return the least unit of any of the statistics: every weight is a whole multiple of it."""
    return Fraction(2) ** min(int(one["unit_exponent"]) for one in release["statistics"].values())


def spent_on_all(release: Mapping[str, Any]) -> Fraction:
    """Return what all statistics together spend on everybody, exactly."""
    return sum(map(_spent, release["statistics"].values()), Fraction(0))


def statistics_problems(release: Mapping[str, Any]) -> list[str]:
    """Return the names of parts that are out of range or do not fit together."""
    rows, statistics = release["rows_per_person"], release["statistics"]
    if not is_whole(rows, 1, 10**6):
        return ["rows_per_person"]
    if not 1 <= len(statistics) <= 1_000:
        return ["statistics"]
    wrong = []
    for name, one in statistics.items():
        refuse_other_parts(one, "statistic", f"the statistic {name!r}")
        wrong += [f"{name!r}: {part}" for part in _wrong(one, rows)]
    if wrong:
        return wrong
    if sum((Fraction(one["share"]) for one in statistics.values()), Fraction(0)) > 1:
        wrong.append("shares")
    spent = spent_on_all(release)
    if not spent <= Fraction(release["weight_total"]) <= spent * (1 + Fraction(1, 1 << 50)):
        wrong.append("weight_total")
    return wrong


def _spent(one: Mapping[str, Any]) -> Fraction:
    return int(one["total_weight"]) * Fraction(2) ** int(one["unit_exponent"])


def _wrong(one: Mapping[str, Any], rows: float) -> list[str]:
    exponent, question = one["unit_exponent"], one["question"]
    tests = {
        "question": _is_sensible(question, rows),
        "share": 0.0 < one["share"] <= 1.0,
        "unit_exponent": is_whole(exponent, -760, 40),
        "total_weight": is_whole_text(one["total_weight"]),
        "numerators": all(map(is_whole_text, one["numerators"])),
    }
    wrong = [name for name, good in tests.items() if not good]
    if wrong:
        return wrong
    if not 1 <= int(one["total_weight"]) <= _LARGEST_WEIGHT:
        wrong.append("total_weight")
    scale = _moved(question) * _PARTS / Fraction(2) ** int(exponent)
    if Fraction(one["noise_scale"]) != scale:
        wrong.append("noise_scale")
    if not _are_numerators([int(number) for number in one["numerators"]], question):
        wrong.append("numerators")
    return wrong


def _moved(question: Mapping[str, Any]) -> int:
    """Return by how many times a weight one person's replaced records move what is released."""
    kind = question["kind"]
    few = kind == "histogram" and len(question["categories"]) == 2
    return 1 if few or kind in ("mean", "share") else 2


def _are_numerators(numbers: list[int], question: Mapping[str, Any]) -> bool:
    kind = question["kind"]
    if kind == "quantile":
        ends = 3 if question["interval_share"] > 0.0 else 1
        return len(numbers) == ends and all(0 <= place < len(question["candidates"]) for place in numbers)
    labels = question.get("categories") or question.get("names") or [kind]
    return len(numbers) == (1 if _moved(question) == 1 else len(labels))


def _is_sensible(question: Mapping[str, Any], rows: float) -> bool:
    """Whether the settings of a question make sense: bounds in order, categories apart."""
    kind = question.get("kind")
    own = _SETTINGS.get(kind) if isinstance(kind, str) else None
    if own is None or not own | _TERMS <= set(question):
        return False
    if set(question) - own - _TERMS - ({"edges"} if kind == "histogram" else set()):
        return False
    confidence, own_rows = question["confidence"], question["rows_per_person"]
    if not type(confidence) is type(own_rows) is float or not 0.0 < confidence < 1.0 or own_rows != rows:
        return False
    if kind == "mean":
        return _increasing([question["low"], question["high"]])
    if kind == "histogram":
        edges, names = question.get("edges"), question["categories"]
        return _apart(names, 2) and (edges is None or (_increasing(edges) and len(edges) == len(names) + 1))
    if kind == "quantile":
        share, level = question["interval_share"], question["level"]
        numbers = type(share) is type(level) is float
        return _increasing(question["candidates"]) and numbers and 0.0 <= share < 1.0 and 0.0 < level < 1.0
    if kind == "vector mean":
        bound = question["bound"]
        return _apart(question["names"], 1) and type(bound) is float and 0.0 < bound < math.inf
    return True


def _apart(names: Any, least: int) -> bool:
    plain = type(names) is list and all(type(name) in (str, float) for name in names)
    return plain and len(set(names)) == len(names) >= least


def _increasing(numbers: Any) -> bool:
    return (
        type(numbers) is list
        and len(numbers) >= 2
        and all(type(number) is float for number in numbers)
        and all(a < b for a, b in pairwise(numbers))
    )
