"""Table in, matplotlib axes out: no computing here.

:mod:`~dpmarket.figures.canvas` makes empty figures in the project's style and saves them; every other module
draws one kind of picture on axes that it is given.
"""

from dpmarket.figures.canvas import (
    COLOURS,
    MARKERS,
    STYLES,
    Axes,
    Figure,
    new_figure,
    save,
)

__all__ = [
    "COLOURS",
    "MARKERS",
    "STYLES",
    "Axes",
    "Figure",
    "new_figure",
    "save",
]
