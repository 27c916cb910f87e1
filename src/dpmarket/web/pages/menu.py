"""A campaign's menu as about twelve choices that a page shows, made once for each menu and language."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpmarket.campaign.rules.meaning import epsilon_shown, guess_percent
from dpmarket.campaign.views import MenuLine
from dpmarket.web.pages.texts import Texts

STEPS = 11
"""Paid choices of the slider; one more shares nothing."""


@dataclass(frozen=True)
class Choice:
    """One position of the slider."""

    number: int
    cost: float
    payment: str
    epsilon: str
    percent: int


@dataclass(frozen=True)
class Choices:
    """All positions of the slider, and what its script needs to show them."""

    all: tuple[Choice, ...]
    payments: str
    epsilons: str
    percents: str
    rows: Markup

    def at(self, number: int) -> Choice:
        """Return a position, or the nearest there is."""
        return self.all[min(max(number, 0), len(self.all) - 1)]


_ROW = Markup(
    '<tr><th scope="row"><a href="?line={number}">{payment}</a></th>'
    "<td>{percent}%</td><td>{epsilon}</td></tr>"
)


@functools.lru_cache(maxsize=64)
def choices_of(
    lines: tuple[MenuLine, ...], texts: Texts, money: tuple[int, str], delta: float | None
) -> Choices:
    """Return a menu's choices, the most private first; lines without a payment are left out."""
    minor_units, currency = money
    paid = sorted((line for line in lines if line.payment > 0), key=lambda line: line.epsilon)
    nothing = MenuLine(float("inf"), 0.0, 0)
    made = tuple(
        Choice(
            number,
            line.cost,
            texts.money(line.payment, minor_units, currency),
            texts.number(epsilon_shown(line.epsilon)),
            guess_percent(line.epsilon, delta),
        )
        for number, line in enumerate([nothing, *steps_of(paid)])
    )
    return Choices(
        made,
        "|".join(choice.payment for choice in made),
        "|".join(choice.epsilon for choice in made),
        "|".join(str(choice.percent) for choice in made),
        Markup("\n").join(_ROW.format(**vars(choice)) for choice in made),
    )


def steps_of(paid: Sequence[MenuLine]) -> list[MenuLine]:
    """Return few lines of a menu, in its order, whose payments are spread evenly, both ends included.

    Fewer lines to choose from keep a truthful choice the best one: each is a quote of the same schedule.

    Examples
    --------
    >>> lines = [MenuLine(100.0 - k, k, k * k) for k in range(1, 50)]
    >>> [line.payment for line in steps_of(lines)][:4], len(steps_of(lines))
    ([1, 256, 484, 729], 11)
    """
    if len(paid) <= STEPS:
        return list(paid)
    least, most = paid[0].payment, paid[-1].payment
    wanted = [least + (most - least) * step / (STEPS - 1) for step in range(STEPS)]
    nearest = [min(range(len(paid)), key=lambda k: abs(paid[k].payment - one)) for one in wanted]
    return [paid[k] for k in sorted(set(nearest))]
