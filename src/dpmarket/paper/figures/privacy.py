"""Draw privacy losses: claimed, bounded and found."""

from __future__ import annotations

from dpmarket.figures.canvas import Figure, new_figure
from dpmarket.paper.figures.series import TableLike, series


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
    """Return one panel per number of people: exact loss, and formulas for fixed weights, against μ."""
    counts = table.values_of("people")
    figure, panels = new_figure(panels=len(counts), width=3.8)
    for axes, people in zip(panels, counts, strict=True):
        mine = table.where(people=people)
        x = mine.number("concentration")
        series(axes, x, mine.number("exact"), None, 0, "exact loss")
        series(axes, x, mine.number("paper"), None, 1, "Proposition 1")
        series(axes, x, mine.number("formula"), None, 2, "tight formula")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("price of uneven weights μ")
        axes.set_ylabel("privacy loss ε of one record")
        axes.set_title(f"{people:.0f} people", fontsize=10)
    panels[0].legend(fontsize=8)
    return figure
