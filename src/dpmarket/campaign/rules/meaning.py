"""Epsilons and money as people read them.

Epsilon is shown as a probability, always rounded up: the highest chance of guessing a yes-or-no answer.
Somebody who knows everything else guesses it: 50% right without the result. With the result, an
(epsilon, delta) guarantee bounds the chance by ``(exp(epsilon) + delta) / (1 + exp(epsilon))``.

>>> guess_percent(0.0), guess_percent(0.473), guess_percent(0.473, 0.1), guess_percent(50.0)
(50, 62, 66, 100)
>>> epsilon_left(0.47399), epsilon_left(12.0), epsilon_shown(0.47301), epsilon_shown(0.0)
(0.473, 12.0, 0.474, 0.0)
>>> chance_of(1e-5), round(cost_of(1.0), 4), round(cost_of(1.0, "quadratic"), 4)
(100000, 2.4663, 6.0827)
>>> money_text(123456, 100, "EUR"), money_text(-5, 1000, ""), money_text(7, 1, "JPY")
('1,234.56 EUR', '-0.005', '7 JPY')
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

REFERENCE = 60  # percent: sellers are asked what they want for a chance that rises from 50% to this
_ERROR = 1e-12  # larger than what rounding of doubles takes away
_UP, _DOWN = (Context(prec=3, rounding=way) for way in (ROUND_CEILING, ROUND_FLOOR))


def guess_percent(epsilon: float, delta: float | None = None) -> int:
    """Return the highest chance of a right guess with the result, in percent, rounded up."""
    if epsilon <= 0.0:
        return 50
    other = math.exp(-epsilon)
    chance = (1.0 + (delta or 0.0) * other) / (1.0 + other)
    return min(math.ceil(100 * chance * (1.0 + _ERROR)), 100)


def epsilon_left(epsilon: float) -> float:
    """Return what is left of a limit with three digits, rounded down: never more than there is."""
    return float(_DOWN.create_decimal(repr(float(epsilon))))


def epsilon_shown(epsilon: float) -> float:
    """Return an epsilon with three digits, rounded up."""
    return float(_UP.create_decimal(repr(float(epsilon))))


def chance_of(delta: float | None) -> int | None:
    """Return the number of which delta is one part, rounded down; None where there is no delta."""
    if delta is None:
        return None
    return math.floor(1 / Fraction(repr(delta)))  # as it is written: 1 / 1e-5 is below 100,000 in floats


def cost_of(amount: float, shape: str = "linear") -> float:
    """Return the reported cost of a seller who wants an amount for a chance of 60% in place of 50%."""
    epsilon = math.log(REFERENCE / (100 - REFERENCE))
    return amount / (epsilon**2 if shape == "quadratic" else epsilon)


def money_text(amount: int, minor_units: int, currency: str) -> str:
    """Return an amount of whole minor units as text."""
    return f"{in_decimals(amount, minor_units):,f} {currency}".strip()


def in_decimals(amount: int, minor_units: int) -> Decimal:
    """Return an amount of whole minor units in money, with all its decimals."""
    return Decimal(int(amount)).scaleb(1 - len(str(minor_units)))
