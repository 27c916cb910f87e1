"""Statistics that a campaign may ask for: a mean, a share, a histogram, a quantile, a mean vector.

One table describes a question: its kind, the column, and the public bounds or categories of that kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import model_serializer

from dpmarket.campaign.rules.keys import Table, given_keys, key
from dpmarket.errors import InvalidInput

if TYPE_CHECKING:
    from dpmarket.statistics import Statistic

LEAST_SHARE = 1e-3
"""No share of several is below this part of all: so every sum of what they spend is a float."""

_OWN: dict[str, set[str]] = {
    "mean": {"low", "high"},
    "share": set(),
    "histogram": {"categories", "edges"},
    "quantile": {"level", "candidates", "low", "high", "steps", "interval_share"},
    "vector_mean": {"columns", "bound"},
}
_COMMON = {"kind", "column", "confidence", "share"}


class Question(Table):
    """A number to buy instead of a model. Public bounds or categories; nothing is read from the records."""

    kind: Literal["mean", "share", "histogram", "quantile", "vector_mean"] = key(
        ...,
        '"mean", "share", "histogram", "quantile" or "vector_mean"',
        "What is asked: the mean of a number, the share of yes, the shares of categories, a quantile such as "
        "the median, or the mean of several numbers together.",
        example="mean",
    )
    column: str = key("value", "the name of a column", "Column with the records.", min_length=1)
    columns: list[str] | None = key(
        None,
        "names of columns, in brackets",
        "For a vector_mean, in place of column.",
        example=["east", "north"],
        min_length=1,
    )
    low: float | None = key(
        None, "a number", "Where the number lies at the least: public, never read from the data.", example=0.0
    )
    high: float | None = key(
        None, "a number above low", "Where the number lies at the most: public as well.", example=100.0
    )
    categories: list[str | int] | None = key(
        None,
        "at least two texts or whole numbers, in brackets",
        "For a histogram: all categories that may occur.",
        example=["bus", "car", "train"],
        min_length=2,
    )
    edges: list[float] | None = key(
        None,
        "at least three increasing numbers, in brackets",
        "For a histogram of a number, in place of categories: public edges of its bins. What lies beyond "
        "counts in the outer ones.",
        example=[0.0, 10.0, 20.0],
        min_length=3,
    )
    level: float | None = key(
        None,
        "a number strictly between 0 and 1",
        "For a quantile: which one. Left out: 0.5, the median.",
        example=0.5,
        gt=0,
        lt=1,
    )
    steps: int | None = key(
        None,
        "a whole number from 2 to 100000",
        "For a quantile: into how many equal steps the range from low to high is cut. Their ends are what "
        "may be answered.",
        example=100,
        ge=2,
        le=100_000,
    )
    candidates: list[float] | None = key(
        None,
        "at least three increasing numbers, in brackets",
        "For a quantile, in place of low, high and steps: all that may be answered.",
        example=[0.0, 50.0, 100.0],
        min_length=3,
    )
    interval_share: float | None = key(
        None,
        "a number from 0 and below 1",
        "For a quantile: the share of every epsilon that pays for its interval; 0: there is none. Left out: "
        "0.5.",
        example=0.5,
        ge=0,
        lt=1,
    )
    bound: float | None = key(
        None,
        "a number > 0",
        "For a vector_mean: how long a record is at the most. Public.",
        example=1.0,
        gt=0,
    )
    confidence: float = key(
        0.95,
        "a number strictly between 0 and 1",
        "Probability with which the interval holds the population's value.",
        gt=0,
        lt=1,
    )
    share: float | None = key(
        None,
        "a number > 0",
        "With several statistics: this one's share of every epsilon, relative to the others'. Left out: 1.",
        example=1.0,
        gt=0,
    )

    @model_serializer
    def declared(self) -> dict[str, Any]:
        """Return the keys that are given, as plain data."""
        return given_keys(self)

    @property
    def names(self) -> list[str]:
        """The columns that are asked about."""
        return [self.column] if self.columns is None else list(self.columns)

    @property
    def has_numbers(self) -> bool:
        """Whether the records are numbers: not categories, and not yes or no."""
        return self.kind not in ("share", "histogram") or self.edges is not None

    def ends(self) -> tuple[float, float]:
        """Return between which numbers an answer counts as it is; what lies beyond counts at the nearer end.

        For a vector_mean those of one coordinate alone.
        """
        if self.kind == "vector_mean":
            return -(self.bound or 0.0), self.bound or 0.0
        if self.kind == "quantile":
            answers = self.answers()
            return answers[0], answers[-1]
        if self.edges is not None:
            return self.edges[0], self.edges[-1]
        return self.low or 0.0, self.high or 0.0

    def statistic(self, rows_per_person: int = 1) -> Statistic:
        """Return the statistic that is asked for, not yet released.

        Raises
        ------
        InvalidInput
            Bounds or categories that make no sense.
        """
        from dpmarket.statistics import PrivateHistogram, statistic_from_dict

        terms: dict[str, Any] = {"confidence": self.confidence, "rows_per_person": rows_per_person}
        if self.kind == "mean":
            return statistic_from_dict({"kind": "mean", "low": self.low, "high": self.high, **terms})
        if self.kind == "share":
            return statistic_from_dict({"kind": "share", **terms})
        if self.kind == "vector_mean":
            return statistic_from_dict(
                {"kind": "vector mean", "names": self.names, "bound": self.bound, **terms}
            )
        if self.kind == "quantile":
            level = {} if self.interval_share is None else {"interval_share": self.interval_share}
            question = {"kind": "quantile", "level": self.level or 0.5, "candidates": self.answers()}
            return statistic_from_dict({**question, **level, **terms})
        if self.edges is not None:
            return PrivateHistogram.from_edges(self.edges, **terms)
        return PrivateHistogram([str(category) for category in self.categories or ()], **terms)

    def answers(self) -> list[float]:
        """Return all that a quantile may be answered with, increasing."""
        if self.candidates is not None:
            return list(self.candidates)
        ends = np.linspace(self.low or 0.0, self.high or 0.0, (self.steps or 0) + 1)
        return [float(end) for end in ends]


def question_problems(path: str, declared: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Find what is wrong between the keys of one question, each of which may be fine by itself."""
    kind = declared.get("kind")
    if not isinstance(kind, str) or kind not in _OWN:
        return
    for name in declared:
        if name in Question.model_fields and name not in _OWN[kind] | _COMMON:
            yield f"{path}.{name}", f"{path}.{name}: a {kind} has no such key."
    missing = [f"{path}.{name}" for name in missing_keys(kind, declared)]
    for place in missing:
        yield place, f"{place}: missing; expected {_expected(place.rpartition('.')[2])}."
    if missing or not set(declared) <= set(Question.model_fields):
        return
    try:
        Question.model_validate(dict(declared)).statistic()
    except InvalidInput as problem:
        yield path, f"{path}: {problem}"
    except ValueError:  # of a key by itself, which is said elsewhere
        return


def keys_of(kind: str) -> set[str]:
    """Return the keys that a question of this kind may have, if it is the only one."""
    return (_OWN.get(kind, set()) | _COMMON) - {"share"} - ({"column"} if kind == "vector_mean" else set())


def missing_keys(kind: str, declared: Mapping[str, Any]) -> list[str]:
    """Return the keys that a question of this kind needs and does not have."""
    if kind == "mean":
        needed = ["low", "high"]
    elif kind == "vector_mean":
        needed = ["columns", "bound"]
    elif kind == "histogram":
        needed = [] if "edges" in declared else ["categories"]
    elif kind == "quantile":
        needed = [] if "candidates" in declared else ["low", "high", "steps"]
    else:
        needed = []
    return [name for name in needed if name not in declared]


def _expected(name: str) -> str:
    extra = Question.model_fields[name].json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["expected"])
