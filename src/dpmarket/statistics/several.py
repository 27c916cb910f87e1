"""Turn one promise per person into several statistics: each gets a public share of every promise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.learning.promises import read_promises, refuse_other_index
from dpmarket.statistics.released import ReleasedStatistic, StatisticError


class Statistic(Protocol):
    """What can be asked of a crowd: a mean, a share, a histogram, a quantile, a vector mean.

    A protocol. After ``fit``, ``release_`` is what may be published and ``epsilons_`` what it cost whom.
    """

    release_: ReleasedStatistic
    epsilons_: FloatArray

    @property
    def error(self) -> StatisticError:
        """What spread and noise cost: the buyer's A and B."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the public settings as plain data."""
        ...

    def fit(
        self,
        records: ArrayLike,
        epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None,
    ) -> Self:
        """Release the statistic, at a price in privacy that is never above the promises."""
        ...


@dataclass(eq=False)
class SeveralStatistics:
    """Several statistics of the same people: every promise is split by public shares.

    Parameters
    ----------
    statistics
        A statistic under each name.
    shares
        A positive number under each name, relative to their sum; None means equal shares. Public: chosen
        before anybody's record is seen.
    epsilon
        The common promise, > 0, used where ``fit`` is given no ``epsilons``.

    Attributes
    ----------
    releases_
        The :class:`ReleasedStatistic` under each name.
    epsilons_
        What was spent on each person in all, rounded up, never above the promise. Read-only.
    spent_by_
        What each statistic spent on each person, exactly, under its name. Read-only.
    people_
        The people of ``epsilons_`` if they have names, or None.

    Notes
    -----
    Guaranteed: what all statistics together spend on a person is never above that person's promise, in exact
    arithmetic. Each share is rounded down before it is multiplied, each product again.

    Examples
    --------
    >>> from dpmarket.statistics import PrivateMean, PrivateShare
    >>> both = SeveralStatistics(
    ...     {"age": PrivateMean(18, 90), "owner": PrivateShare()}, shares={"age": 3, "owner": 1}
    ... )
    >>> columns = {"age": [30.0, 45.0, 60.0], "owner": [True, False, True]}
    >>> both = both.fit(columns, epsilons=[0.5, 1.0, 2.0])
    >>> sorted(both.releases_), bool((both.epsilons_ <= [0.5, 1.0, 2.0]).all())
    (['age', 'owner'], True)
    """

    statistics: Mapping[str, Statistic]
    shares: Mapping[str, float] | None = None
    epsilon: float | None = None

    def __post_init__(self) -> None:
        self.statistics = dict(self.statistics)
        if not self.statistics:
            raise InvalidInput("expected at least one statistic, got none.")
        given = self.shares if self.shares is not None else dict.fromkeys(self.statistics, 1.0)
        if set(given) != set(self.statistics):
            raise InvalidInput("expected a share for every statistic, under the same names.")
        self.shares = {name: checks.positive("a share", given[name]) for name in self.statistics}

    @property
    def error(self) -> StatisticError:
        """The sum over all statistics, each in units of what guessing costs it, at its share."""
        found = [(statistic.error, self.share(name)) for name, statistic in self.statistics.items()]
        return StatisticError(
            sum(error.sampling / error.signal for error, _ in found),
            sum(error.largest_sampling / error.signal for error, _ in found),
            sum(error.noise / error.signal / share**2 for error, share in found),
            float(len(found)),
        )

    def fit(
        self,
        records: Mapping[str, ArrayLike],
        epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None,
    ) -> Self:
        """Release all statistics, or none if one is refused.

        Parameters
        ----------
        records
            Each statistic's records under its name, all of the same people in the same order.
        epsilons, people
            As in :meth:`PrivateMean.fit`.

        Returns
        -------
        Self

        Raises
        ------
        InvalidInput, EntropyUnavailable
            As :meth:`PrivateMean.fit`; also if a statistic has no records, or another number of them.
        """
        if set(records) != set(self.statistics):
            raise InvalidInput("expected records for every statistic, under the same names.")
        lengths = {len(records[name]) for name in self.statistics}  # type: ignore[arg-type]
        if len(lengths) != 1:
            raise InvalidInput("expected as many records for one statistic as for the others.")
        for name in self.statistics:
            refuse_other_index(records[name], epsilons, people)
        promises, holding = read_promises(self.epsilon, epsilons, people, lengths.pop(), 2**53)
        if not isinstance(promises, np.ndarray):
            raise InvalidInput("expected epsilons to be promises, got the weights of a model.")
        total, releases, spent = np.zeros(promises.size), {}, {}
        for name, statistic in self.statistics.items():
            part = np.nextafter(promises * self.share(name), 0.0)
            given = part if holding.people is None else dict(zip(holding.people, part.tolist(), strict=True))
            # Of a copy: if a later one is refused, nothing was released and nothing has changed.
            fitted = copy(statistic).fit(records[name], epsilons=given, people=people)
            releases[name], spent[name] = fitted.release_, fitted.epsilons_
            total = np.nextafter(total + fitted.epsilons_, math.inf)
        # The exact sum is within the promise, so that the promise is an upper bound, too.
        total = np.minimum(total, promises)
        self.releases_, self.spent_by_, self.people_ = releases, spent, holding.people
        self.epsilons_: FloatArray = read_only(np.where(promises > 0.0, total, 0.0))
        return self

    def share(self, name: str) -> float:
        """Return a statistic's part of every promise: as a float that is not above the exact one."""
        assert self.shares is not None
        exact = Fraction(self.shares[name]) / sum(Fraction(share) for share in self.shares.values())
        share = float(exact)
        return share if Fraction(share) <= exact else math.nextafter(share, 0.0)
