"""Draw one series on given axes: a line with markers and a band of two standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np

from dpmarket.arrays import FloatArray
from dpmarket.figures.canvas import COLOURS, MARKERS, STYLES, Axes


class TableLike(Protocol):
    """Columns by name with the settings that they were made with, as the experiments' tables have them."""

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The experiment's settings."""
        ...

    def number(self, name: str) -> FloatArray:
        """Return a column of numbers."""
        ...

    def text(self, name: str) -> tuple[str, ...]:
        """Return a column of texts."""
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
    *,
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


def backdrop(axes: Axes, x: FloatArray, y: FloatArray, label: str) -> None:
    """Draw a broad grey line that stays visible when another one lies on it."""
    order = np.argsort(x, kind="stable")
    axes.plot(x[order], y[order], color="0.72", linewidth=7.0, solid_capstyle="round", label=label, zorder=1)


def level(axes: Axes, value: float, look: int, label: str) -> None:
    """Draw a horizontal line."""
    kind = look % len(COLOURS)
    axes.axhline(value, color=COLOURS[kind], linestyle=STYLES[kind], linewidth=1.4, label=label)


def span(values: object, form: str = "g") -> str:
    """Return the first and the last of some numbers, and how many there are, for a line about a grid.

    Examples
    --------
    >>> span((1.0, 10.0, 100.0)), span([5.0])
    ('1 … 100 (3)', '5')
    """
    numbers = np.ravel(np.asarray(values, dtype=float)).tolist()
    if len(numbers) == 1:
        return f"{numbers[0]:{form}}"
    return f"{numbers[0]:{form}} … {numbers[-1]:{form}} ({len(numbers)})"
