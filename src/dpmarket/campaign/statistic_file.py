"""What a file of released statistics says: whole numbers, what they mean, and every public setting."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import read_json, to_json
from dpmarket.version import __version__

if TYPE_CHECKING:
    from dpmarket.statistics import ReleasedStatistic

SCHEMA: Literal["dpmarket.statistics/1"] = "dpmarket.statistics/1"
_LARGEST = 64 << 20  # bytes


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AskedStatistic(_Part):
    """One statistic: the columns it was asked of, its share of every promise, and what was released."""

    columns: list[str] = Field(min_length=1)
    share: float = Field(gt=0, le=1)
    release: dict[str, Any]

    def released(self) -> ReleasedStatistic:
        """Return the release.

        Raises
        ------
        FileProblem
            A part of it is missing or wrong.
        """
        from dpmarket.statistics import ReleasedStatistic

        try:
            return ReleasedStatistic.from_dict(self.release)
        except InvalidInput as problem:
            raise FileProblem(f"cannot use a statistic of the file: {problem}") from None


class StatisticFile(_Part):
    """Released statistics. Nothing is private beyond what the promises allow: no record, cost or seller.

    Attributes
    ----------
    dpmarket
        The version that released them.
    records
        Number of people asked; how many rows they have is private.
    rows_per_person
        The bound on the rows of a seller.
    outside_bounds
        Whether values outside their bounds were clipped or refused.
    secure_noise
        Whether the noise came from the operating system's entropy.
    statistics
        By name: columns, share and release.
    """

    schema_version: Literal["dpmarket.statistics/1"] = Field(SCHEMA, alias="schema")
    dpmarket: str
    records: int = Field(ge=1)
    rows_per_person: int = Field(ge=1)
    outside_bounds: Literal["clip", "refuse"]
    secure_noise: bool
    statistics: dict[str, AskedStatistic] = Field(min_length=1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return self.model_dump(by_alias=True)

    def to_json(self) -> str:
        """Return the file's text."""
        return to_json(self.to_dict())

    def releases(self) -> dict[str, ReleasedStatistic]:
        """Return the releases by name."""
        return {name: asked.released() for name, asked in self.statistics.items()}

    @property
    def total_promise(self) -> float:
        """What all statistics together spent on everybody, rounded up."""
        exact = sum((spent_by(release) for release in self.releases().values()), Fraction(0))
        found = float(exact)
        return found if Fraction(found) >= exact else math.nextafter(found, math.inf)

    @property
    def unit_exponent(self) -> int:
        """What was spent on everybody is a whole multiple of 2 to this power."""
        return min(release.unit_exponent for release in self.releases().values())


def spent_by(release: ReleasedStatistic) -> Fraction:
    """Return what a release spent on everybody together, exactly."""
    return release.total_weight * Fraction(2) ** release.unit_exponent


def statistic_file(
    releases: Mapping[str, ReleasedStatistic],
    *,
    columns: Mapping[str, list[str]],
    shares: Mapping[str, float],
    records: int,
    rows_per_person: int,
    outside_bounds: Literal["clip", "refuse"],
) -> StatisticFile:
    """Return the file of some releases, with their columns and their shares of every promise."""
    return StatisticFile(
        schema=SCHEMA,
        dpmarket=__version__,
        records=records,
        rows_per_person=rows_per_person,
        outside_bounds=outside_bounds,
        secure_noise=all(release.certifiable for release in releases.values()),
        statistics={
            name: AskedStatistic(columns=columns[name], share=shares[name], release=release.to_dict())
            for name, release in releases.items()
        },
    )


def read_statistics(source: str | os.PathLike[str]) -> StatisticFile:
    """Read a file of statistics that ``release`` wrote.

    Raises
    ------
    FileProblem
        No JSON, no statistics, or parts missing or wrong, each by its name.
    """
    data = read_json(source, _LARGEST)
    if not is_statistic_data(data):
        raise FileProblem(
            f"expected statistics with schema {SCHEMA!r} in {source}, as 'dpmarket release' writes them."
        )
    return _checked(data, str(source))


def is_statistic_data(data: Any) -> bool:
    """Whether plain data says that it is a file of statistics."""
    return isinstance(data, dict) and data.get("schema") == SCHEMA


def statistics_from_data(data: dict[str, Any]) -> StatisticFile:
    """Make the file that plain data of the ledger describes."""
    return _checked(data, "the ledger's statistics")


def _checked(data: dict[str, Any], source: str) -> StatisticFile:
    try:
        found = StatisticFile.model_validate(data)
    except ValidationError as problem:
        parts = sorted({".".join(map(str, error["loc"][:1])) for error in problem.errors()})
        raise FileProblem(
            f"cannot use {source}: expected whole statistics, wrong are {', '.join(parts)}."
        ) from None
    found.releases()
    return found
