r"""Check that an offer is on a public menu: then it was worth taking to whoever it was made for.

A menu that was fixed before anybody came has points of cost, epsilon and payment, from (0, 0) upwards. It is
one that nobody can gain from by lying if payments rise with epsilon by a slope that falls, and that is the
cost of who picks the point: the next bit of epsilon is paid what it costs them, and all bits before it more.
Whoever has that cost is then paid at least cost times epsilon. Between two points the payment lies above
their chord, and below both tangents; fractions make these comparisons exact. What rounding is forgiven is a
billionth of what is compared: not of the largest payment, which a forger could make as large as he likes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .constants import LARGEST_NUMBER, has_quadratic_costs
from .layout import Body
from .verdicts import NOT_MADE, Check, judged

WITH_MENU = ("online", "posted price")
"""Mechanisms that offer everybody the same choices, whatever others report."""
_TOLERANCE = Fraction(1, 10**9)
_BEYOND = Fraction(1, 10**8)
_COARSE = Fraction(1, 20)
_MOST_POINTS = 1_000


class Menu:
    """A menu that begins with nothing, and pays every bit of epsilon what it costs."""

    def __init__(self, costs: Sequence[float], epsilons: Sequence[float], payments: Sequence[float]) -> None:
        self.costs, self.epsilons, self.payments = costs, epsilons, payments
        self._exact = [Fraction(epsilon) for epsilon in epsilons]

    def has(self, promise: float, payment: float, quotes: int, minor_units: int | None) -> bool:
        """Whether so many of its offers, each rounded up by at most a unit, add up to this: exactly."""
        unit = Fraction(1, minor_units) if minor_units else Fraction(0)
        paid = Fraction(payment) * (unit or 1)
        if promise == 0.0:
            return paid == 0
        e, last = Fraction(promise), Fraction(self.epsilons[-1])
        if e > quotes * last * (1 + _BEYOND):
            return False
        # Payments are concave in epsilon: several offers that add up to e are paid least if all but one are
        # the largest or nothing, and most if all are alike.
        e = min(e, quotes * last)
        most, rest = divmod(e, last)
        lowest = most * Fraction(self.payments[-1]) + self._chord(rest)
        highest = quotes * self._highest(e / quotes)
        return lowest * (1 - _TOLERANCE) <= paid <= highest * (1 + _TOLERANCE) + quotes * unit

    def _segment(self, e: Fraction) -> int:
        """Return the number of the point at whose left e lies."""
        return min(max(bisect_right(self._exact, e), 1), len(self._exact) - 1)

    def _chord(self, e: Fraction) -> Fraction:
        k = self._segment(e)
        left, right = self._exact[k - 1], self._exact[k]
        before, after = Fraction(self.payments[k - 1]), Fraction(self.payments[k])
        return before + (after - before) * (e - left) / (right - left)

    def _highest(self, e: Fraction) -> Fraction:
        k = self._segment(e)
        before = Fraction(self.payments[k - 1]) + Fraction(self.costs[k - 1]) * (e - self._exact[k - 1])
        after = Fraction(self.payments[k]) - Fraction(self.costs[k]) * (self._exact[k] - e)
        return min(before, after)

    def lacks(self, promises: Any, payments: Any, quotes: Any, minor_units: int | None) -> int:
        """Return how many of many offers it does not have: by floats what is clear, by fractions the rest."""
        x, y, c = (np.array(column) for column in (self.epsilons, self.payments, self.costs))
        unit = 1.0 / minor_units if minor_units else 0.0
        paid = payments * (unit or 1.0)
        k = np.clip(np.searchsorted(x, promises, side="right"), 1, x.size - 1)
        chord = np.interp(promises, x, y)
        highest = np.minimum(y[k - 1] + c[k - 1] * (promises - x[k - 1]), y[k] - c[k] * (x[k] - promises))
        half = float(_TOLERANCE) / 2.0
        inside = (promises > 0.0) & (promises <= x[-1]) & (quotes == 1)
        clear = inside & (chord * (1.0 - half) <= paid) & (paid <= highest * (1.0 + half) + unit)
        rest = zip(promises[~clear].tolist(), payments[~clear].tolist(), quotes[~clear].tolist(), strict=True)
        return sum(not self.has(e, paid, count, minor_units) for e, paid, count in rest)


def menu_of(body: Body) -> Menu | None:
    """Return a certificate's menu, if it has one that is sound."""
    if body.menu is None:
        return None
    columns: list[list[Any]] = [body.menu[name] for name in ("cost", "epsilon", "payment")]
    numbers = (
        type(value) is float and 0.0 <= value <= LARGEST_NUMBER for column in columns for value in column
    )
    if len({len(column) for column in columns}) != 1 or not 2 <= len(columns[0]) <= _MOST_POINTS:
        return None
    if not all(numbers):
        return None
    menu = Menu(*columns)
    starts = menu.epsilons[0] == menu.payments[0] == 0.0
    sound = starts and all(_priced(menu, k) for k in range(1, len(menu.costs)))
    return menu if sound and is_fine(menu, _COARSE) else None


def menu_checks(body: Body, menu: Menu | None) -> list[Check]:
    """Check that there is a sound menu where there must be one, and none where offers depended on others."""
    if has_quadratic_costs(body.market):
        told = "with quadratic costs, payments are no function of epsilon that is checked here"
        return [Check("menu", NOT_MADE, told)]
    expected = body.mechanism in WITH_MENU
    if not expected and body.menu is None:
        return []
    yes = f"{len(body.menu['cost']) if body.menu else 0} points, each bit of epsilon paid what it costs"
    no = "missing, too coarse, not paying what bits cost, or there although offers depended on others"
    return [judged("menu", expected and menu is not None, yes, no)]


def _priced(menu: Menu, k: int) -> bool:
    """Whether the price of the bit of epsilon below point ``k`` lies between the costs on its two sides."""
    more = Fraction(menu.epsilons[k]) - Fraction(menu.epsilons[k - 1])
    price = Fraction(menu.payments[k]) - Fraction(menu.payments[k - 1])
    low, high = Fraction(menu.costs[k]), Fraction(menu.costs[k - 1])
    slack = _TOLERANCE * Fraction(menu.payments[k])
    return more > 0 and low <= high and low * more - slack <= price <= high * more + slack


def is_fine(menu: Menu, room: Fraction) -> bool:
    """Whether between any two points no more than this share of the payment is left open.

    The payments of any menu through these points lie above the chord, and below the chords next to it, drawn
    on. A menu of few points would let a buyer pay a chord where the curve pays far more.
    """
    steps = range(1, len(menu.costs))
    widths = [Fraction(menu.epsilons[k]) - Fraction(menu.epsilons[k - 1]) for k in steps]
    rises = [Fraction(menu.payments[k]) - Fraction(menu.payments[k - 1]) for k in steps]
    inner = [rise / width for rise, width in zip(rises, widths, strict=True)]
    prices = [Fraction(menu.costs[0]), *inner, Fraction(menu.costs[-1])]
    return all(
        min(prices[k - 1] - prices[k], prices[k] - prices[k + 1]) * widths[k - 1]
        <= room * Fraction(menu.payments[k])
        for k in steps
    )
