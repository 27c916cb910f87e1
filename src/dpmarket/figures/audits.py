"""Draw audits: the gain of lying against the lie, and what was shown of each promise against the promise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from dpmarket.figures.canvas import COLOURS, MARKERS, STYLES


def draw_gains(
    axes: Axes, distances: Sequence[float], largest: Sequence[float], mean: Sequence[float]
) -> None:
    """Draw the largest and the mean gain of lying against how far the lie is from the truth.

    Parameters
    ----------
    axes
        Where to draw.
    distances
        Report less cost, as a share of the support.
    largest, mean
        Gains relative to the money in play; a truthful mechanism stays at or below 0.
    """
    axes.axhline(0.0, color=COLOURS[6], linewidth=0.8)
    axes.plot(
        distances, largest, STYLES[0], color=COLOURS[0], marker=MARKERS[0], markersize=3, label="largest"
    )
    axes.plot(distances, mean, STYLES[1], color=COLOURS[1], marker=MARKERS[1], markersize=3, label="mean")
    axes.set_xlabel("report less true cost, share of the support")
    axes.set_ylabel("gain / money in play")
    axes.legend()


def draw_promises(
    axes: Axes, promises: Sequence[float], series: Sequence[tuple[str, Sequence[float]]]
) -> None:
    """Draw what was shown of each person's epsilon against what was promised; on the line is all of it.

    Parameters
    ----------
    axes
        Where to draw.
    promises
        Promises of the audited people (epsilon).
    series
        Ways of looking: a name, and the epsilon shown for each of the people.
    """
    top = 1.05 * max([*promises, *(value for _, values in series for value in values if np.isfinite(value))])
    axes.plot([0.0, top], [0.0, top], color=COLOURS[6], linewidth=0.8, label="the promise")
    for k, (name, values) in enumerate(series):
        axes.plot(promises, values, MARKERS[k], color=COLOURS[k], linestyle="none", label=name)
    axes.set_xlabel("promised epsilon")
    axes.set_ylabel("epsilon shown by the audit")
    axes.legend()
