"""Make the empty sheet of a paper's figure: its number, its panels at most two wide, its set-up below."""

from __future__ import annotations

import math
import re

from dpmarket.figures.canvas import Axes, Figure, new_figure

_COLUMNS = 2
_WORDS = 3.0  # inches that a title needs at least


def new_sheet(
    title: str, setup: str, panels: int = 1, width: float = 4.8, height: float = 3.4
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title above, ``panels`` axes in rows of two, and a line with the set-up below.

    What stands between backticks in the title, a label of the paper, is quoted in the figure.

    Examples
    --------
    >>> figure, axes = new_sheet("Paper Fig. 2: error and payments", "m = 341 sellers", panels=3)
    >>> len(axes), figure.get_size_inches().tolist()
    (3, [9.6, 7.5])
    >>> figure.get_suptitle()
    'Paper Fig. 2: error and payments'
    >>> new_sheet("Paper, lemma `mech design`", "m = 3")[0].get_suptitle()
    'Paper, lemma “mech design”'
    """
    figure, axes = new_figure(panels=panels)
    columns = min(panels, _COLUMNS)
    rows = math.ceil(panels / columns)
    grid = figure.add_gridspec(rows, columns)
    for k, one in enumerate(axes):
        one.set_subplotspec(grid[k // columns, k % columns])
    figure.set_size_inches(max(width * columns, _WORDS), height * rows + 0.7)
    title = re.sub("`([^`]*)`", r"“\1”", title)
    figure.suptitle(_wrapped(title, round(width * columns * 11.0)), fontsize=11)
    figure.supxlabel(_wrapped(setup, round(width * columns * 15.0)), fontsize=8, color="0.25")
    return figure, axes


def _wrapped(text: str, longest: int) -> str:
    """Return the text in lines that are no longer than this many letters."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > longest:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])
