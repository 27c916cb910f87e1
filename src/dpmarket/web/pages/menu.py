"""A campaign's menu as choices that a page shows, made once for each menu and language."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from markupsafe import Markup

from dpmarket.campaign.views import MenuLine
from dpmarket.web.pages.meaning import epsilon_shown, right_guesses
from dpmarket.web.pages.texts import Texts


@dataclass(frozen=True)
class Choice:
    """One position of the slider.

    Attributes
    ----------
    number
        From 1, the most private, to the best paid.
    cost
        What naming it is the same as choosing this.
    payment, epsilon
        As the page writes them: the payment exactly, epsilon rounded up.
    guesses
        How many of 100 strangers are right at most, rounded up.
    """

    number: int
    cost: float
    payment: str
    epsilon: str
    guesses: int


@dataclass(frozen=True)
class Choices:
    """All positions of the slider, and what its script needs to show them.

    Attributes
    ----------
    all
        In their order.
    payments, epsilons, guesses
        The same as texts with bars between them.
    rows
        The same as rows of a table.
    """

    all: tuple[Choice, ...]
    payments: str
    epsilons: str
    guesses: str
    rows: Markup

    def at(self, number: int) -> Choice:
        """Return a position, or the nearest there is."""
        return self.all[min(max(number, 1), len(self.all)) - 1]


_ROW = Markup(
    '<tr><th scope="row"><a href="?line={number}">{number}</a></th>'
    "<td>{payment}</td><td>{guesses}</td><td>{epsilon}</td></tr>"
)


@functools.lru_cache(maxsize=64)
def choices_of(lines: tuple[MenuLine, ...], texts: Texts, money: tuple[int, str]) -> Choices:
    """Return a menu's choices, the most private first; lines without a payment are none.

    Parameters
    ----------
    lines
        The menu.
    texts
        The reader's language.
    money
        Minor units, and the currency.
    """
    minor_units, currency = money
    paid = sorted((line for line in lines if line.payment > 0), key=lambda line: line.epsilon)
    made = tuple(
        Choice(
            number,
            line.cost,
            texts.money(line.payment, minor_units, currency),
            texts.number(epsilon_shown(line.epsilon)),
            right_guesses(line.epsilon),
        )
        for number, line in enumerate(paid, 1)
    )
    return Choices(
        made,
        "|".join(choice.payment for choice in made),
        "|".join(choice.epsilon for choice in made),
        "|".join(str(choice.guesses) for choice in made),
        Markup("\n").join(_ROW.format(**vars(choice)) for choice in made),
    )
