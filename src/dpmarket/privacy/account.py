"""Keep what every person has left over many models.

Promises add up: who is promised 0.5 in each of three models gives up at most 1.5 in all (basic composition,
whatever the models are), and so do the deltas of promises that have one. An account holds everybody's cap and
refuses, before any noise is drawn, what would exceed it for anybody.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpmarket import checks
from dpmarket.arrays import FloatArray, read_only
from dpmarket.display import short_repr
from dpmarket.errors import Infeasible, InvalidInput


@runtime_checkable
class PrivacyAccount(Protocol):
    """What charges people for what a model spends on them.

    A protocol: :class:`Account` obeys it in memory, :class:`dpmarket.ledger.LedgerAccount` in a ledger.
    """

    def charge(self, people: Sequence[Any], epsilons: FloatArray) -> None:
        """Charge everybody, or nobody: all of it is kept before this returns, or it raises.

        Parameters
        ----------
        people
            Who, each once.
        epsilons
            What each is charged, shape (people,), at least 0.

        Raises
        ------
        Infeasible
            If anybody has too little left. The message says how many, not who.
        """
        ...

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return what each of these people has left (epsilon), rounded down."""
        ...


@runtime_checkable
class DeltaAccount(Protocol):
    """What charges people for promises with a delta, too.

    A protocol: :class:`Account` obeys it.
    """

    def charge_with_delta(self, people: Sequence[Any], epsilons: FloatArray, delta: float) -> None:
        """Charge everybody an epsilon of their own and this delta, or nobody anything.

        Raises
        ------
        Infeasible
            If anybody has too little left of either. The message says how many, not who.
        """
        ...


