"""Draw the rate of the proxy loss for several densities at 0, and how often the lemma's bound is exceeded."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import COLOURS, MARKERS, Figure
from dpmarket.paper.figures.series import TableLike, series, span
from dpmarket.paper.figures.sheet import new_sheet

SHAPES = {
    "power 0": "U[0, 1]",
    "wide": "U[0, 3]",
    "falling": "density e^(−c) on [0, 1]",
    "power 1": "density 2c",
    "power 2": "density 3c²",
}


def draw_rate(table: TableLike) -> Figure:
    """Return two panels: loss against sellers with the expected slopes, and excess against sellers."""
    config = table.configuration
    setup = (
        f"m = {span(config['sellers'], ',.0f')} sellers, no cap k, {config['draws']:,} draws of costs, "
        f"μ = σ = 1, γ = {span(config['payment_weights'], '.0e')}; left γ = "
        f"{config['payment_weights'][0]:.0e}, dotted: m^(−1/(2(n+2))) for a density like c^n; right: share "
        f"of draws above (1 + {config['margin']:g} m^(−{config['excess']:g})) × the lemma's leading term, "
        "bars: two standard errors"
    )
    figure, (left, right) = new_sheet(
        "Paper, lemma `thm: offline perf`: rate and probability", setup, 2, height=3.8
    )
    scale = table.values_of("scale")[0]
    for look, (shape, label) in enumerate(SHAPES.items()):
        mine = table.where(shape=shape, scale=scale)
        if not mine.number("sellers").size:
            continue
        m, loss = mine.number("sellers"), mine.number("loss")
        series(left, m, loss, mine.number("loss_se"), look, label)
        slope = -0.5 / (2.0 + mine.number("power")[0])
        left.plot(m, loss[-1] * (m / m[-1]) ** slope, color="0.4", linestyle=":", linewidth=1.0)
    look = 0
    for shape in ("power 0", "wide", "falling"):
        for scale in table.values_of("scale"):
            mine = table.where(shape=shape, scale=scale)
            share, m = mine.number("exceeding"), mine.number("sellers")
            right.errorbar(
                m * (1.0 + 0.04 * look),
                share,
                yerr=2.0 * np.sqrt(share * (1.0 - share) / config["draws"]),
                color=COLOURS[look],
                marker=MARKERS[look],
                markersize=4.0,
                linewidth=1.2,
                capsize=2,
                label=f"{SHAPES[shape]}, μ²/(σγ) = {scale:,.0f}",
            )
            look += 1
    left.set_yscale("log")
    left.set_ylabel("proxy loss (units of error)")
    right.set_ylabel("share of draws above the bound")
    right.set_ylim(0.0, 1.8)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("number of sellers m")
        axes.legend(fontsize=7)
    return figure
