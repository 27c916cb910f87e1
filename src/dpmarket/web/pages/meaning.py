"""Turn an epsilon into a number of people that everybody can picture; always rounded up, against us.

Of 100 strangers who guess a yes-or-no answer by a coin, 50 are right. A promise of epsilon multiplies the
odds of any guess by at most ``exp(epsilon)``: after reading the model at most
``100 / (1 + exp(-epsilon))`` are.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpmarket.report.promise import guess_after

STRANGERS = 100
REFERENCE = 60
"""Who says what their privacy is worth is asked about this many right guesses in place of 50."""
_ERROR = 1e-12  # larger than what rounding of doubles takes away


def right_guesses(epsilon: float) -> int:
    """Return how many of 100 strangers are right at most after reading the model, rounded up.

    Examples
    --------
    >>> right_guesses(0.0), right_guesses(0.473), right_guesses(50.0)
    (50, 62, 100)
    """
    if epsilon <= 0.0:
        return STRANGERS // 2
    return min(math.ceil(STRANGERS * guess_after(0.5, epsilon) * (1.0 + _ERROR)), STRANGERS)


def epsilon_left(epsilon: float) -> float:
    """Return what is left of a limit with three digits, rounded down: never more than there is.

    Examples
    --------
    >>> epsilon_left(0.47399), epsilon_left(12.0), epsilon_left(0.0)
    (0.473, 12.0, 0.0)
    """
    if epsilon <= 0.0:
        return 0.0
    place = 2 - math.floor(math.log10(epsilon))
    shown = round(math.floor(epsilon * 10.0**place) / 10.0**place, max(place, 0))
    return shown if shown <= epsilon else round(shown - 10.0**-place, max(place, 0))


def epsilon_shown(epsilon: float) -> float:
    """Return an epsilon with three digits, rounded up.

    Examples
    --------
    >>> epsilon_shown(0.47301), epsilon_shown(12.0), epsilon_shown(0.0)
    (0.474, 12.0, 0.0)
    """
    if epsilon <= 0.0:
        return 0.0
    place = 2 - math.floor(math.log10(epsilon))
    shown = round(math.ceil(epsilon * 10.0**place) / 10.0**place, max(place, 0))
    return shown if shown >= epsilon else round(shown + 10.0**-place, max(place, 0))


def chance_of(delta: float | None) -> int | None:
    """Return the number of which delta is one part, rounded down; None where there is no delta.

    Examples
    --------
    >>> chance_of(1e-5), chance_of(None)
    (100000, None)
    """
    if delta is None:
        return None
    return math.floor(1 / Fraction(repr(delta)))  # as it is written: 1 / 1e-5 is below 100,000 in floats


def cost_of(amount: float) -> float:
    """Return the cost per unit of epsilon of who wants an amount for 60 right guesses in place of 50.

    Examples
    --------
    >>> round(cost_of(1.0), 4)
    2.4663
    """
    share = REFERENCE / STRANGERS
    return amount / math.log(share / (1.0 - share))
