"""What rules would buy before anybody is asked: their plan, and with half and double the budget."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket.campaign.log import canonical
from dpmarket.campaign.opening import opening_of
from dpmarket.campaign.rules.pricing import prospect_for, terms_of
from dpmarket.campaign.rules.rules_file import Rules, rules_from
from dpmarket.errors import DpmarketError
from dpmarket.web.pages.meaning import chance_of, epsilon_shown, right_guesses


@dataclass(frozen=True)
class Line:
    """What one budget buys.

    Attributes
    ----------
    name
        ``half``, ``this`` or ``double``.
    budget
        Whole minor units, rounded down.
    people
        From how many people it is expected to buy.
    error
        The error to expect of the model's training.
    """

    name: str
    budget: int
    people: int
    error: float


@dataclass(frozen=True)
class Planned:
    """A plan beside the form.

    Attributes
    ----------
    lines
        Half, this and double the budget; those that cannot be planned are left out.
    escrow, largest
        What must be set aside at the opening, and the largest payment, None offline; minor units.
    ceiling, guesses
        The largest promise, epsilon and right guesses of 100, rounded up.
    chance
        The number of which delta is one part, rounded down; None where there is no delta.
    problem, warning
        Why the campaign could not be opened like this, and why it should not be; or None.
    """

    lines: tuple[Line, ...]
    escrow: int
    largest: int | None
    ceiling: float
    guesses: int
    chance: int | None
    problem: str | None
    warning: str | None


def planned(rules: Rules) -> Planned:
    """Return what rules would buy."""
    return _planned(canonical(rules.to_data()))


def error_so_far(rules: Rules, people: int, epsilon: float) -> float | None:
    """Return the error to expect if nobody else came: of so many people, with so much epsilon in all.

    With even weights, which is the least; None for nobody.
    """
    if people == 0 or epsilon <= 0.0:
        return None
    terms = terms_of(rules)
    shares = terms.epsilon_cost.share(np.full(people, epsilon / people))
    total = float(shares.sum())
    return float(sum(terms.objective.errors(float(shares @ shares) / total**2, total)))


@functools.lru_cache(maxsize=32)
def _planned(text: str) -> Planned:
    rules = rules_from(text)
    lines = tuple(
        line
        for name, factor in (("half", 0.5), ("this", 1.0), ("double", 2.0))
        if (line := _line(rules, name, factor)) is not None
    )
    chance = chance_of(rules.objective.delta)
    try:
        opening = opening_of(rules)
    except DpmarketError as problem:
        return Planned(lines, 0, None, 0.0, 50, chance, str(problem), None)
    ceiling = opening.ceiling
    guesses = right_guesses(ceiling)
    largest, warning = opening.largest, opening.warning
    return Planned(lines, opening.escrow, largest, epsilon_shown(ceiling), guesses, chance, None, warning)


def _line(rules: Rules, name: str, factor: float) -> Line | None:
    budget, people = rules.objective.budget, rules.sellers.expected
    if budget is None or people is None:
        return None
    try:
        found = prospect_for(rules, people, factor * budget)
    except DpmarketError:
        return None
    minor = math.floor(Fraction(repr(factor * budget)) * rules.money.minor_units)
    return Line(name, minor, round(found.share_bought * people), found.error)