class Account:
    """Everybody's cap and what is left of it, in memory.

    Parameters
    ----------
    caps
        The most that may ever be spent on a person (epsilon), at least 0: a mapping from person to cap; an
        array for people numbered from 0; or one number for anybody.
    delta_cap
        The most that the deltas of a person's promises may ever add up to, at least 0 and below 1. Without it
        no promise with a delta is charged.

    Notes
    -----
    Guaranteed:

    * The sum of what a person was charged never exceeds the cap, also where floats round: sums are kept in
      pairs of floats and rounded up.
    * A charge that is refused changes nothing; charges from several threads come one after the other.

    Only what goes through the account is counted, and it is gone with the process: a market's own account is
    its ledger.

    Examples
    --------
    >>> account = Account({"ann": 1.0, "bob": 0.3})
    >>> account.charge(["ann", "bob"], [0.25, 0.25])
    >>> account.left(["ann", "bob"]).round(12).tolist()
    [0.75, 0.05]
    >>> account.charge(["ann", "bob"], [0.25, 0.25])
    Traceback (most recent call last):
        ...
    dpmarket.errors.Infeasible: expected nobody to exceed their cap, found 1 of 2 people who would. ...
    """

    def __init__(self, caps: Mapping[Any, float] | ArrayLike, delta_cap: float = 0.0) -> None:
        if not checks.non_negative("delta_cap", delta_cap) < 1.0:
            raise InvalidInput(f"expected delta_cap below 1, got {delta_cap!r}.")
        self._delta_cap = Fraction(float(delta_cap))
        self._deltas: dict[Any, Fraction] = {}
        self._lock = threading.Lock()
        self._common: float | None = None
        if isinstance(caps, Mapping):
            names = tuple(caps)
            limits = checks.non_negative_vector("caps", list(caps.values())) if names else np.zeros(0)
        elif np.ndim(caps) == 0:
            self._common = checks.non_negative("caps", caps)
            names, limits = (), np.zeros(0)
        else:
            limits = checks.non_negative_vector("caps", caps)
            names = tuple(range(limits.size))
        self._places = {name: place for place, name in enumerate(names)}
        self._caps = limits.copy()
        self._high, self._low = np.zeros(limits.size), np.zeros(limits.size)

    def __repr__(self) -> str:
        return short_repr(self, [("people", f"{len(self._places):,}")])

    def charge(self, people: Sequence[Any], epsilons: ArrayLike) -> None:
        """Charge everybody, or nobody.

        Parameters
        ----------
        people
            Who, each once.
        epsilons
            What each is charged, shape (people,), at least 0.

        Raises
        ------
        InvalidInput
            If a person is named twice or has no cap, or for amounts that are no amounts.
        Infeasible
            If anybody would exceed their cap. The message says how many, not who.
        """
        self.charge_with_delta(people, epsilons, 0.0)

    def charge_with_delta(self, people: Sequence[Any], epsilons: ArrayLike, delta: float) -> None:
        """Charge everybody an epsilon of their own and this delta, or nobody anything.

        Parameters
        ----------
        people, epsilons
            As for :meth:`charge`. Who is charged an epsilon of 0 is charged no delta: nothing of theirs was
            used.
        delta
            The delta of these promises, at least 0 and below 1.

        Raises
        ------
        InvalidInput
            As :meth:`charge`.
        Infeasible
            If anybody would exceed their cap, of epsilon or of delta. The message says how many, not who.
        """
        names = list(people)
        amounts = checks.non_negative_vector("epsilons", epsilons)
        if len(names) != amounts.size or len(set(names)) != len(names):
            raise InvalidInput("expected every person once, with one epsilon each.")
        more = Fraction(checks.non_negative("delta", delta))
        with self._lock:
            after = self._deltas_after(names, amounts, more)
            self._welcome(names)
            at = self._positions(names)
            high, lost = _two_sum(self._high[at], amounts)
            # Outward: what two floats cannot hold is counted as a little more.
            low = np.where(amounts > 0.0, np.nextafter(self._low[at] + lost, np.inf), self._low[at])
            beyond = int((((high - self._caps[at]) + low > 0.0) & (amounts > 0.0)).sum())
            if beyond:
                raise Infeasible(
                    f"expected nobody to exceed their cap, found {beyond} of {len(names)} people who would. "
                    "Nobody was charged."
                )
            self._high[at], self._low[at] = high, low
            self._deltas |= after

    def left(self, people: Sequence[Any]) -> FloatArray:
        """Return what each of these people has left (epsilon), rounded down, at least 0.

        Parameters
        ----------
        people
            Names, or numbers where caps were an array.

        Returns
        -------
        FloatArray
            Shape (people,), read-only.

        Raises
        ------
        InvalidInput
            If a person has no cap.
        """
        names = list(people)
        with self._lock:
            known = [name for name in names if name in self._places or self._common is None]
            at = self._positions(known)
            rest = np.nextafter((self._caps[at] - self._high[at]) - self._low[at], -np.inf)
        found = dict(zip(known, np.maximum(rest, 0.0).tolist(), strict=True))
        return read_only(np.array([found.get(name, self._common) for name in names], dtype=np.float64))

    def left_of_delta(self, people: Sequence[Any]) -> FloatArray:
        """Return what of delta each of these people has left, rounded down.

        Parameters
        ----------
        people
            Names, or numbers where caps were an array.

        Returns
        -------
        FloatArray
            Shape (people,), read-only.
        """
        with self._lock:
            rest = [float(self._delta_cap - self._deltas.get(name, 0)) for name in people]
        return read_only(np.maximum(np.nextafter(np.array(rest, dtype=np.float64), -np.inf), 0.0))

    def _deltas_after(self, names: list[Any], amounts: FloatArray, more: Fraction) -> dict[Any, Fraction]:
        """Return the sums of deltas, exactly, of those who are charged, or refuse."""
        if not more:
            return {}
        after = {
            name: self._deltas.get(name, Fraction(0)) + more
            for name, amount in zip(names, amounts.tolist(), strict=True)
            if amount > 0.0
        }
        beyond = sum(total > self._delta_cap for total in after.values())
        if beyond:
            raise Infeasible(
                f"expected nobody to exceed their cap of delta, found {beyond} of {len(names)} people who "
                "would. Nobody was charged."
            )
        return after

    def _welcome(self, names: list[Any]) -> None:
        """Give a new person the common cap, if there is one."""
        if self._common is None:
            return
        new = [name for name in names if name not in self._places]
        self._places |= {name: len(self._places) + k for k, name in enumerate(new)}
        self._caps = np.concatenate([self._caps, np.full(len(new), self._common)])
        self._high, self._low = (
            np.concatenate([part, np.zeros(len(new))]) for part in (self._high, self._low)
        )

    def _positions(self, names: list[Any]) -> Any:
        unknown = sum(name not in self._places for name in names)
        if unknown:
            raise InvalidInput(f"expected people with a cap in the account, found {unknown} without.")
        return np.array([self._places[name] for name in names], dtype=np.intp)


def _two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rounded sum, and exactly what rounding lost."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
