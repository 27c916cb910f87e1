"""What a release tells the public: numbers, their margins, and what they do not say. It names nobody."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.display import html_table, short_repr
from dpmarket.errors import InvalidInput
from dpmarket.privacy.noise import NoiseSource, SecureNoise
from dpmarket.statistics.weights import IntegerWeights

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "dpmarket.statistic/1"
_SHOWN = 12  # values in a table
_ARRAYS = ("values", "lows", "highs")
CAUTION = (
    "It describes the people who sold, and whoever promised more weighs more. If what privacy costs people "
    "goes with their records, it is biased towards those who sell cheaply, and no interval covers that."
)
"""What every weighted statistic of a self-selected crowd must say."""


@dataclass(frozen=True, eq=False)
class ReleasedStatistic:
    """A private statistic as it may be published: a function of public rules, promises in sum, and noise.

    Attributes
    ----------
    kind
        Which statistic: "mean", "share", "histogram", "quantile" or "vector mean".
    question
        Its public settings: bounds, categories, confidence, as plain data.
    labels
        A name for each value.
    values
        The statistic, brought into its public range. Read-only.
    lows, highs
        Ends of the intervals that hold the population's values, all of them together, with the stated
        confidence; None where there is no interval for single values. Read-only.
    radius
        For a vector mean: the population's mean is within this distance with the stated confidence; else
        None.
    standard_error
        Public bound on the root of the expected squared error, sampling and noise together, summed over
        values; in levels for a quantile.
    effective_people
        As many people with equal weights would have the same sampling error.
    total_promise
        The sum of what was spent on everybody.
    numerators, denominator
        The release itself: whole numbers, from which the values follow with public settings.
    total_weight, unit_exponent
        The sum of everybody's whole weight, and what a weight of one spent: 2 to this power.
    certifiable
        Whether the noise was secret.

    Examples
    --------
    >>> from dpmarket.privacy import SeededNoise
    >>> from dpmarket.statistics import PrivateShare
    >>> share = PrivateShare(epsilon=0.5, noise_source=SeededNoise(1)).fit([True] * 60 + [False] * 40)
    >>> share.release_
    ReleasedStatistic(kind: share, yes: 0.6445 (0.4904 to 0.791), effective sample size: 100)
    >>> ReleasedStatistic.from_dict(share.release_.to_dict()).to_dict() == share.release_.to_dict()
    True
    """

    kind: str
    question: Mapping[str, Any]
    labels: tuple[str, ...]
    values: FloatArray
    lows: FloatArray | None
    highs: FloatArray | None
    radius: float | None
    standard_error: float
    effective_people: float
    total_promise: float
    numerators: tuple[int, ...]
    denominator: int
    total_weight: int
    unit_exponent: int
    certifiable: bool

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            if getattr(self, name) is not None:
                read_only(getattr(self, name))

    @property
    def confidence(self) -> float:
        """The probability with which the intervals hold what they are about."""
        return float(self.question["confidence"])

    @property
    def caution(self) -> str:
        """What the numbers do not say: they come from a crowd that chose itself."""
        return CAUTION

    def summary(self) -> list[tuple[str, str]]:
        """Return the statistic as rows of a table, the first twelve values at most."""
        rows = [("kind", self.kind)]
        rows += [(label, self._told(k)) for k, label in enumerate(self.labels[:_SHOWN])]
        if len(self.labels) > _SHOWN:
            rows.append(("more values", f"{len(self.labels) - _SHOWN:,}"))
        if self.radius is not None:
            rows.append(("radius", f"{self.radius:.4g}"))
        return [
            *rows,
            ("effective sample size", self._people),
            ("confidence", f"{self.confidence:.0%}"),
            ("total promise", f"{self.total_promise:,.6g}"),
        ]

    def in_words(self) -> str:
        """Say what was released, how sure it is, and what it does not say."""
        margin = f"With {self.confidence:.0%} confidence "
        if self.radius is not None:
            told = f"The {self.kind} has {len(self.values):,} coordinates."
            margin += f"the population's lies within {self.radius:.4g} of it"
        else:
            told = "; ".join(f"{label}: {value:.4g}" for label, value in self._pairs())
            told = (
                f"The {self.kind} is {told}." if len(self.labels) > 1 else f"The {self.kind} is {self._only}."
            )
            if self.lows is None or self.highs is None:
                return f"{told} {self._size} {self.caution}"
            if len(self.labels) > 1:
                margin += "all of the population's values lie in their intervals"
            else:
                margin += f"the population's lies between {self.lows[0]:.4g} and {self.highs[0]:.4g}"
        return f"{told} {margin}, sampling and noise included. {self._size} {self.caution}"

    def __repr__(self) -> str:
        shown = [(label, self._told(k)) for k, label in enumerate(self.labels[:3])]
        size = ("effective sample size", self._people)
        return short_repr(self, [("kind", self.kind), *shown, size])

    def _repr_html_(self) -> str:
        return html_table(f"Private {self.kind}", [*self.summary(), ("caution", self.caution)])

    def to_frame(self) -> pl.DataFrame:
        """Return a row per value: label, value, and the ends of its interval (null where there is none)."""
        import polars as pl

        absent = [None] * len(self.labels)
        return pl.DataFrame(
            {
                "label": list(self.labels),
                "value": self.values,
                "low": absent if self.lows is None else self.lows,
                "high": absent if self.highs is None else self.highs,
            },
            schema_overrides={"low": pl.Float64, "high": pl.Float64},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes the same release; what is absent is left out.

        Whole numbers are texts: they are larger than what other languages' readers of JSON hold exactly.
        """
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "kind": self.kind,
            "question": dict(self.question),
            "labels": list(self.labels),
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        data |= {name: array.tolist() for name, array in arrays.items() if array is not None}
        if self.radius is not None:
            data["radius"] = self.radius
        return data | {
            "standard_error": self.standard_error,
            "effective_people": self.effective_people,
            "total_promise": self.total_promise,
            "numerators": [str(number) for number in self.numerators],
            "denominator": str(self.denominator),
            "total_weight": str(self.total_weight),
            "unit_exponent": self.unit_exponent,
            "certifiable": self.certifiable,
            "caution": self.caution,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReleasedStatistic:
        """Make the release whose ``to_dict()`` gave this data.

        Raises
        ------
        InvalidInput
            If a part is missing or not what it should be.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InvalidInput(f"expected the plain data of a statistic with schema {SCHEMA!r}.")
        try:
            labels = tuple(str(label) for label in data["labels"])
            arrays = {name: _numbers(data, name, labels) for name in _ARRAYS}
            if arrays["values"] is None or (arrays["lows"] is None) != (arrays["highs"] is None):
                raise KeyError
            return cls(
                kind=str(data["kind"]),
                question=dict(data["question"]),
                labels=labels,
                values=arrays["values"],
                lows=arrays["lows"],
                highs=arrays["highs"],
                radius=checks.positive("radius", data["radius"]) if "radius" in data else None,
                numerators=tuple(int(number) for number in data["numerators"]),
                denominator=int(data["denominator"]),
                total_weight=int(data["total_weight"]),
                unit_exponent=checks.whole("unit_exponent", data["unit_exponent"], minimum=-10_000),
                certifiable=data["certifiable"] is True,
                **{
                    name: checks.positive(name, data[name])
                    for name in ("standard_error", "effective_people", "total_promise")
                },
            )
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(
                f"expected a whole statistic, found {type(problem).__name__}: a part is missing or wrong."
            ) from None

    def _told(self, k: int) -> str:
        told = f"{self.values[k]:.4g}"
        if self.lows is None or self.highs is None:
            return told
        return f"{told} ({self.lows[k]:.4g} to {self.highs[k]:.4g})"

    def _pairs(self) -> list[tuple[str, float]]:
        return list(zip(self.labels, self.values.tolist(), strict=True))

    @property
    def _only(self) -> str:
        return f"{self.values[0]:.4g}"

    @property
    def _size(self) -> str:
        return f"The effective sample size is {self._people}."

    @property
    def _people(self) -> str:
        few = self.effective_people < 100.0
        return f"{self.effective_people:.3g}" if few else f"{self.effective_people:,.0f}"


@dataclass(frozen=True)
class StatisticError:
    """What one record's spread and the noise add to a statistic's mean squared error: the buyer's A and B.

    With weights ``a`` (1 in sum) and a total promise ``eta`` the expected squared error is
    ``sampling * |a|^2 + noise / eta^2`` for usual records. An
    :class:`~dpmarket.mechanisms.Objective` has the same two constants.

    Attributes
    ----------
    sampling
        The variance of usual records, summed over values: of a number that is uniform on its public range, of
        the most uncertain answers.
    largest_sampling
        The largest variance that records can have within the public bounds.
    noise
        The noise's variance at a total promise of 1, summed over values.
    signal
        Squared error of whoever guesses the middle of the public range, if every value is as likely.

    Examples
    --------
    >>> from dpmarket.statistics import PrivateMean
    >>> error = PrivateMean(low=0, high=6).error
    >>> error.sampling, error.largest_sampling, error.noise
    (3.0, 9.0, 72.0)
    """

    sampling: float
    largest_sampling: float
    noise: float
    signal: float

    def largest_root(self, squared_norm: float, total_promise: float) -> float:
        """Return the largest root of the expected squared error that the public bounds allow."""
        return math.sqrt(self.largest_sampling * squared_norm + self.noise / total_promise**2)


class Question(Protocol):
    """What was asked: a statistic with its public settings."""

    kind: ClassVar[str]
    noise_source: NoiseSource | None

    @property
    def error(self) -> StatisticError:
        """What spread and noise cost."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings as plain data."""
        ...


def publish(
    question: Question,
    weights: IntegerWeights,
    *,
    labels: tuple[str, ...],
    values: FloatArray,
    numerators: tuple[int, ...],
    denominator: int,
    intervals: tuple[FloatArray, FloatArray] | None = None,
    radius: float | None = None,
) -> ReleasedStatistic:
    """Put a release together with what is public about its question and its crowd."""
    lows, highs = (None, None) if intervals is None else intervals
    return ReleasedStatistic(
        kind=question.kind,
        question=question.to_dict(),
        labels=labels,
        values=values,
        lows=lows,
        highs=highs,
        radius=radius,
        standard_error=question.error.largest_root(weights.squared_norm, weights.total_promise),
        effective_people=weights.effective_people,
        total_promise=weights.total_promise,
        numerators=numerators,
        denominator=denominator,
        total_weight=weights.total,
        unit_exponent=weights.unit_exponent,
        certifiable=_is_secret(question.noise_source),
    )


def _is_secret(source: NoiseSource | None) -> bool:
    """Tell whether nobody can know or repeat the noise."""
    return source is None or (isinstance(source, SecureNoise) and bool(source.certifiable))


def _numbers(data: Mapping[str, Any], name: str, labels: Sequence[str]) -> FloatArray | None:
    if name not in data:
        return None
    values = np.array(checks.finite_vector(name, data[name]))
    checks.same_length(name, values, "labels", labels)
    return values
