"""Table in, matplotlib axes out: no computing here.

:mod:`~dpmarket.figures.canvas` makes empty figures in the project's style and saves them,
:mod:`~dpmarket.figures.inline` makes them part of a page; every other module draws one kind of picture on
axes that it is given.
"""

from dpmarket.figures.audits import (
    draw_gains,
    draw_promises,
)
from dpmarket.figures.canvas import (
    COLOURS,
    MARKERS,
    STYLES,
    Axes,
    Figure,
    new_figure,
    save,
)
from dpmarket.figures.inline import (
    inline_svg,
)
from dpmarket.figures.menu import (
    draw_choices,
    draw_menu,
)

__all__ = [
    "COLOURS",
    "MARKERS",
    "STYLES",
    "Axes",
    "Figure",
    "draw_choices",
    "draw_gains",
    "draw_menu",
    "draw_promises",
    "inline_svg",
    "new_figure",
    "save",
]
