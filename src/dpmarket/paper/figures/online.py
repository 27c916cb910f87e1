"""Draw Fig. 3: online and offline loss, and the competitive ratio, against the number of sellers."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import Axes, Figure
from dpmarket.paper.figures.series import TableLike, backdrop, series, span
from dpmarket.paper.figures.sheet import new_sheet

_BUYERS = (
    ("literal", "online, Algorithm 3 as printed"),
    ("population", "online, population curve"),
    ("adaptive", "online, adaptive"),
)


def draw_online(table: TableLike) -> Figure:
    """Return four panels: loss and ratio on U[1, 5], then on U[0, 1]; bands are two standard errors."""
    config = table.configuration
    lows = table.values_of("low")
    shown = float(config["shown_payment_weight"])
    setup = (
        f"m = {span(config['sellers'], ',.0f')} sellers, no cap k, {config['draws']} draws of costs, "
        f"μ = σ = 1, γ = {span(config['payment_weights'], '.0e')}: only μ²/(σγ) matters; left: "
        f"μ²/(σγ) = {1.0 / shown:,.0f}; f(0) read as the density at the lower end where it is 0; "
        "bands: two standard errors"
    )
    figure, axes = new_sheet(
        "Paper Fig. 3: online against offline (a), and the competitive ratio (b)", setup, 2 * len(lows)
    )
    for k, low in enumerate(lows):
        part = table.where(low=low)
        name = f"costs U[{low:g}, {part.number('high')[0]:g}]"
        _losses(axes[2 * k], part.where(payment_weight=shown))
        _ratios(axes[2 * k + 1], part)
        axes[2 * k].set_title(f"(a) {name}", fontsize=10)
        axes[2 * k + 1].set_title(f"(b) {name}", fontsize=10)
    return figure


def _losses(axes: Axes, part: TableLike) -> None:
    offline = part.where(buyer="offline")
    m, loss = offline.number("sellers"), offline.number("loss")
    backdrop(axes, m, loss, "offline (Algorithm 2)")
    for look, (buyer, label) in enumerate(_BUYERS):
        mine = part.where(buyer=buyer)
        series(
            axes,
            mine.number("sellers"),
            mine.number("loss"),
            mine.number("loss_se"),
            look,
            label,
            marked=buyer == "literal",
        )
    axes.plot(
        m, loss[-1] * (m / m[-1]) ** -0.25, color="0.3", linestyle=":", linewidth=1.0, label="slope −1/4"
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("number of sellers m")
    axes.set_ylabel("proxy loss (units of error)")
    axes.legend(fontsize=8)


def _ratios(axes: Axes, part: TableLike) -> None:
    stopped = False
    for look, scale in enumerate(sorted(part.values_of("scale"))):
        mine = part.where(scale=scale, buyer="literal")
        label = f"Algorithm 3, μ²/(σγ) = {scale:,.0f}"
        m, ratio = mine.number("sellers"), mine.number("ratio")
        series(axes, m, ratio, mine.number("ratio_se"), look, label)
        stops = mine.number("nobody") == 1.0
        if stops.any():
            last = int(np.flatnonzero(~stops)[-1])
            axes.plot(m[last], ratio[last], marker="x", markersize=11, color="0.2", zorder=4)
            stopped = True
    if stopped:
        axes.plot([], [], marker="x", markersize=9, linestyle="none", color="0.2", label="then from nobody")
    axes.axhline(1.0, color="0.72", linewidth=5.0, label="offline", zorder=1)
    axes.set_xscale("log")
    axes.set_ylim(0.9, 3.4)
    axes.set_xlabel("number of sellers m")
    axes.set_ylabel("loss / offline loss")
    axes.legend(fontsize=7, loc="upper right")
