r"""What a weight costs in a release of statistics, and whether its numbers are what was asked for.

``statistic``: means, shares, histograms, quantiles and mean vectors of the same people. Everybody has a whole
weight :math:`A` in each of them; a weight of one spends :math:`u`, a power of two. Records are whole parts
from 0 to :math:`M = 2^{24}` (a vector's are at most M long), so that somebody's records, replaced by others,
move a sum by at most :math:`A M` (twice that for two counts of a histogram, and for a vector), and discrete
Laplace noise of scale :math:`M / u` (:math:`2 M / u`) costs :math:`A u` exactly; so do radial noise with the
density :math:`e^{-|b| u / (2 M)}` and a race of rate :math:`u / (2 M)`. A line's weight is the sum of
:math:`A u` over all statistics: what it spends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .verdicts import Broken

STATISTIC = "statistic"
MOST_STATISTICS = 1_000
_PARTS = 1 << 24
_LARGEST_WEIGHT = 1 << 80
_EXPONENTS = (-760, 40)
_CLOSE = 1e-9
_SHAPE: dict[str, type] = {
    "columns": list,
    "name": str,
    "noise_scale": float,
    "numerators": list,
    "question": dict,
    "share": float,
    "total_weight": str,
    "unit_exponent": int,
    "values": list,
}
_TERMS = {"confidence", "kind", "rows_per_person"}
_SETTINGS = {
    "mean": {"low", "high"},
    "share": set(),
    "histogram": {"categories"},
    "quantile": {"level", "candidates", "interval_share"},
    "vector mean": {"names", "bound"},
}


@dataclass(frozen=True)
class Asked:
    """One statistic of a release, as the certificate states it."""

    name: str
    columns: list[Any]
    question: Mapping[str, Any]
    share: float
    numerators: list[Any]
    total_weight: str
    unit_exponent: int
    noise_scale: float
    values: list[Any]

    @property
    def unit(self) -> Fraction:
        """What a weight of one spends."""
        return Fraction(2) ** self.unit_exponent

    @property
    def total(self) -> int:
        """The sum of all whole weights."""
        return _whole(self.total_weight)

    @property
    def released(self) -> list[int]:
        """The whole numbers that were released."""
        return [_whole(number) for number in self.numerators]


@dataclass(frozen=True)
class StatisticRelease:
    """Statistics that were released together, and the public constants that their cost follows from."""

    kind: str
    delta: float
    rows_per_person: int
    weight_total: float
    statistics: tuple[Asked, ...]

    @property
    def unit(self) -> Fraction:
        """Everybody's weight is a whole multiple of this: the least unit of any of the statistics."""
        return min(asked.unit for asked in self.statistics)

    @property
    def spent(self) -> Fraction:
        """What all statistics together spend on everybody, exactly."""
        return sum((asked.total * asked.unit for asked in self.statistics), Fraction(0))


def statistic_release(found: Mapping[str, Any]) -> StatisticRelease:
    """Return the parts of a release whose outer layout was checked before.

    Raises
    ------
    Broken
        If a statistic has other parts, or one of another type.
    """
    asked = found["statistics"]
    if not 1 <= len(asked) <= MOST_STATISTICS:
        raise Broken("a release has at least one statistic, and not beyond all bounds")
    for part in asked:
        if not isinstance(part, dict) or part.keys() != _SHAPE.keys():
            raise Broken("a statistic in the certificate does not have the parts that this program knows")
        for name, kind in _SHAPE.items():
            if type(part[name]) is not kind:
                raise Broken(f"{name!r} of a statistic is not of the type that it must have")
    return StatisticRelease(
        kind=found["kind"],
        delta=found["delta"],
        rows_per_person=found["rows_per_person"],
        weight_total=found["weight_total"],
        statistics=tuple(Asked(**part) for part in asked),
    )


