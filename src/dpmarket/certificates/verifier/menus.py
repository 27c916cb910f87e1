r"""Check that an offer is on a public menu: then it was worth taking to whoever it was made for.

A menu that was fixed before anybody came has points of cost, epsilon and payment, from (0, 0) upwards. It is
one that nobody can gain from by lying if payments rise with epsilon by a slope that falls, and that is the
cost of who picks the point: the next bit of epsilon is paid what it costs them, and all bits before it more.
Whoever has that cost is then paid at least cost times epsilon. Between two points the payment lies above
their chord, and below both tangents; fractions make these comparisons exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .constants import LARGEST_NUMBER
from .layout import Body
from .verdicts import Check, judged

WITH_MENU = ("online", "posted price", "same for all")
"""Mechanisms that offer everybody the same choices, whatever others report."""
_TOLERANCE = Fraction(1, 10**9)
_BEYOND = Fraction(1, 10**8)


class Menu:
    """A menu that begins with nothing, and pays every bit of epsilon what it costs."""

    def __init__(self, costs: Sequence[float], epsilons: Sequence[float], payments: Sequence[float]) -> None:
        self.costs, self.epsilons, self.payments = costs, epsilons, payments
        self.slack = _TOLERANCE * Fraction(payments[-1])

    def has(self, promise: float, payment: float, minor_units: int | None) -> bool:
        """Whether it offers this, rounded up by at most the smallest unit of money: by exact comparison."""
        unit = Fraction(1, minor_units) if minor_units else Fraction(0)
        paid = Fraction(payment) * (unit or 1)
        if promise == 0.0:
            return paid == 0
        e, last = Fraction(promise), Fraction(self.epsilons[-1])
        if e > last * (1 + _BEYOND):
            return False
        k = min(bisect_right(self.epsilons, promise), len(self.epsilons) - 1)
        left, right = Fraction(self.epsilons[k - 1]), Fraction(self.epsilons[k])
        before, after = Fraction(self.payments[k - 1]), Fraction(self.payments[k])
        chord = before + (after - before) * (min(e, last) - left) / (right - left)
        highest = min(
            before + Fraction(self.costs[k - 1]) * (e - left), after - Fraction(self.costs[k]) * (right - e)
        )
        return chord - self.slack <= paid <= highest + unit + self.slack

    def lacks(self, promises: Any, payments: Any, minor_units: int | None) -> int:
        """Return how many of many offers it does not have: by floats what is clear, by fractions the rest."""
        x, y, c = (np.array(column) for column in (self.epsilons, self.payments, self.costs))
        unit = 1.0 / minor_units if minor_units else 0.0
        paid = payments * (unit or 1.0)
        k = np.minimum(np.searchsorted(x, promises, side="right"), x.size - 1)
        chord = np.interp(promises, x, y)
        highest = np.minimum(y[k - 1] + c[k - 1] * (promises - x[k - 1]), y[k] - c[k] * (x[k] - promises))
        half = float(self.slack) / 2.0
        clear = (
            (promises > 0.0) & (promises <= x[-1]) & (chord - half <= paid) & (paid <= highest + unit + half)
        )
        left = zip(promises[~clear].tolist(), payments[~clear].tolist(), strict=True)
        return sum(not self.has(*offer, minor_units) for offer in left)


def menu_of(body: Body) -> Menu | None:
    """Return a certificate's menu, if it has one that is sound."""
    if body.menu is None:
        return None
    columns: list[list[Any]] = [body.menu[name] for name in ("cost", "epsilon", "payment")]
    numbers = (
        type(value) is float and 0.0 <= value <= LARGEST_NUMBER for column in columns for value in column
    )
    if len({len(column) for column in columns}) != 1 or len(columns[0]) < 2 or not all(numbers):
        return None
    menu = Menu(*columns)
    starts = menu.epsilons[0] == menu.payments[0] == 0.0
    return menu if starts and all(_priced(menu, k) for k in range(1, len(menu.costs))) else None


def menu_checks(body: Body, menu: Menu | None) -> list[Check]:
    """Check that there is a sound menu where there must be one, and none where offers depended on others."""
    expected = body.version > 1 and body.mechanism in WITH_MENU
    if not expected and body.menu is None:
        return []
    yes = f"{len(body.menu['cost']) if body.menu else 0} points, each bit of epsilon paid what it costs"
    no = "missing, its payments do not follow from its costs, or there although offers depended on others"
    return [judged("menu", expected and menu is not None, yes, no)]


def _priced(menu: Menu, k: int) -> bool:
    """Whether the price of the bit of epsilon below point ``k`` lies between the costs on its two sides."""
    more = Fraction(menu.epsilons[k]) - Fraction(menu.epsilons[k - 1])
    price = Fraction(menu.payments[k]) - Fraction(menu.payments[k - 1])
    low, high = Fraction(menu.costs[k]), Fraction(menu.costs[k - 1])
    return more > 0 and low <= high and low * more - menu.slack <= price <= high * more + menu.slack
