"""Make empty figures in one style, and turn finished ones into files.

Series differ by colour, by line and by marker, so that nothing is lost in print or to a colour-blind reader.
The figures are made without a screen and without matplotlib's global state.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes as Axes  # the other modules take these names from here
from matplotlib.figure import Figure as Figure

from dpmarket.errors import InvalidInput
from dpmarket.files import write_bytes

# Okabe and Ito's colours that colour-blind readers can tell apart; yellow left out: too pale on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_FORMATS = (".svg", ".png", ".pdf")
LOOK: Any = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "dpmarket",
    "svg.fonttype": "none",
}


def new_figure(panels: int = 1, width: float = 4.8, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``panels`` axes side by side, each ``width`` by ``height`` inches.

    Nothing is shown, and nothing of matplotlib's global state is used or changed.

    Examples
    --------
    >>> figure, axes = new_figure(panels=2)
    >>> len(axes), figure.get_size_inches().tolist()
    (2, [9.6, 3.4])
    """
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(width * panels, height), layout="constrained")
        axes = [figure.add_subplot(1, panels, k + 1) for k in range(panels)]
    return figure, axes


def save(figure: Figure, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write ``figure`` to ``path``, whole or not at all, in the format of its ending: svg, png or pdf.

    The same figure gives the same bytes: no date is written.

    Raises
    ------
    InvalidInput
        Another ending.
    FileProblem
        The file exists and may not be overwritten, or cannot be written.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in _FORMATS:
        raise InvalidInput(f"expected a figure's file to end in {', '.join(_FORMATS)}, got {target.name!r}.")
    buffer = io.BytesIO()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}[ending]
    with matplotlib.rc_context(LOOK):
        figure.savefig(buffer, format=ending[1:], dpi=150, metadata=metadata)
    write_bytes(target, buffer.getvalue(), overwrite=overwrite)
    return target
