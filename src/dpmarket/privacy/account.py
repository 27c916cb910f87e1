r"""Privacy accounts: what each person has left of a limit over many releases.

A release costs a person an epsilon, or a distance :math:`\mu` of Gaussian differential privacy. Epsilons add
up, and so do the squares of distances; all releases together are

.. math:: \left(\sum \epsilon + \epsilon_G\Bigl(\sqrt{\textstyle\sum \mu^2};\, \delta\Bigr),\; \delta\right)
          \text{-differentially private}, \qquad \delta_G(\epsilon_G(\mu; \delta); \mu) = \delta

(:mod:`dpmarket.privacy.gaussian`). A release of which only :math:`(\epsilon, \delta_1)` is known costs the
epsilon and takes :math:`\delta_1` off the account's delta. Amounts are kept as exact rational numbers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.display import short_repr
from dpmarket.errors import Infeasible, InvalidInput
from dpmarket.privacy.gaussian import gaussian_deltas, gaussian_epsilons

_LEAST_DELTA = 1e-100  # smaller ones leave the range of floats in the formula of delta


@runtime_checkable
class PrivacyAccount(Protocol):
    """What charges people for releases: :class:`Account`, or the account of a database of campaigns."""

    def charge(
        self,
        people: Sequence[Any],
        epsilons: ArrayLike | None = None,
        *,
        mus: ArrayLike | None = None,
        delta: float = 0.0,
    ) -> None:
        """Charge everybody, or nobody, as :meth:`Account.charge`; what is charged is stored on return."""

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return the epsilon that each of these people has left, rounded down."""


Exact = int | Fraction
"""A number in units of 2**-1074, which all floats are whole multiples of."""
_UNIT = 1 << 1074


class _Spent(NamedTuple):
    """The sums of what one person was charged; squares in squared units."""

    epsilon: Exact = 0
    squared_mu: Exact = 0
    delta: Exact = 0


