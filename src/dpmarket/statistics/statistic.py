"""The contract of a private statistic, and all that the five kinds share.

A kind is a subclass with public settings that says three things: its expected ``error``; how records become
whole numbers (``_read``); and which whole numbers are released with which noise, and what they mean
(``_draw``). Copy :class:`~dpmarket.statistics.PrivateMean` for the next one.

Guaranteed here: epsilons become whole weights, rounded down; records of people who spend nothing are dropped
before any record is read; refusals come first, then an account is charged, then noise is drawn. Guaranteed by
the kind: replacing all records of a person of weight w changes the probability of no set of releases by more
than the factor ``exp(w * unit)``, for the whole numbers really computed.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.errors import InvalidInput
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.privacy.noise import Bits, NoiseSource, checked_source, discrete_laplace
from dpmarket.statistics.intervals import mean_interval
from dpmarket.statistics.release import ReleasedStatistic, StatisticError
from dpmarket.statistics.sample import RESOLUTION, WeightedSample, read_sample, records_at

Fitted = TypeVar("Fitted")
_LEAST_RANGE = 1e-60
_LEFT_OUT = ("epsilon", "noise_source", "outside")


class Prepared(NamedTuple):
    """All that a release needs: checked, read, and not yet charged. Private."""

    sample: WeightedSample
    numbers: IntArray
    outside: int


class Values(NamedTuple):
    """What a kind releases: whole numbers, and the values and intervals that follow from them."""

    labels: tuple[str, ...]
    values: FloatArray
    numerators: tuple[int, ...]
    denominator: int
    intervals: Any = None  # shape (values, 2)
    radius: float | None = None


@dataclass(eq=False)
class Statistic(ABC):
    """A statistic with public settings, released by ``fit`` with an epsilon for each person.

    Parameters
    ----------
    confidence
        Probability, strictly between 0 and 1, with which all intervals hold the population's values.
    epsilon
        The common epsilon, > 0, used where ``fit`` is given no ``epsilons``.
    rows_per_person
        Public bound on the number of records of one person, used with ``people``. More are refused.
    noise_source, outside
        Where the noise comes from; None means :class:`~dpmarket.privacy.SecureNoise`. And whether values
        outside the public bounds are moved to the nearer one, "clip", or refused, "refuse".

    Attributes
    ----------
    release_
        The :class:`ReleasedStatistic`: the only thing to publish.
    epsilons_, people_
        What was spent on each person, exactly, and never above the person's epsilon; in the order of the
        records or, with ``people``, of the epsilons. The people's names, or None.
    outside_
        How many values were moved to a bound: a fact about private records, for the data holder's eyes.
    """

    _: KW_ONLY
    confidence: float = 0.95
    epsilon: float | None = None
    rows_per_person: int = 1
    noise_source: NoiseSource | None = None
    outside: Literal["clip", "refuse"] = "clip"
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        self.confidence = checks.strictly_between("confidence", self.confidence, 0.0, 1.0)
        if self.epsilon is not None:
            self.epsilon = checks.positive("epsilon", self.epsilon)
        self.rows_per_person = checks.whole("rows_per_person", self.rows_per_person, minimum=1)
        if self.outside not in ("clip", "refuse"):
            raise InvalidInput("expected outside to be 'clip' or 'refuse'.")

    @property
    @abstractmethod
    def error(self) -> StatisticError:
        """What spread and noise cost: the buyer's A and B."""

    @abstractmethod
    def _read(self, records: Any) -> tuple[IntArray, BoolArray]:
        """Return records as whole numbers, one row each, and which of them lie outside the public bounds."""

    @abstractmethod
    def _draw(self, sample: WeightedSample, numbers: IntArray, stream: Bits) -> Values:
        """Release whole numbers with noise that costs a person of weight w at most ``w * sample.unit``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings as plain data, for :func:`statistic_from_dict`."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        kept = {name: value for name, value in named.items() if name not in _LEFT_OUT and value is not None}
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}
        return {"kind": self.kind, **lists}

    def fit(
        self, records: ArrayLike, epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None, account: PrivacyAccount | None = None,
    ) -> Self:  # fmt: skip
        """Release the statistic; everything that can be refused is refused before noise is drawn.

        ``records`` are one per row, as the statistic says; those of people whose epsilon is 0 are not read.
        All records of a person together have the person's weight. The others are as for the estimators
        (:meth:`~dpmarket.learning.PrivateLogisticRegression.fit`).
        """
        prepared = self.prepare(records, epsilons, people)
        sample = prepared.sample
        if account is not None:
            account.charge(sample.people or range(sample.weights.size), sample.spent)
        self.release_ = self.release(prepared)
        self.epsilons_, self.people_, self.outside_ = sample.spent, sample.people, prepared.outside
        return self

    def published(self) -> Self:
        """Return a copy for other people's eyes: without what was spent on whom, and ``outside_``."""
        return without(self, "release_", "epsilons_", "people_", "outside_")

    def prepare(self, records: Any, epsilons: Any, people: Any) -> Prepared:
        """Check and read everything that ``fit`` is given, and refuse whatever can be refused."""
        self.__post_init__()  # settings may have been changed since
        checked_source(self.noise_source)
        if hasattr(records, "prepared"):  # records on other machines are read there
            return records.prepared(self, epsilons)  # type: ignore[no-any-return]
        sample = read_sample(records, self.epsilon, epsilons, people, self.rows_per_person)
        return self.read(records, sample)

    def read(self, records: Any, sample: WeightedSample) -> Prepared:
        """Read the records of people who take part; refuse what is not as declared."""
        numbers, beyond = self._read(records_at(records, sample.rows))
        if len(numbers) != len(sample.rows):
            raise InvalidInput("expected as many records as rows, got another number of them.")
        outside = int(beyond.sum())
        if outside and self.outside == "refuse":
            raise InvalidInput(f"expected every record within the public bounds, found {outside} outside.")
        return Prepared(sample, numbers, outside)

    def release(self, prepared: Prepared) -> ReleasedStatistic:
        """Draw noise and return what may be published."""
        source, sample = checked_source(self.noise_source), prepared.sample
        found = self._draw(sample, prepared.numbers, source.bits())
        return ReleasedStatistic(
            kind=self.kind,
            question=self.to_dict(),
            labels=found.labels,
            values=tuple(found.values.tolist()),
            lows=None if found.intervals is None else tuple(found.intervals[:, 0].tolist()),
            highs=None if found.intervals is None else tuple(found.intervals[:, 1].tolist()),
            radius=found.radius,
            effective_people=sample.effective_people,
            numerators=found.numerators,
            denominator=found.denominator,
            total_weight=sample.total,
            unit_exponent=sample.unit_exponent,
            certifiable=bool(source.certifiable),
        )

    @property
    def value_(self) -> Any:
        """The released value: a number, or an array where there are several."""
        values = self.release_.values
        return values[0] if len(values) == 1 else np.array(values)

    @property
    def interval_(self) -> Any:
        """The ends of the interval, or None; arrays of ends where there are several intervals."""
        lows, highs = self.release_.lows, self.release_.highs
        if lows is None or highs is None:
            return None
        return (lows[0], highs[0]) if len(lows) == 1 else (np.array(lows), np.array(highs))


