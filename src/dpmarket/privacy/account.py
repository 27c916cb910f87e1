r"""Privacy accounts: what each person has left of a limit over many releases.

A release costs a person an epsilon, or a distance :math:`\mu` of Gaussian differential privacy. Epsilons add
up, and so do the squares of distances; all releases together are

.. math:: \left(\sum \epsilon + \epsilon_G\Bigl(\sqrt{\textstyle\sum \mu^2};\, \delta\Bigr),\; \delta\right)
          \text{-differentially private}, \qquad \delta_G(\epsilon_G(\mu; \delta); \mu) = \delta,

.. math:: \delta_G(\epsilon; \mu) = \Phi\left(-\frac{\epsilon}{\mu} + \frac{\mu}{2}\right)
          - e^{\epsilon} \Phi\left(-\frac{\epsilon}{\mu} - \frac{\mu}{2}\right)

(Dong, Roth and Su, 2022). A release of which only :math:`(\epsilon, \delta_1)` is known costs the epsilon and
takes :math:`\delta_1` off the account's delta. Amounts are kept as exact rational numbers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, ndtr

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.display import short_repr
from dpmarket.errors import Infeasible, InvalidInput

_UP = 1.0 + 1e-12  # far more than floats lose in the formula of delta
_LEAST_DELTA = 1e-100  # smaller ones leave the range of floats in the formula of delta


@runtime_checkable
class PrivacyAccount(Protocol):
    """What charges people for releases.

    A protocol: :class:`Account` obeys it in memory, :class:`dpmarket.ledger.LedgerAccount` in a ledger.
    """

    def charge(
        self,
        people: Sequence[Any],
        epsilons: ArrayLike | None = None,
        *,
        mus: ArrayLike | None = None,
        delta: float = 0.0,
    ) -> None:
        """Charge everybody, or nobody; :meth:`Account.charge` says what.

        All of it is stored before this returns, or it raises :class:`~dpmarket.errors.Infeasible` with a
        message that says how many people have too little left, not who.
        """
        ...

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return the epsilon that each of these people has left, rounded down."""
        ...


class _Spent(NamedTuple):
    """The sums of what one person was charged, exactly."""

    epsilon: Fraction = Fraction(0)
    squared_mu: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)


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
    person are epsilons, or all are distances. With both kinds, let amounts not depend on earlier results, or
    keep an account for each kind.

    Only charges to the account are counted, and they are gone with the process: a market's own account is its
    ledger.

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
        if self._delta and not _LEAST_DELTA <= self._delta < 1:
            raise InvalidInput(
                f"expected delta to be 0, or at least {_LEAST_DELTA} and below 1, got {delta!r}."
            )
        self._common: Fraction | None = None
        self._limits: dict[Any, Fraction] = {}
        if isinstance(limits, Mapping):
            amounts = _exact("limits", list(limits.values())) if limits else []
            self._limits = dict(zip(limits, amounts, strict=True))
        elif np.ndim(limits) == 0:  # type: ignore[arg-type]
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

        Parameters
        ----------
        people
            The people charged, each once.
        epsilons, mus
            What each is charged, shape (people,), at least 0; None charges nothing of that kind.
        delta
            Charged to everybody who is charged an epsilon above 0: of a release that is known to be
            (epsilon, delta)-differentially private, and no more.

        Raises
        ------
        InvalidInput
            If a person is named twice or has no limit, or an amount is no number of at least 0.
        Infeasible
            If anybody would exceed the limit. The message says how many, not who.
        """
        names = list(people)
        amounts = [
            [Fraction(0)] * len(names) if given is None else _exact(name, given)
            for name, given in (("epsilons", epsilons), ("mus", mus))
        ]
        (more,) = _exact("delta", [delta])
        if any(len(column) != len(names) for column in amounts) or len(set(names)) != len(names):
            raise InvalidInput("expected every person once, with one amount each.")
        with self._lock:
            limits, after = [], {}
            for name, epsilon, mu in zip(names, *amounts, strict=True):
                limit, spent = self._limit(name), self._spent.get(name, _Spent())
                if epsilon or mu:
                    own = _Spent(epsilon, mu * mu, more if epsilon else Fraction(0))
                    after[name] = _Spent(*(a + b for a, b in zip(spent, own, strict=True)))
                    limits.append(limit)
            beyond = sum(self._exceeded(limits, list(after.values())))
            if beyond:
                raise Infeasible(
                    "expected nobody to exceed their limit, of epsilon at the account's delta, found "
                    f"{beyond} of {len(names)} people who would. Nobody was charged."
                )
            self._spent = self._spent | after

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return the epsilon that each of these people has left, rounded down, at least 0.

        Raises
        ------
        InvalidInput
            If a person has no limit.
        """
        with self._lock:
            rests = [self._limit(name) - self._total(self._spent.get(name, _Spent())) for name in people]
        return read_only(np.array([max(_down(rest), 0.0) for rest in rests]))

    def spent(self, people: Sequence[Any]) -> FloatArray:
        """Return the epsilon that all charges together cost each of these people, rounded up."""
        with self._lock:
            totals = [self._total(self._spent.get(name, _Spent())) for name in people]
        return read_only(np.array([-_down(-total) for total in totals]))

    def _limit(self, name: Any) -> Fraction:
        limit = self._limits.get(name, self._common)
        if limit is None:
            raise InvalidInput("expected people with a limit in the account, found somebody without.")
        return limit

    def _exceeded(self, limits: list[Fraction], after: list[_Spent]) -> list[bool]:
        """Return for each person whether the charges together are above the limit."""
        rests = [limit - spent.epsilon for limit, spent in zip(limits, after, strict=True)]
        mus = np.array([_root_up(spent.squared_mu) for spent in after])
        found = gaussian_deltas([max(_down(rest), 0.0) for rest in rests], mus)
        return [
            rest < 0 or spent.delta + Fraction(used) > self._delta
            for rest, spent, used in zip(rests, after, found.tolist(), strict=True)
        ]

    def _total(self, spent: _Spent) -> Fraction:
        """Return what one person's charges cost together, as a number that is not too small."""
        if not spent.squared_mu:
            return spent.epsilon
        return spent.epsilon + Fraction(
            gaussian_epsilon(_root_up(spent.squared_mu), _down(self._delta - spent.delta))
        )


