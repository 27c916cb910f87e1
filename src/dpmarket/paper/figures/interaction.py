"""Draw Fig. 1: who tells whom what, in which order."""

from __future__ import annotations

from dpmarket.figures.canvas import COLOURS, Figure
from dpmarket.paper.figures.series import TableLike
from dpmarket.paper.figures.sheet import new_sheet

_PLACES = {"sellers": 0.0, "platform": 1.0, "public": 1.75}
_NAMES = {"sellers": "sellers", "platform": "platform (buyer)", "public": "public"}


def draw_interaction(table: TableLike) -> Figure:
    """Return one panel: a life line for each party, an arrow for each message, time downwards."""
    steps = table.where(mechanism="steps")
    config = table.configuration
    setup = (
        f"m = {len(config['costs'])} sellers with costs {', '.join(f'{c:g}' for c in config['costs'])} from "
        "U[1, 5], μ = σ = 1, γ = 0.05, no cap k; numbers of one run of Algorithm 2"
    )
    figure, (axes,) = new_sheet("Paper Fig. 1: interaction between sellers and platform", setup, width=7.0)
    last = float(steps.number("step").max())
    for party, x in _PLACES.items():
        axes.plot([x, x], [0.35, last + 0.6], color="0.75", linewidth=2.0, zorder=1)
        axes.text(
            x,
            0.2,
            _NAMES[party],
            ha="center",
            va="bottom",
            fontsize=10,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": COLOURS[0]},
        )
    for k, step in enumerate(steps.number("step").tolist()):
        start, end = (_PLACES[steps.text(name)[k]] for name in ("sender", "receiver"))
        axes.annotate(
            "",
            xy=(end, step),
            xytext=(start, step),
            arrowprops={"arrowstyle": "-|>", "color": COLOURS[0], "linewidth": 1.6},
        )
        middle = 0.5 * (start + end)
        axes.text(
            middle,
            step - 0.08,
            f"{step:.0f}. {steps.text('message')[k]}",
            ha="center",
            va="bottom",
            fontsize=8,
        )
        axes.text(
            middle, step + 0.08, steps.text("detail")[k], ha="center", va="top", fontsize=8, color="0.35"
        )
    axes.set_xlim(-0.25, 2.0)
    axes.set_ylim(last + 0.7, -0.3)
    axes.set_axis_off()
    return figure
