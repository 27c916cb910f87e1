"""Draw the hundred strangers as dots, once for each number of right guesses."""

from __future__ import annotations

import functools

from markupsafe import Markup

from dpmarket.web.pages.meaning import STRANGERS

_COLUMNS, _STEP, _RADIUS = 20, 20, 7


@functools.cache
def circles(guesses: int) -> Markup:
    """Return 100 circles: 50 right by a coin, those that the model may add, and the rest.

    Examples
    --------
    >>> circles(62).count("coin"), circles(62).count("more"), circles(62).count("circle")
    (50, 12, 100)
    """
    made = []
    for place in range(STRANGERS):
        row, column = divmod(place, _COLUMNS)
        kind = ' class="coin"' if place < STRANGERS // 2 else ' class="more"' if place < guesses else ""
        x, y = _STEP * column + _STEP // 2, _STEP * row + _STEP // 2 + 2
        made.append(f'<circle cx="{x}" cy="{y}" r="{_RADIUS}"{kind}/>')
    return Markup("\n".join(made))  # nosec B704: numbers only, all from here
