"""Draw audits: what was shown of each person's epsilon against what was promised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from dpmarket.figures.canvas import COLOURS, MARKERS


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