def gaussian_deltas(epsilons: ArrayLike, mus: ArrayLike) -> FloatArray:
    """Return the delta of Gaussian mechanisms with distances ``mus`` at ``epsilons``, rounded up.

    Examples
    --------
    >>> gaussian_deltas([0.0, 1.0, 1.0], [1.0, 1.0, 0.0]).round(4).tolist()
    [0.3829, 0.1269, 0.0]
    """
    epsilon = np.asarray(epsilons, dtype=np.float64)
    mu = np.asarray(mus, dtype=np.float64)
    distance = np.where(mu > 0.0, mu, 1.0) * _UP
    x = epsilon / distance / _UP - 0.5 * distance
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        density = 0.5 * np.exp(-0.5 * x * x)
        first = np.where(x >= 0.0, density * erfcx(np.maximum(x, 0.0) / math.sqrt(2.0)), ndtr(-x))
        second = density * erfcx((x + distance) / math.sqrt(2.0))
    # Both terms are off by a few rounding errors of x * x; below 1e-300 they leave the range of floats.
    off = 1e-14 + 1e-15 * np.minimum(x * x, 1e6)
    found = np.minimum((first - second) + off * first, 1.0) * _UP + 1e-300
    return np.where(mu > 0.0, np.clip(found, 0.0, 1.0), 0.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at which the Gaussian mechanism has this delta, rounded up; infinite at 0.

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 1e-5), 3), gaussian_epsilon(0.0, 1e-5)
    (4.377, 0.0)
    """
    if gaussian_deltas(0.0, mu) <= delta or delta <= 0.0:
        return 0.0 if mu == 0.0 or delta > 0.0 else math.inf
    low, high = 0.0, 0.5 * mu * mu + mu * math.sqrt(2.0 * math.log(2.0 / min(delta, 1.0))) + mu
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if gaussian_deltas(middle, mu) <= delta else (middle, high)
    return high


def _exact(name: str, values: Any) -> list[Fraction]:
    """Return numbers of at least 0 exactly: floats as the binary fractions they are."""
    if isinstance(values, Sequence) and any(isinstance(value, Fraction) for value in values):
        if not all(isinstance(value, Fraction) and value >= 0 for value in values):
            raise InvalidInput(f"expected {name} to be all of at least 0, and all fractions if one is.")
        return list(values)
    return [Fraction(number) for number in checks.non_negative_vector(name, values).tolist()]


def _down(number: Fraction) -> float:
    """Return the largest float that is not above a number."""
    found = float(number)
    return found if Fraction(found) <= number else math.nextafter(found, -math.inf)


def _root_up(number: Fraction) -> float:
    """Return a float that is not below the square root of a number."""
    root = math.sqrt(number)
    while Fraction(root) ** 2 < number:
        root = math.nextafter(root, math.inf)
    return root
