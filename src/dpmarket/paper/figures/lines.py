"""Draw the remaining claims, each a few lines over one variable."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import COLOURS, STYLES, Figure, new_figure
from dpmarket.paper.figures.series import TableLike, level, series


def draw_arrivals(table: TableLike) -> Figure:
    """Return one panel: loss with a fraction of the sellers over loss with all, against the fraction."""
    figure, (axes,) = new_figure()
    look = 0
    for curve in table.values_of("curve"):
        for m in table.values_of("expected_sellers"):
            mine = table.where(curve=curve, expected_sellers=m)
            label = f"{curve}, m = {m:,.0f}"
            series(
                axes, mine.number("participation"), mine.number("ratio"), mine.number("ratio_se"), look, label
            )
            look += 1
    xi = np.linspace(0.1, 1.0, 50)
    axes.plot(xi, 1.0 / xi, color="0.3", linestyle=":", linewidth=1.2, label="1/ξ")
    axes.set_yscale("log")
    axes.set_xlabel("fraction ξ of the expected sellers that arrives")
    axes.set_ylabel("loss / loss with everybody")
    axes.legend(fontsize=8)
    return figure


def draw_asymptotic(table: TableLike) -> Figure:
    """Return one panel per coefficient radius: the buyer's objective against the number of sellers."""
    radii = table.values_of("coef_radius")
    figure, panels = new_figure(panels=len(radii))
    names = {"offline": "offline", "literal": "online, Algorithm 3", "population": "online, population curve"}
    for axes, radius in zip(panels, radii, strict=True):
        part = table.where(coef_radius=radius)
        for look, (buyer, label) in enumerate(names.items()):
            mine = part.where(buyer=buyer)
            m = mine.number("sellers")
            series(axes, m, mine.number("objective"), mine.number("objective_se"), look, label)
        offline = part.where(buyer="offline")
        floor = offline.number("floor")
        axes.plot(
            offline.number("sellers"), floor, color=COLOURS[6], linestyle=STYLES[3], label="log(1 + exp(−ρβ))"
        )
        axes.set_xscale("log")
        axes.set_xlabel("number of sellers m")
        axes.set_ylabel("buyer's objective: error + γ × payments")
        axes.set_title(f"β = {radius:g}", fontsize=10)
        axes.set_ylim(bottom=0.0)
        axes.legend(fontsize=8)
    return figure


def draw_budget(table: TableLike) -> Figure:
    """Return one panel per cost distribution: the budget for a given excess risk, and its limit."""
    lows = table.values_of("low")
    figure, panels = new_figure(panels=len(lows))
    for axes, low in zip(panels, lows, strict=True):
        part = table.where(low=low)
        for look, target in enumerate(part.values_of("target")):
            mine = part.where(target=target)
            series(axes, mine.number("sellers"), mine.number("budget"), None, look, f"excess risk {target:g}")
            if mine.number("limit")[0] > 0.0:
                level(axes, float(mine.number("limit")[0]), look + 2, f"limit for {target:g}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("number of sellers m")
        axes.set_ylabel("budget: expected payments (money)")
        axes.set_title(f"costs U[{low:g}, {part.number('high')[0]:g}]", fontsize=10)
        axes.legend(fontsize=8)
    return figure


def draw_descent(table: TableLike) -> Figure:
    """Return one panel per setting: the gap to the minimum against steps, one line per start."""
    settings = table.values_of("concentration")
    figure, panels = new_figure(panels=len(settings), width=3.8)
    for axes, mu in zip(panels, settings, strict=True):
        part = table.where(concentration=mu)
        for look, start in enumerate(part.values_of("start")):
            mine = part.where(start=start)
            gap = np.where(mine.number("gap") > 0.0, mine.number("gap"), np.nan)
            series(axes, mine.number("step"), gap, None, look, f"start {start + 1:.0f}", marked=False)
        axes.set_yscale("log")
        axes.set_ylim(bottom=1e-13)
        axes.set_xlabel("steps of projected gradient descent")
        axes.set_ylabel("objective − minimum")
        condition, sharp = part.number("condition")[0], part.number("sharp_condition")[0]
        axes.set_title(f"2Λμ/m = {condition:.2g}, 2Λμ/|X|² = {sharp:.2g}", fontsize=10)
    panels[0].legend(fontsize=8)
    return figure


def draw_printed(table: TableLike) -> Figure:
    """Return one panel: the appendix objective against the mean epsilon, in three readings."""
    figure, (axes,) = new_figure()
    for look, reading in enumerate(table.values_of("reading")):
        mine = table.where(reading=reading)
        series(axes, mine.number("mean_epsilon"), mine.number("objective"), None, look, str(reading))
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1.0)
    axes.axhline(0.0, color="0.3", linewidth=1.0)
    axes.set_xlabel("mean epsilon η/m")
    axes.set_ylabel("minimum over coefficients and weights")
    axes.legend()
    return figure


def draw_error_bound(table: TableLike) -> Figure:
    """Return one panel: the error, the printed bound and the corrected one, against the number of records."""
    figure, (axes,) = new_figure()
    x = table.number("records")
    for look, (name, label) in enumerate(
        (("error", "error"), ("printed", "bound as printed"), ("corrected", "bound corrected"))
    ):
        series(axes, x, table.number(name), None, look, label)
    axes.set_xscale("log")
    axes.set_xlabel("number of records m")
    axes.set_ylabel("misclassified (share of records)")
    axes.set_ylim(bottom=0.5)
    axes.legend()
    return figure
