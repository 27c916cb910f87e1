"""What rules would buy before anybody is asked: their plan, and with half and double the budget."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket.campaign.campaigns import Opening
from dpmarket.campaign.log import canonical
from dpmarket.campaign.opening import opening_of
from dpmarket.campaign.rules.pricing import expected_error, guessing_error, prospect_for, terms_of
from dpmarket.campaign.rules.rules_file import Rules, rules_from
from dpmarket.errors import DpmarketError


@dataclass(frozen=True)
class Line:
    """What one budget buys."""

    name: str
    budget: int
    people: int
    error: float


@dataclass(frozen=True)
class Planned:
    """A plan beside the form."""

    lines: tuple[Line, ...]
    opening: Opening | None = None
    share: float | None = None
    problem: str | None = None


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
    try:
        return Planned(lines, opening_of(rules), _share_of_guessing(rules))
    except DpmarketError as problem:
        return Planned(lines, problem=str(problem))


def _share_of_guessing(rules: Rules) -> float | None:
    try:
        error = expected_error(rules)
    except DpmarketError:
        return None
    return None if error is None or math.isinf(error) else 100.0 * error / guessing_error(rules)


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
