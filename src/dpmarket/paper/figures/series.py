"""Draw one series on given axes: a line with markers and a band of two standard errors."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.figures.canvas import COLOURS, MARKERS, STYLES, Axes


class TableLike(Protocol):
    """Columns by name, as the experiments' tables have them."""

    def number(self, name: str) -> FloatArray:
        """Return a column of numbers."""
        ...

    def values_of(self, name: str) -> list[Any]:
        """Return the different values of a column."""
        ...

    def where(self, **wanted: object) -> Self:
        """Return the rows whose columns have these values."""
        ...

    def means_by(self, by: str, *names: str) -> tuple[FloatArray, dict[str, tuple[FloatArray, FloatArray]]]:
        """Return the values of a column, and means and standard errors of others over the rows of each."""
        ...


def series(
    axes: Axes,
    x: FloatArray,
    y: FloatArray,
    error: FloatArray | None,
    look: int,
    label: str,
    marked: bool = True,
) -> None:
    """Draw a line in the ``look``-th colour, style and marker, with a band of two standard errors."""
    order = np.argsort(x, kind="stable")
    kind = look % len(COLOURS)
    axes.plot(
        x[order],
        y[order],
        color=COLOURS[kind],
        linestyle=STYLES[kind],
        marker=MARKERS[kind] if marked else None,
        markersize=4.5,
        linewidth=1.6,
        label=label,
    )
    if error is not None:
        wide = 2.0 * error[order]
        axes.fill_between(
            x[order], y[order] - wide, y[order] + wide, color=COLOURS[kind], alpha=0.18, linewidth=0
        )


def level(axes: Axes, value: float, look: int, label: str) -> None:
    """Draw a horizontal line."""
    kind = look % len(COLOURS)
    axes.axhline(value, color=COLOURS[kind], linestyle=STYLES[kind], linewidth=1.4, label=label)
