"""Statistics that a campaign may ask for: a mean, a share, a histogram, a quantile, a mean vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpmarket.campaign.rules.keys import Categories, NamedTable, expected_of, key
from dpmarket.errors import InvalidInput

if TYPE_CHECKING:
    from dpmarket.statistics import SeveralStatistics, Statistic

LEAST_SHARE = 1e-3
"""No share of several is below this part of all: so every sum of what they spend is a float."""

_COMMON = {"kind", "column", "confidence", "share"}
# For each kind the sets of keys of which it needs one.
_NEEDED: dict[str, list[set[str]]] = {
    "mean": [{"low", "high"}],
    "share": [set()],
    "histogram": [{"categories"}, {"edges"}],
    "quantile": [{"low", "high", "steps"}],
    "vector_mean": [{"columns", "bound"}],
}


class Question(NamedTable):
    """A number to buy instead of a model. Public bounds or categories; nothing is read from the records."""

    expected: ClassVar[str] = '{ kind = "mean", low = ..., high = ... } or another kind'
    kind: Literal["mean", "share", "histogram", "quantile", "vector_mean"] = key(..., example="mean")
    """What is asked: the mean of a number, the share of yes, the shares of categories, a quantile such as the
    median, or the mean of several numbers together."""
    column: str = key("value", "the name of a column", min_length=1)
    """Column with the records."""
    columns: list[str] | None = key(
        None, "names of columns, in brackets", example=["east", "north"], min_length=1
    )
    """For a vector_mean, in place of column."""
    low: float | None = key(None, example=0.0)
    """Where the number lies at the least: public, never read from the data."""
    high: float | None = key(None, "a number above low", example=100.0)
    """Where the number lies at the most: public as well."""
    categories: Categories | None = key(
        None,
        "at least two texts (no blanks around them) or whole numbers, in brackets",
        example=["bus", "car", "train"],
        min_length=2,
    )
    """For a histogram: all categories that may occur."""
    edges: list[float] | None = key(
        None, "at least three increasing numbers, in brackets", example=[0.0, 10.0, 20.0], min_length=3
    )
    """For a histogram of a number, in place of categories: public edges of its bins. What lies beyond counts
    in the outer ones."""
    level: float | None = key(None, example=0.5, gt=0, lt=1)
    """For a quantile: which one. Left out: 0.5, the median."""
    steps: int | None = key(None, example=100, ge=2, le=100_000)
    """For a quantile: into how many equal steps the range from low to high is cut. Their ends are what may be
    answered."""
    bound: float | None = key(None, example=1.0, gt=0)
    """For a vector_mean: how long a record is at the most. Public."""
    confidence: float = key(0.95, gt=0, lt=1)
    """Probability with which the interval holds the population's value."""
    share: float | None = key(None, example=1.0, gt=0)
    """With several statistics: this one's share of every epsilon, relative to the others'. Left out: 1."""

    @property
    def names(self) -> list[str]:
        """The columns that are asked about."""
        return [self.column] if self.columns is None else list(self.columns)

    @property
    def has_numbers(self) -> bool:
        """Whether the records are numbers: not categories, and not yes or no."""
        return self.kind not in ("share", "histogram") or self.edges is not None

    def ends(self) -> tuple[float, float]:
        """Return between which numbers an answer counts as it is; of a vector_mean in one coordinate."""
        if self.kind == "vector_mean":
            return -(self.bound or 0.0), self.bound or 0.0
        if self.edges is not None:
            return self.edges[0], self.edges[-1]
        return self.low or 0.0, self.high or 0.0

    def statistic(self, rows_per_person: int = 1) -> Statistic:
        """Return the statistic that is asked for; ``InvalidInput`` for bounds that make no sense."""
        from dpmarket.statistics import PrivateHistogram, statistic_from_dict

        terms: dict[str, Any] = {"confidence": self.confidence, "rows_per_person": rows_per_person}
        if self.edges is not None:
            return PrivateHistogram.from_edges(self.edges, **terms)
        if self.categories is not None:
            return PrivateHistogram([str(category) for category in self.categories], **terms)
        if self.kind == "mean":
            terms |= {"low": self.low, "high": self.high}
        elif self.kind == "vector_mean":
            terms |= {"names": self.names, "bound": self.bound}
        elif self.kind == "quantile":
            answers = np.linspace(self.low or 0.0, self.high or 0.0, (self.steps or 0) + 1).tolist()
            terms |= {"level": self.level or 0.5, "candidates": answers}
        return statistic_from_dict({"kind": self.kind.replace("_", " "), **terms})


def several_of(questions: Mapping[str, Question], rows_per_person: int = 1) -> SeveralStatistics:
    """Return the statistics that are asked for, which share every epsilon."""
    from dpmarket.statistics import SeveralStatistics

    asked = {name: question.statistic(rows_per_person) for name, question in questions.items()}
    return SeveralStatistics(asked, {name: question.share or 1.0 for name, question in questions.items()})


def question_problems(path: str, question: Question) -> Iterator[tuple[str, str]]:
    """Find what is wrong between the keys of one question, each of which may be fine by itself."""
    kind, declared = question.kind, question.declared()
    needed = next((keys for keys in _NEEDED[kind] if keys <= declared.keys()), _NEEDED[kind][0])
    known = _COMMON | needed | ({"level"} if kind == "quantile" else set())
    foreign = [name for name in declared if name not in known]
    for name in foreign:
        beside = f" beside {', '.join(sorted(needed))}" if name in set().union(*_NEEDED[kind]) else ""
        yield f"{path}.{name}", f"a {kind} has no such key{beside}."
    missing = [name for name in Question.model_fields if name in needed and name not in declared]
    for name in missing:
        yield f"{path}.{name}", f"missing; expected {expected_of(Question, name)}."
    if not missing and not foreign:
        try:
            question.statistic()
        except InvalidInput as problem:
            yield path, str(problem)
