"""Turn an epsilon into what it means for the person who was promised it.

Whatever an attacker believed about somebody's record before the model was published, and whatever else they
know: a promise of epsilon bounds how far the model can move that belief. The odds of any guess change by a
factor of at most ``exp(epsilon)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpmarket import checks

GUESSES = (0.01, 0.1, 0.5)


@dataclass(frozen=True)
class Meaning:
    """What one epsilon allows: by what factor the odds of a guess grow at most, and what becomes of guesses.

    ``guesses`` says how likely those that were 1%, 10% and 50% likely before are at most after.
    """

    who: str
    epsilon: float
    odds_factor: float
    guesses: tuple[float, ...]


def meaning(who: str, epsilon: float) -> Meaning:
    """Say what a promise allows.

    Examples
    --------
    >>> round(meaning("somebody", 1.0).guesses[2], 3)
    0.731
    """
    epsilon = checks.non_negative("epsilon", epsilon)
    return Meaning(who, epsilon, math.exp(epsilon), tuple(guess_after(before, epsilon) for before in GUESSES))


def guess_after(before: float, epsilon: float) -> float:
    """Return how likely a guess is at most after the model was seen, if it was ``before`` likely.

    With odds ``p / (1 - p)`` multiplied by ``exp(epsilon)``.

    Examples
    --------
    >>> guess_after(0.5, 0.0), guess_after(1.0, 3.0)
    (0.5, 1.0)
    """
    return before / (before + (1.0 - before) * math.exp(-epsilon))
