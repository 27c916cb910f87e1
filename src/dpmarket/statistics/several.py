"""Several statistics of the same people: every epsilon is split by public shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import read_only
from dpmarket.errors import InvalidInput
from dpmarket.privacy.account import PrivacyAccount
from dpmarket.statistics.release import StatisticError
from dpmarket.statistics.sample import read_epsilons
from dpmarket.statistics.statistic import Statistic, without


@dataclass(eq=False)
class SeveralStatistics:
    """Several statistics of the same people: every epsilon is split by public shares.

    Parameters
    ----------
    statistics, shares
        Under each name a statistic, and a positive number relative to the sum of all; None means equal
        shares. Public: chosen before any record is seen.
    epsilon
        The common epsilon, > 0, used where ``fit`` is given no ``epsilons``.

    Attributes
    ----------
    releases_, spent_by_, epsilons_, people_
        Under each name the :class:`ReleasedStatistic`, and what it spent on each person, exactly; what was
        spent on each person in all, rounded up and never above the person's epsilon; the names, or None.

    Examples
    --------
    >>> from dpmarket.statistics import PrivateMean, PrivateShare
    >>> both = SeveralStatistics({"age": PrivateMean(18, 90), "owner": PrivateShare()}, epsilon=1.0)
    >>> sorted(both.fit({"age": [30.0, 45.0], "owner": [True, False]}).releases_)
    ['age', 'owner']
    """

    statistics: Mapping[str, Statistic]
    shares: Mapping[str, float] | None = None
    epsilon: float | None = None

    def __post_init__(self) -> None:
        given = dict.fromkeys(self.statistics, 1.0) if self.shares is None else self.shares
        if not self.statistics or set(given) != set(self.statistics):
            raise InvalidInput("expected at least one statistic, and a share for every statistic.")
        self.shares = {name: checks.positive("a share", given[name]) for name in self.statistics}

    @property
    def error(self) -> StatisticError:
        """The sum over all statistics, each in units of what guessing costs it, at its share."""
        found = [(statistic.error, self.share(name)) for name, statistic in self.statistics.items()]
        sampling = sum(error.sampling / error.signal for error, _ in found)
        noise = sum(error.noise / error.signal / share**2 for error, share in found)
        return StatisticError(sampling, noise, float(len(found)))

    def fit(
        self, records: Mapping[str, ArrayLike], epsilons: ArrayLike | Mapping[Any, float] | None = None,
        people: ArrayLike | None = None, account: PrivacyAccount | None = None,
    ) -> Self:  # fmt: skip
        """Release all statistics, or none, of records under their names; an account is charged once."""
        self.__post_init__()  # shares may have been changed since
        if set(records) != set(self.statistics):
            raise InvalidInput("expected records for every statistic, under the same names.")
        budgets, holding = read_epsilons(list(records.values()), self.epsilon, epsilons, people, 2**53)
        prepared, total = {}, np.zeros(budgets.size)
        for name, statistic in self.statistics.items():
            share = self.share(name)
            # A share of 1 is exact; other products are rounded down.
            part = budgets if share == 1.0 else np.maximum(np.nextafter(budgets * share, -1.0), 0.0)
            given = part if holding.people is None else dict(zip(holding.people, part.tolist(), strict=True))
            prepared[name] = statistic.prepare(records[name], given, people)
            own = prepared[name].sample.spent
            total = np.where(own > 0.0, np.nextafter(total + own, math.inf), total)
        # The exact sum is within the epsilon, so that the epsilon is an upper bound as well.
        total = np.minimum(total, budgets)
        if account is not None:
            account.charge(holding.names(), total)
        self.releases_ = {name: self.statistics[name].release(one) for name, one in prepared.items()}
        self.spent_by_ = {name: one.sample.spent for name, one in prepared.items()}
        self.epsilons_, self.people_ = read_only(total), holding.people
        return self

    def published(self) -> Self:
        """Return a copy for other people's eyes: without what was spent on whom."""
        return without(self, "releases_", "epsilons_", "spent_by_", "people_")

    def share(self, name: str) -> float:
        """Return a statistic's part of every epsilon: as a float that is not above the exact one."""
        assert self.shares is not None
        exact = Fraction(self.shares[name]) / sum(Fraction(share) for share in self.shares.values())
        share = float(exact)
        return share if Fraction(share) <= exact else math.nextafter(share, 0.0)
