"""Keep the books of a market in which sellers arrive one by one: who was quoted what, who accepted.

This is the one part of the room that changes over time. Money is counted in whole numbers of a small unit,
rounded against the buyer, so that a budget is never exceeded, not even by the last bit.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmarket import checks
from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import InvalidInput
from dpmarket.mechanisms.curves import Curve
from dpmarket.mechanisms.outcome import checked_ids, minor_amounts
from dpmarket.mechanisms.quotes import Quote, Quotes

OPEN, ACCEPTED, DECLINED = 0, 1, 2
_COLUMNS = {
    "cost": np.float64,
    "epsilon": np.float64,
    "payment": np.float64,
    "error": np.float64,
    "charge": np.float64,
    "epoch": np.int64,
    "status": np.int64,
}
_UNITS = 50  # a budget is counted in about 2^50 units


class Books:
    """The books of one market.

    Parameters
    ----------
    budget
        Money that all payments together never exceed, > 0; None: no budget.
    minor_units
        If given, payments count against the budget as ``Outcome.in_minor_units(minor_units)`` will round
        them.
    """

    def __init__(self, budget: float | None = None, minor_units: int | None = None) -> None:
        self.budget = None if budget is None else checks.positive("budget", budget)
        self.minor_units = None if minor_units is None else checks.whole("minor_units", minor_units, 1)
        if minor_units is not None and budget is None:
            raise InvalidInput("expected minor_units only together with a budget.")
        self.market = secrets.token_hex(8)
        self.closed = False
        self._size = 0
        self._columns = {name: np.zeros(16, dtype=kind) for name, kind in _COLUMNS.items()}
        self._ids: dict[Any, int] | None = None
        self._committed = 0.0

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"Books of {self._size} quotes"

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one column of the books, a view that ends with the last quote."""
        return self._columns[name][: self._size]

    @property
    def money_left(self) -> float:
        """What is left of the budget when every quote still open is accepted, rounded down."""
        if self.budget is None:
            return math.inf
        return math.nextafter(max(self._limit() - self._committed, 0.0) / self._per_money(), 0.0)

    def is_open_to(self, curve: Curve) -> bool:
        """Tell whether the next seller will be quoted: whether any payment of the curve can be made."""
        return not self.closed and self._room_for(curve) >= 0.0

    def issue(self, curve: Curve, costs: FloatArray, ids: object) -> Quotes:
        """Quote sellers in their order, and reserve the money.

        Once what is left is below the curve's largest payment, the rest are quoted epsilon 0 and payment 0.
        That decision uses the quotes before theirs only, so truth stays everybody's best report.
        """
        self.refuse_closed()
        new = self._checked_ids(ids, costs.size)
        epsilons, payments, errors = curve.offers(costs)
        charges, epochs = np.zeros(costs.size), np.zeros(costs.size, dtype=np.int64)
        if self.budget is not None:
            charges = self._charges(payments, errors)
            before = np.cumsum(charges) - charges
            admitted = before <= self._room_for(curve)
            epsilons, payments, errors = epsilons * admitted, payments * admitted, errors * admitted
            charges *= admitted
        first = self._append(
            {
                "cost": costs,
                "epsilon": epsilons,
                "payment": payments,
                "error": errors,
                "charge": charges,
                "epoch": epochs,
                "status": np.full(costs.size, OPEN),
            }
        )
        if new is not None:
            self._ids = {} if self._ids is None else self._ids
            self._ids.update((name, first + k) for k, name in enumerate(new))
        self._committed += float(charges.sum())
        return Quotes(first, read_only(epsilons), read_only(payments), read_only(epochs), self.market)

    def alternatives(self, curve: Curve, reports: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the next seller would be offered for each of several reports: epsilons, payments."""
        epsilons, payments, _ = curve.offers(reports)
        # Whether there is money for this seller was decided before they came.
        admitted = self._room_for(curve) >= 0.0
        return epsilons * admitted, payments * admitted

    def accept(self, quotes: Quote | Quotes) -> None:
        """Note that these quotes were accepted: all of them, or none if one cannot be."""
        self._columns["status"][self._open_numbers(quotes)] = ACCEPTED

    def decline(self, quotes: Quote | Quotes) -> None:
        """Note that these quotes were declined, and free the money reserved for them."""
        numbers = self._open_numbers(quotes)
        self._columns["status"][numbers] = DECLINED
        self._committed -= float(self._columns["charge"][numbers].sum())

    def delivered(self, who: object) -> IntArray:
        """Return the numbers of accepted quotes whose data came: all accepted for None, or those named."""
        accepted = np.flatnonzero(self.column("status") == ACCEPTED)
        if who is None:
            return accepted
        numbers = self._named(who)
        if np.unique(numbers).size < numbers.size:
            raise InvalidInput("expected delivered to name every seller once, found repeated ones.")
        missing = numbers.size - np.isin(numbers, accepted).sum()
        if missing:
            raise InvalidInput(
                f"expected delivered to name sellers who accepted, found {missing} who have not."
            )
        return np.sort(numbers)

    def seller_ids(self, numbers: IntArray) -> npt.NDArray[Any]:
        """Return the ids of these quotes' sellers; their numbers where no ids were given."""
        if self._ids is None:
            return numbers
        names = list(self._ids)
        return np.array([names[number] for number in numbers.tolist()])

    def _checked_ids(self, ids: object, count: int) -> list[Any] | None:
        """Return ids of sellers who have not been quoted yet, as a list, or None where none are used."""
        if (ids is None) != (self._ids is None) and self._size > 0 and count > 0:
            raise InvalidInput("expected seller ids for all quotes of a market or for none.")
        if ids is None:
            return None
        names: list[Any] = checked_ids(ids, count).tolist()
        known = self._ids or {}
        if known and names and type(names[0]) is not type(next(iter(known))):
            raise InvalidInput("expected seller ids of one kind, texts or whole numbers.")
        repeated = sum(name in known for name in names)
        if repeated:
            raise InvalidInput(
                f"expected sellers who have not been quoted yet, found {repeated} who have: one report each."
            )
        return names

    def refuse_closed(self) -> None:
        """Refuse to go on after the market was closed."""
        if self.closed:
            raise InvalidInput("expected a market that is still open, this one has been closed.")

    def to_dict(self) -> dict[str, Any]:
        """Return the books as plain data. They hold reported costs: confidential."""
        return {
            "budget": self.budget,
            "minor_units": self.minor_units,
            "market": self.market,
            "closed": self.closed,
            "seller_ids": None if self._ids is None else list(self._ids),
            **{name: self.column(name).tolist() for name in _COLUMNS},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Books:
        """Make the books whose ``to_dict()`` gave this data."""
        try:
            books = cls(data["budget"], data["minor_units"])
            books.market, books.closed = str(data["market"]), bool(data["closed"])
            columns = {name: np.array(data[name], dtype=kind) for name, kind in _COLUMNS.items()}
            for column in columns.values():
                checks.same_length("a column", column, "the costs", columns["cost"])
                checks.non_negative_numbers("a column", column)
            names = books._checked_ids(data["seller_ids"], columns["cost"].size)
            books._append(columns)
            books._ids = None if names is None else {name: k for k, name in enumerate(names)}
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidInput(
                f"expected the whole books of a market, found {type(problem).__name__}: a part is missing or "
                "wrong."
            ) from None
        if not np.isin(columns["status"], (OPEN, ACCEPTED, DECLINED)).all():
            raise InvalidInput("expected quotes that are open, accepted or declined.")
        books._committed = float(columns["charge"][columns["status"] != DECLINED].sum())
        return books

    def _limit(self) -> float:
        """Return the budget in the units in which it is counted, rounded down: a whole number."""
        assert self.budget is not None
        if self.minor_units is not None:
            return float(math.floor(Fraction(self.budget) * self.minor_units))
        return float(math.floor(self.budget * self._per_money()))

    def _per_money(self) -> float:
        assert self.budget is not None
        if self.minor_units is not None:
            return float(self.minor_units)
        return math.ldexp(1.0, _UNITS - math.frexp(self.budget)[1])

    def _charges(self, payments: FloatArray, errors: FloatArray) -> FloatArray:
        """Return what payments count against the budget: whole numbers, rounded up."""
        if self.minor_units is not None:
            return minor_amounts(payments, errors, self.minor_units).astype(np.float64)
        # A power of two: the product is exact.
        return np.ceil(payments * self._per_money())

    def _room_for(self, curve: Curve) -> float:
        """Return how much may still be committed before the curve's largest payment cannot be made."""
        if self.budget is None:
            return math.inf
        if self.minor_units is not None:
            largest = float(curve.largest_amount(self.minor_units))
        else:
            largest = float(self._charges(np.array([curve.largest_payment]), np.zeros(1))[0])
        return self._limit() - self._committed - largest

    def _append(self, new: Mapping[str, npt.NDArray[Any]]) -> int:
        first, end = self._size, self._size + len(new["cost"])
        for name, column in self._columns.items():
            if end > column.size:
                grown = np.zeros(max(end, 2 * column.size), dtype=column.dtype)
                grown[:first] = column[:first]
                self._columns[name] = column = grown
            column[first:end] = new[name]
        self._size = end
        return first

    def _open_numbers(self, quotes: Quote | Quotes) -> IntArray:
        self.refuse_closed()
        numbers = self._numbers(quotes)
        taken = int((self._columns["status"][numbers] != OPEN).sum())
        if taken:
            raise InvalidInput(
                f"expected quotes that are still open, found {taken} that have been accepted or declined."
            )
        return numbers

    def _numbers(self, quotes: object) -> IntArray:
        shown: tuple[object, object, object]
        if isinstance(quotes, Quote):
            numbers = np.array([quotes.number])
            shown = quotes.epsilon, quotes.payment, quotes.epoch
        elif isinstance(quotes, Quotes):
            numbers = quotes.first + np.arange(len(quotes))
            shown = quotes.epsilons, quotes.payments, quotes.epochs
        else:
            raise InvalidInput(f"expected a quote or quotes of this market, got {type(quotes).__name__}.")
        known = quotes.market == self.market and numbers[0] >= 0 and numbers[-1] < self._size
        # Books read from an older file may hold another seller's quote under the same number.
        if not known or not self._say(numbers, *shown):
            raise InvalidInput("expected a quote of this market, got one that it did not make.")
        return numbers

    def _say(self, numbers: IntArray, epsilon: object, payment: object, epoch: object) -> bool:
        """Tell whether the books say this about these quotes."""
        shown = {"epsilon": epsilon, "payment": payment, "epoch": epoch}
        return all(
            np.array_equal(self._columns[name][numbers], np.atleast_1d(np.asarray(own)))
            for name, own in shown.items()
        )

    def _named(self, who: object) -> IntArray:
        if isinstance(who, Quote | Quotes):
            return self._numbers(who)
        if isinstance(who, str | bytes | Mapping) or not isinstance(who, Iterable):
            raise InvalidInput("expected delivered to be quotes or seller ids.")
        members = who.tolist() if isinstance(who, np.ndarray) else list(who)
        if members and all(isinstance(member, Quote) for member in members):
            return np.concatenate([self._numbers(member) for member in members])
        known = range(self._size) if self._ids is None else self._ids
        unknown = sum(
            not isinstance(name, str | int) or isinstance(name, bool) or name not in known for name in members
        )
        if unknown:
            raise InvalidInput(f"expected delivered to name sellers of this market, found {unknown} unknown.")
        numbers = members if self._ids is None else [self._ids[name] for name in members]
        return np.array(numbers, dtype=np.int64)