def without(fitted: Fitted, released: str, *private: str) -> Fitted:
    """Return a copy of what was released that lacks some attributes."""
    if not hasattr(fitted, released):
        raise InvalidInput("expected a statistic that was released; call fit first.")
    public = copy.copy(fitted)
    for name in private:
        delattr(public, name)
    return public


def check_range(name: str, size: float) -> None:
    """Refuse a public range whose square leaves the range of floats."""
    if not _LEAST_RANGE <= size <= 1.0 / _LEAST_RANGE:
        raise InvalidInput(f"expected {name} between {_LEAST_RANGE:g} and {1.0 / _LEAST_RANGE:g}.")


def increasing(name: str, values: Any) -> tuple[float, ...]:
    """Return at least three finite numbers, each above the one before."""
    numbers = checks.finite_vector(name, values)
    if numbers.size < 3 or not (np.diff(numbers) > 0.0).all():
        raise InvalidInput(f"expected {name} to be at least three increasing numbers.")
    return tuple(numbers.tolist())


def noisy_shares(
    labels: tuple[str, ...], sample: WeightedSample, sums: list[int], changed: int, confidence: float,
    stream: Bits,
) -> Values:  # fmt: skip
    """Add discrete Laplace noise to weighted sums of parts, and return what they say as shares.

    Replacing the records of a person of weight w changes the sums by at most ``changed * w * RESOLUTION``,
    their absolute changes added up. All intervals hold together with the confidence. They also cover that a
    record and a person's mean are rounded by less than 1.5 parts, the noise by less than a unit.
    """
    scale, whole = changed * RESOLUTION / sample.unit, sample.total * RESOLUTION
    released = tuple(number + discrete_laplace(stream, scale) for number in sums)
    noise_scale, grid = changed / sample.total_epsilon, 1.5 / RESOLUTION + 1.0 / whole
    norm, risk = sample.norm, (1.0 - confidence) / len(sums)
    shares = [float(Fraction(number, whole)) for number in released]
    ends = [mean_interval(share - grid, share + grid, norm, noise_scale, risk) for share in shares]
    return Values(labels, np.array(shares), released, whole, np.array(ends))
