"""Say what a market file would buy before anybody is asked: its plan, and with half and double the budget."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpmarket.campaign.market_file import Market
from dpmarket.campaign.terms import error_of, prospect_for
from dpmarket.errors import DpmarketError
from dpmarket.market import plan_opening
from dpmarket.market.opening import market_of, market_text
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
    problem
        Why the campaign could not be opened like this, or None.
    """

    lines: tuple[Line, ...]
    escrow: int
    largest: int | None
    ceiling: float
    guesses: int
    chance: int | None
    problem: str | None


def planned(market: Market, mechanism: str) -> Planned:
    """Return what a market file would buy."""
    return _planned(market_text(market), mechanism)


def error_so_far(market: Market, people: int, promised: float) -> float | None:
    """Return the error to expect if nobody else came: of so many people, with so much promised in all.

    With even weights, which is the least; None for nobody.
    """
    if people == 0 or promised <= 0.0:
        return None
    return error_of(market, np.full(people, promised / people))


@functools.lru_cache(maxsize=32)
def _planned(text: str, mechanism: str) -> Planned:
    market = market_of(text)
    lines = tuple(
        line
        for name, factor in (("half", 0.5), ("this", 1.0), ("double", 2.0))
        if (line := _line(market, name, factor)) is not None
    )
    chance = chance_of(market.objective.delta)
    try:
        opening = plan_opening(market, mechanism)
    except DpmarketError as problem:
        return Planned(lines, 0, None, 0.0, 50, chance, str(problem))
    ceiling = opening.ceiling
    return Planned(
        lines,
        opening.escrow,
        opening.largest_payment,
        epsilon_shown(ceiling),
        right_guesses(ceiling),
        chance,
        None,
    )


def _line(market: Market, name: str, factor: float) -> Line | None:
    budget, people = market.objective.budget, market.sellers.expected
    if budget is None or people is None:
        return None
    try:
        found = prospect_for(market, people, factor * budget)
    except DpmarketError:
        return None
    minor = math.floor(Fraction(repr(factor * budget)) * market.money.minor_units)
    return Line(name, minor, round(found.share_bought * people), found.error)
