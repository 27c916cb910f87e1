"""Draw Fig. 3: online and offline loss, and the competitive ratio, against the number of sellers."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import Figure, new_figure
from dpmarket.paper.figures.series import TableLike, level, series

_BUYERS = (
    ("offline", "offline optimum"),
    ("literal", "online, Algorithm 3 literally"),
    ("population", "online, population curve"),
    ("adaptive", "online, adaptive"),
)


def draw_online(table: TableLike) -> Figure:
    """Return four panels: loss and ratio on U[1, 5], then on U[0, 1]; bands are two standard errors."""
    lows = table.values_of("low")
    figure, axes = new_figure(panels=2 * len(lows), width=3.7, height=3.7)
    for k, low in enumerate(lows):
        part = table.where(low=low)
        name = f"U[{low:g}, {part.number('high')[0]:g}]"
        losses, ratios = axes[2 * k], axes[2 * k + 1]
        for look, (buyer, label) in enumerate(_BUYERS):
            mine = part.where(buyer=buyer)
            m = mine.number("sellers")
            series(losses, m, mine.number("loss"), mine.number("loss_se"), look, label)
            if buyer != "offline":
                series(ratios, m, mine.number("ratio"), mine.number("ratio_se"), look, label)
        offline = part.where(buyer="offline")
        m, loss = offline.number("sellers"), offline.number("loss")
        guide = loss[0] * (m / m[0]) ** -0.25
        losses.plot(m, guide, color="0.4", linestyle=":", linewidth=1.0, label="slope −1/4")
        level(ratios, 1.0, 6, "offline optimum")
        literal = part.where(buyer="literal")
        if bool((literal.number("nobody") == 1.0).any()):
            bought = np.flatnonzero(np.isfinite(literal.number("loss")))
            last = int(bought[literal.number("sellers")[bought].argmax()])
            losses.annotate(
                "beyond: buys\nfrom nobody",
                (literal.number("sellers")[last], literal.number("loss")[last]),
                xytext=(8, -16),
                textcoords="offset points",
                fontsize=8,
            )
        losses.set_yscale("log")
        for panel, what in ((losses, "proxy loss (units of error)"), (ratios, "loss / offline loss")):
            panel.set_xscale("log")
            panel.set_xlabel("number of sellers m")
            panel.set_ylabel(what)
            panel.set_title(f"costs {name}", fontsize=10)
        finite = ratios.get_lines()
        tops = [np.nanmax(np.asarray(line.get_ydata(), dtype=float)) for line in finite]
        ratios.set_ylim(0.98, min(max(tops) * 1.03, 2.0))
    axes[0].legend(fontsize=8)
    axes[1].legend(fontsize=8)
    return figure