def statistic_loss_up(weight: float, release: StatisticRelease) -> Fraction:
    """Return what a weight costs: itself, or the next whole multiple of the unit where it is none."""
    count = Fraction(weight) / release.unit
    return -(-count.numerator // count.denominator) * release.unit


def wrong_parts(release: StatisticRelease, total_promise: float) -> list[str]:
    """Return the names of what is out of range or does not fit together.

    Parameters
    ----------
    release
        As the certificate states it.
    total_promise
        The sum of all promises, rounded up.
    """
    wrong = [f"{asked.name!r}: {part}" for asked in release.statistics for part in _wrong(asked, release)]
    if wrong:
        return wrong
    names = [asked.name for asked in release.statistics]
    if len(set(names)) < len(names):
        wrong.append("names")
    if release.delta != 0.0:
        wrong.append("delta")
    if not 1 <= release.rows_per_person <= 10**6:
        wrong.append("rows_per_person")
    if sum((Fraction(asked.share) for asked in release.statistics), Fraction(0)) > 1:
        wrong.append("shares")
    promised = Fraction(total_promise)
    if any(asked.total * asked.unit > Fraction(asked.share) * promised for asked in release.statistics):
        wrong.append("a statistic that spends more than its share")
    if not release.spent <= Fraction(release.weight_total) <= release.spent * (1 + Fraction(1, 1 << 50)):
        wrong.append("weight_total")
    return wrong


def adds_up(weights: Sequence[float], release: StatisticRelease) -> bool:
    """Whether everybody's weight is whole, and all of them are exactly what the statistics used."""
    counts = [Fraction(weight) / release.unit for weight in weights]
    return all(count.denominator == 1 for count in counts) and sum(counts) * release.unit == release.spent


def asked_alike(market: Mapping[str, Any], release: StatisticRelease) -> bool:
    """Whether published rules ask for the statistics of a release, of these columns, by these shares."""
    declared = dict(market.get("statistics") or {})
    if market.get("statistic"):
        declared = {str(market["statistic"]["kind"]).replace("_", " "): market["statistic"]}
    if set(declared) != {asked.name for asked in release.statistics}:
        return False
    shares = {name: _number(part.get("share", 1.0)) for name, part in declared.items()}
    return all(
        _same_question(declared[asked.name], asked)
        and abs(Fraction(asked.share) - shares[asked.name] / sum(shares.values())) <= Fraction(1, 1 << 50)
        for asked in release.statistics
    )


def _wrong(asked: Asked, release: StatisticRelease) -> list[str]:
    """Return the parts of one statistic that are not what they must be."""
    unusable = _unusable(asked, release.rows_per_person)
    if unusable is not None:
        return [unusable]
    wrong = []
    if not all(type(column) is str for column in asked.columns):
        wrong.append("columns")
    if not 0.0 < asked.share <= 1.0:
        wrong.append("share")
    if Fraction(asked.noise_scale) != _changed(asked.question) * _PARTS / asked.unit:
        wrong.append("noise_scale")
    own = _values(asked)
    if own is None:
        wrong.append("numerators")
    elif not _close(own, asked.values, _size(asked.question)):
        wrong.append("values")
    return wrong


def _unusable(asked: Asked, rows: int) -> str | None:
    """Return the first part from which nothing can be computed, None if all can be used."""
    kind = asked.question.get("kind")
    own = _SETTINGS.get(kind) if isinstance(kind, str) else None
    if own is None:
        return "kind"
    more = set(asked.question) - own - _TERMS
    whole = own | _TERMS <= set(asked.question) and more <= ({"edges"} if kind == "histogram" else set())
    if not whole or not _sensible(asked.question, rows):
        return "question"
    if not _EXPONENTS[0] <= asked.unit_exponent <= _EXPONENTS[1]:
        return "unit_exponent"
    if not _is_whole(asked.total_weight) or not 1 <= asked.total <= _LARGEST_WEIGHT:
        return "total_weight"
    if not all(map(_is_whole, asked.numerators)):
        return "numerators"
    if not all(type(value) is float and math.isfinite(value) for value in asked.values):
        return "values"
    return None


def _changed(question: Mapping[str, Any]) -> int:
    """Return by how many times a weight one person's replaced records move what is released."""
    kind = question["kind"]
    if kind in ("mean", "share") or (kind == "histogram" and len(question["categories"]) == 2):
        return 1
    return 2


def _sensible(question: Mapping[str, Any], rows: int) -> bool:
    """Whether the settings of a question make sense: bounds in order, categories apart."""
    kind = question["kind"]
    if type(question["confidence"]) is not float or not 0.0 < question["confidence"] < 1.0:
        return False
    if type(question["rows_per_person"]) is not int or question["rows_per_person"] != rows:
        return False
    if kind == "mean":
        return _increasing([question["low"], question["high"]])
    if kind == "histogram":
        names = question["categories"]
        fits = type(names) is list and len(names) >= 2 and len(set(map(str, names))) == len(names)
        edges = question.get("edges")
        return fits and (edges is None or (_increasing(edges) and len(edges) == len(names) + 1))
    if kind == "quantile":
        share, level = question["interval_share"], question["level"]
        return _increasing(question["candidates"]) and 0.0 <= share < 1.0 and 0.0 < level < 1.0
    if kind == "vector mean":
        names, bound = question["names"], question["bound"]
        named = type(names) is list and bool(names) and all(type(name) is str for name in names)
        return named and len(set(names)) == len(names) and type(bound) is float and 0.0 < bound < math.inf
    return True


def _increasing(numbers: Any) -> bool:
    return (
        type(numbers) is list
        and all(type(number) is float and math.isfinite(number) for number in numbers)
        and all(a < b for a, b in pairwise(numbers))
    )


def _labels(question: Mapping[str, Any]) -> list[Any]:
    return list(question.get("categories") or question.get("names") or [question["kind"]])


def _size(question: Mapping[str, Any]) -> float:
    """Return how large a value of this question can be."""
    if question["kind"] == "mean":
        return float(max(abs(question["low"]), abs(question["high"])))
    return float(question.get("bound", 1.0))


def _values(asked: Asked) -> list[float] | None:
    """Return the values that follow from the whole numbers, in their public range; None if they are wrong."""
    question, released = asked.question, asked.released
    kind, whole = question["kind"], asked.total * _PARTS
    if kind == "quantile":
        candidates = question["candidates"]
        ends = 3 if question["interval_share"] > 0.0 else 1
        inside = len(released) == ends and all(0 <= place < len(candidates) for place in released)
        return [candidates[released[0]]] if inside and len(asked.values) == 1 else None
    labels = _labels(question)
    told = 1 if kind in ("mean", "share") or (kind == "histogram" and len(labels) == 2) else len(labels)
    if len(released) != told or len(asked.values) != len(labels):
        return None
    shares = [Fraction(number, whole) for number in released]
    if kind in ("mean", "share"):
        low, high = (Fraction(question.get(name, end)) for name, end in (("low", 0), ("high", 1)))
        return [float(min(max(low + (high - low) * shares[0], low), high))]
    if kind == "vector mean":
        mean = [question["bound"] * float(share) for share in shares]
        length = math.hypot(*mean)
        shorter = min(1.0, question["bound"] / length) if length > 0.0 else 1.0
        return [shorter * part for part in mean]
    if len(labels) == 2:
        shares = [1 - shares[0], shares[0]]
    return _nearest(shares)


def _nearest(shares: list[Fraction]) -> list[float]:
    """Return the shares nearest to these that are at least 0 and 1 in sum: all less the same number."""
    ordered = sorted(shares, reverse=True)
    total, off = Fraction(0), Fraction(0)
    for count, share in enumerate(ordered, 1):
        total += share
        if share > (total - 1) / count:
            off = (total - 1) / count
    return [float(max(share - off, Fraction(0))) for share in shares]


def _close(own: list[float], told: list[float], size: float) -> bool:
    return all(abs(a - b) <= _CLOSE * size for a, b in zip(own, told, strict=True))


def _same_question(declared: Mapping[str, Any], asked: Asked) -> bool:
    question, kind = asked.question, str(declared["kind"]).replace("_", " ")
    if question["kind"] != kind or question["confidence"] != declared["confidence"]:
        return False
    columns = declared.get("columns") or [declared["column"]]
    if list(columns) != asked.columns:
        return False
    if kind == "mean":
        return bool(question["low"] == declared["low"] and question["high"] == declared["high"])
    if kind == "histogram":
        if "edges" in declared:
            return bool(question.get("edges") == [float(edge) for edge in declared["edges"]])
        return bool(question["categories"] == [str(name) for name in declared["categories"]])
    if kind == "quantile":
        same = question["level"] == declared.get("level", 0.5)
        return bool(same and question["interval_share"] == declared.get("interval_share", 0.5)) and (
            _same_candidates(declared, question["candidates"])
        )
    return kind == "share" or bool(question["bound"] == declared["bound"])


def _same_candidates(declared: Mapping[str, Any], candidates: list[float]) -> bool:
    if "candidates" in declared:
        return candidates == [float(number) for number in declared["candidates"]]
    low, high, steps = _number(declared["low"]), _number(declared["high"]), declared["steps"]
    # Before anything is made of it: a stranger's number of steps may be beyond all bounds.
    if type(steps) is not int or len(candidates) != steps + 1:
        return False
    near = (high - low) / steps * Fraction(1, 1 << 30)
    expected = [low + (high - low) * k / steps for k in range(steps + 1)]
    return all(abs(Fraction(a) - b) <= near for a, b in zip(candidates, expected, strict=True))


def _number(value: Any) -> Fraction:
    """Return a number of published rules; a text could stand for one of a billion digits."""
    if type(value) not in (int, float):
        raise TypeError
    return Fraction(value)


def _is_whole(text: Any) -> bool:
    """Whether this is a whole number as a text, in its one way to be written."""
    digits = text.removeprefix("-") if type(text) is str and len(text) <= 100 else ""
    return digits.isascii() and digits.isdigit() and str(int(text)) == text


def _whole(text: str) -> int:
    return int(text)
