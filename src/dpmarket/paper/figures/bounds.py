"""Draw the error bound where it has little room, and the budget for a given excess risk."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import COLOURS, Figure
from dpmarket.paper.figures.series import TableLike, backdrop, level, series, span
from dpmarket.paper.figures.sheet import new_sheet


def draw_error_bound(table: TableLike) -> Figure:
    """Return two panels: three bounds where every prediction is wrong, and the constant mu against delta."""
    config = table.configuration
    delta, radius = config["deltas"][0], config["coef_radii"][0]
    setup = (
        f"left: all records alike, n = 1, coefficient of the wrong sign, β = {radius:g}, δ = {delta:g}, "
        f"δ' = {config['noise_delta']:g}, equal weights, η = m, {config['draws']:,} draws of the noise; "
        f"right: β = {span(config['coef_radii'])}, δ = {min(config['deltas']):g} … {max(config['deltas']):g}"
    )
    figure, (left, right) = new_sheet(
        "Paper, theorem `gen loss`: the printed bound, and the logarithm it needs", setup, 2
    )
    mine = table.where(case="all alike", delta=delta, coef_radius=radius)
    x = mine.number("records")
    backdrop(left, x, np.ones_like(x), "error (every prediction is wrong)")
    for look, (name, label) in enumerate(
        (
            ("natural", "printed, log to base e"),
            ("bits", "printed, log to base 2"),
            ("corrected", "proved constants, base 2"),
        )
    ):
        series(left, x, mine.number(name), None, look, label)
    left.set_xscale("log")
    left.set_xlabel("number of records m")
    left.set_ylabel("bound on the share misclassified")
    left.set_ylim(0.5, 2.5)
    left.legend(fontsize=8)
    first = table.where(case="all alike", records=config["records"][0])
    for look, beta in enumerate(config["coef_radii"]):
        part = first.where(coef_radius=beta)
        ratio = part.number("printed_mu") / part.number("sharp_mu")
        series(right, part.number("delta"), ratio, None, look, f"β = {beta:g}")
    right.axhline(1.0, color="0.72", linewidth=5.0, zorder=1, label="enough for a proof")
    right.set_yscale("log")
    right.set_ylim(0.5, 1e4)
    right.set_xlabel("δ")
    right.set_ylabel("printed μ (base 2) / smallest proved μ")
    right.legend(fontsize=8)
    return figure


def draw_budget(table: TableLike) -> Figure:
    """Return one panel per cost distribution: the budget for a given excess risk, and its limit."""
    config = table.configuration
    lows = table.values_of("low")
    setup = (
        f"cheapest plan that reaches μ|a| + σ/η, μ = {config['concentration']:g}, σ = {config['noise']:g}, "
        f"no cap k, m = {span(config['sellers'], ',.0f')}; left out where no money reaches it"
    )
    figure, panels = new_sheet("Paper, contributions: the budget for a given loss", setup, len(lows))
    for axes, low in zip(panels, lows, strict=True):
        part = table.where(low=low)
        for look, target in enumerate(part.values_of("target")):
            mine = part.where(target=target)
            series(axes, mine.number("sellers"), mine.number("budget"), None, look, f"excess risk {target:g}")
            limit = float(mine.number("limit")[0])
            if limit > 0.0:
                level(axes, limit, look + 2, f"limit for {target:g}")
            missing = mine.number("sellers")[np.isnan(mine.number("budget"))]
            if missing.size:
                axes.axvline(
                    float(missing.max()),
                    color=COLOURS[look],
                    linewidth=1.0,
                    linestyle=":",
                    label=f"{target:g} out of reach up to here",
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("number of sellers m")
        axes.set_ylabel("expected payments (money)")
        axes.set_title(f"costs U[{low:g}, {part.number('high')[0]:g}]", fontsize=10)
        axes.legend(fontsize=8)
    return figure
