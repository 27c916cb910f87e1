"""Draw privacy losses: claimed, bounded and found."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import Figure, new_figure
from dpmarket.figures.series import TableLike, series


def draw_privacy(table: TableLike) -> Figure:
    """Return one panel: the privacy loss of one weight against l2*eta."""
    figure, (axes,) = new_figure()
    x = table.number("product")
    for look, (name, label) in enumerate(
        (
            ("formula", "this library's bound"),
            ("paper", "paper: aη + 2 log(1 + k/(mΛ))"),
            ("found", "largest found (exact ratio)"),
            ("without_slack", "aη, the slack left out"),
        )
    ):
        series(axes, x, table.number(name), None, look, label)
    axes.axvline(2.0, color="0.3", linewidth=1.0, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("Λη (dotted: 2, from where there is no slack)")
    axes.set_ylabel("privacy loss ε of one record")
    axes.legend(fontsize=8)
    return figure


def draw_joint_privacy(table: TableLike) -> Figure:
    """Return one panel: exact loss against what fixed-weight formulas say, with weights from the records."""
    figure, (axes,) = new_figure()
    for look, people in enumerate(table.values_of("people")):
        mine = table.where(people=people)
        series(axes, mine.number("formula"), mine.number("exact"), None, look, f"{people:.0f} people")
    ends = np.array([0.0, max(float(table.number("exact").max()), float(table.number("formula").max()))])
    axes.plot(ends, ends, color="0.3", linewidth=1.0, linestyle=":", label="equal")
    axes.set_xlabel("loss by the formula for fixed weights (ε)")
    axes.set_ylabel("exact loss (ε)")
    axes.legend()
    return figure