class Account:
    r"""Everybody's limit and what is left of it, in memory.

    Parameters
    ----------
    limits
        The most that all releases together may cost a person (epsilon), at least 0: a mapping from person to
        limit; an array for people numbered from 0; or one number for anybody. Numbers are taken exactly: the
        float 0.1 is a little above one tenth, so that ten charges of it exceed a limit of 1, and ten of
        ``Fraction(1, 10)`` do not.
    delta
        The delta at which limits hold, at least 0 and below 1. Without it only epsilons are charged.

    Notes
    -----
    Guaranteed, for every person and at every time:

    * All charges together are (limit, delta)-differentially private by the formula of this module. Sums are
      exact; what the formula needs floats for is rounded up.
    * A refused charge changes nothing for anybody; charges from several threads come one after the other.

    Releases may depend on earlier results. That the *amounts* do as well is covered where all charges of a
    person are epsilons, or all are distances: else keep an account for each kind. Charges are gone with the
    process: a market's own account is its ledger.

    Examples
    --------
    >>> account = Account({"ann": 1.0, "bob": 0.5})
    >>> account.charge(["ann", "bob"], [0.5, 0.5])
    >>> account.left(["ann", "bob"]).tolist()
    [0.5, 0.0]
    >>> account.charge(["ann", "bob"], [0.25, 0.25])
    Traceback (most recent call last):
        ...
    dpmarket.errors.Infeasible: expected nobody to exceed their limit, of epsilon at the account's delta, ...
    """

    def __init__(self, limits: Mapping[Any, float] | ArrayLike, delta: float = 0.0) -> None:
        self._delta = _exact("delta", [delta])[0]
        if self._delta and not _LEAST_DELTA <= delta < 1.0:
            raise InvalidInput(
                f"expected delta to be 0, or at least {_LEAST_DELTA} and below 1, got {delta!r}."
            )
        self._common: Exact | None = None
        self._limits: dict[Any, Exact] = {}
        if isinstance(limits, Mapping):
            amounts = _exact("limits", list(limits.values())) if limits else []
            self._limits = dict(zip(limits, amounts, strict=True))
        elif np.ndim(limits) == 0:
            self._common = _exact("limits", [limits])[0]
        else:
            self._limits = dict(enumerate(_exact("limits", limits)))
        self._spent: dict[Any, _Spent] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return short_repr(self, [("people", f"{len(self._limits or self._spent):,}")])

    def charge(
        self,
        people: Sequence[Any],
        epsilons: ArrayLike | Sequence[Fraction] | None = None,
        *,
        mus: ArrayLike | Sequence[Fraction] | None = None,
        delta: float = 0.0,
    ) -> None:
        """Charge everybody, or nobody.

        ``epsilons`` and ``mus``, shape (people,), at least 0, are what each is charged; ``delta`` is charged
        to everybody with an epsilon above 0, for a release of which no more is known. A person without a
        limit or named twice is InvalidInput; too little left is Infeasible, which says for how many, not who.
        """
        names = list(people)
        amounts = [
            [0] * len(names) if given is None else _exact(name, given)
            for name, given in (("epsilons", epsilons), ("mus", mus))
        ]
        (more,) = _exact("delta", [delta])
        if any(len(column) != len(names) for column in amounts) or len(set(names)) != len(names):
            raise InvalidInput("expected every person once, with one amount each.")
        if any(name != name for name in names):  # NaN would be somebody new at every charge
            raise InvalidInput("expected people with names, found a gap.")
        with self._lock:
            after = {}
            for name, epsilon, mu in zip(names, *amounts, strict=True):
                self._limit(name)
                if epsilon or mu:
                    old, own = self._spent.get(name, _Spent()), more if epsilon else 0
                    after[name] = _Spent(old.epsilon + epsilon, old.squared_mu + mu * mu, old.delta + own)
            beyond = self._exceeding(after)
            if beyond:
                raise Infeasible(
                    "expected nobody to exceed their limit, of epsilon at the account's delta, found "
                    f"{beyond} of {len(names)} people who would. Nobody was charged."
                )
            self._spent = self._spent | after

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return the epsilon that each of these people has left, rounded down, at least 0."""
        with self._lock:
            rests = [
                self._limit(name) - spent for name, spent in zip(people, self._totals(people), strict=True)
            ]
        return read_only(np.array([max(_down(rest), 0.0) for rest in rests]))

    def spent(self, people: Sequence[Any]) -> FloatArray:
        """Return the epsilon that all charges together cost each of these people, rounded up."""
        with self._lock:
            return read_only(np.array([0.0 - _down(-total) for total in self._totals(people)]))

    def _limit(self, name: Any) -> Exact:
        limit = self._limits.get(name, self._common)
        if limit is None:
            raise InvalidInput("expected people with a limit in the account, found somebody without.")
        return limit

    def _exceeding(self, after: Mapping[Any, _Spent]) -> int:
        """Return how many people would be above their limit."""
        beyond, gaussian = 0, []
        for name, own in after.items():
            rest, delta = self._limit(name) - own.epsilon, self._delta - own.delta
            if rest < 0 or delta < 0:
                beyond += 1
            elif own.squared_mu:
                gaussian.append((_down(rest), _root_up(own.squared_mu), _down(delta)))
        if not gaussian:
            return beyond
        rests, mus, deltas = np.array(gaussian).T
        return beyond + int((gaussian_deltas(rests, mus) > deltas).sum())

    def _totals(self, people: Sequence[Any]) -> list[Exact]:
        """Return what each person's charges cost together, as numbers that are not too small."""
        found = [self._spent.get(name, _Spent()) for name in people]
        mus = [_root_up(own.squared_mu) for own in found]
        epsilons = gaussian_epsilons(mus, [_down(self._delta - own.delta) for own in found])
        return [own.epsilon + more for own, more in zip(found, _exact("epsilons", epsilons), strict=True)]


def _exact(name: str, values: Any) -> list[Exact]:
    """Return numbers of at least 0 in units of 2**-1074: floats as the binary fractions they are."""
    if isinstance(values, Sequence) and any(isinstance(value, Fraction) for value in values):
        if not all(isinstance(value, Fraction) and value >= 0 for value in values):
            raise InvalidInput(f"expected {name} to be all of at least 0, and all fractions if one is.")
        return [value * _UNIT for value in values]
    ratios = map(float.as_integer_ratio, checks.non_negative_vector(name, values).tolist())
    return [numerator * (_UNIT // denominator) for numerator, denominator in ratios]


def _down(number: Exact) -> float:
    """Return the largest float that is not above a number of units."""
    found = float(Fraction(number, _UNIT)) if isinstance(number, Fraction) else number / _UNIT
    numerator, denominator = found.as_integer_ratio()
    return found if numerator * (_UNIT // denominator) <= number else math.nextafter(found, -math.inf)


def _root_up(number: Exact) -> float:
    """Return a float that is not below the square root of a number of squared units."""
    return -_down(-math.isqrt(math.ceil(number)) - 1) if number else 0.0
