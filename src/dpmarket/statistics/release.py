"""The released statistic, as it may be published: values, intervals, caution; and its expected error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, model_validator

from dpmarket.display import html_table, short_repr
from dpmarket.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

CAUTION = (
    "This describes the people who sold, and people with a larger epsilon count more. If what privacy costs "
    "goes with the records, it is biased towards people who sell cheaply, and no interval covers that."
)
_SHOWN = 12  # values in a table


class ReleasedStatistic(BaseModel):
    """A private statistic as it may be published: it names no person and holds no person's epsilon.

    Attributes
    ----------
    kind, question
        Which statistic, and its public settings as plain data: bounds, categories, confidence.
    labels, values, lows, highs, radius
        A name for each value; the values, brought into their public range; and ends of intervals that hold
        the population's values, all together with the stated confidence, or None; of a vector mean the
        radius of a ball around it.
    effective_people
        As many people with equal weights would have the same sampling error.
    numerators, denominator, total_weight, unit_exponent
        The release itself: whole numbers, from which the values follow with public settings. The sum of the
        whole weights, and what a weight of one spent: 2 to this power.
    certifiable, caution, schema
        Whether the noise was secret; what the numbers do not say; the version of the plain data.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    schema_version: Literal["dpmarket.statistic/2"] = Field(default="dpmarket.statistic/2", alias="schema")
    kind: str
    question: dict[str, Any]
    labels: tuple[str, ...]
    values: tuple[float, ...]
    lows: tuple[float, ...] | None = None
    highs: tuple[float, ...] | None = None
    radius: float | None = None
    effective_people: float
    numerators: tuple[int, ...]
    denominator: int
    total_weight: int
    unit_exponent: int
    certifiable: bool
    caution: str = CAUTION

    @model_validator(mode="after")
    def _fits(self) -> ReleasedStatistic:
        ends = self.values if self.lows is None and self.highs is None else (self.lows or ())
        if not len(self.labels) == len(self.values) == len(ends) or (self.lows is None) != (
            self.highs is None
        ):
            raise ValueError("expected a value, and both ends of an interval or none, for every label")
        return self

    @field_serializer("numerators", "denominator", "total_weight")
    def _texts(self, value: Any) -> Any:
        """Write whole numbers as texts: other languages' readers of JSON do not hold them exactly."""
        return str(value) if isinstance(value, int) else [str(number) for number in value]

    @property
    def confidence(self) -> float:
        """The probability with which the intervals hold what they are about."""
        return float(self.question["confidence"])

    @property
    def total_epsilon(self) -> float:
        """The sum of what was spent on each person."""
        return math.ldexp(self.total_weight, self.unit_exponent)

    def summary(self) -> list[tuple[str, str]]:
        """Return the statistic as rows of a table, the first twelve values at most."""
        rows = [("kind", self.kind), *self._shown(_SHOWN)]
        if len(self.labels) > _SHOWN:
            rows.append(("more values", f"{len(self.labels) - _SHOWN:,}"))
        if self.radius is not None:
            rows.append(("radius", f"{self.radius:.4g}"))
        confidence = ("confidence", f"{self.confidence:.0%}")
        return [*rows, self._size(), confidence, ("total epsilon", f"{self.total_epsilon:,.6g}")]

    def __repr__(self) -> str:
        return short_repr(self, [("kind", self.kind), *self._shown(3), self._size()])

    def _repr_html_(self) -> str:
        return html_table(f"Private {self.kind}", [*self.summary(), ("caution", self.caution)])

    def to_frame(self) -> pl.DataFrame:
        """Return a row per value: label, value, and the ends of its interval (null where there is none)."""
        import polars as pl

        absent = (None,) * len(self.labels)
        lows, highs = self.lows or absent, self.highs or absent
        schema = {"label": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
        return pl.DataFrame((self.labels, self.values, lows, highs), schema=schema)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same release, without what is absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReleasedStatistic:
        """Make the release whose ``to_dict()`` gave this data; refuse parts that are missing or wrong."""
        try:
            return cls.model_validate(data)
        except ValidationError as problem:
            parts = sorted({str(error["loc"][0]) for error in problem.errors() if error["loc"]})
            raise InvalidInput(f"expected a whole statistic; wrong or missing: {', '.join(parts)}.") from None

    def _shown(self, most: int) -> list[tuple[str, str]]:
        """Return the first labels, each with its value and its interval."""
        values = [f"{value:.4g}" for value in self.values[:most]]
        if self.lows is not None and self.highs is not None:
            ends = zip(values, self.lows, self.highs, strict=False)
            values = [f"{value} ({low:.4g} to {high:.4g})" for value, low, high in ends]
        return list(zip(self.labels, values, strict=False))

    def _size(self) -> tuple[str, str]:
        digits = ".3g" if self.effective_people < 100.0 else ",.0f"
        return "effective sample size", f"{self.effective_people:{digits}}"


@dataclass(frozen=True)
class StatisticError:
    """What the spread of records and the noise add to a statistic's mean squared error: the buyer's A and B.

    With weights ``a`` that sum to 1 and a total epsilon ``eta`` it is ``sampling * |a|^2 + noise / eta^2``.

    Attributes
    ----------
    sampling, noise, signal
        The variance of usual records (of a number that is uniform on its public range, of the most uncertain
        answers), and that of the noise at a total epsilon of 1, both summed over values; and the squared
        error of guessing the middle of the public range.
    """

    sampling: float
    noise: float
    signal: float
