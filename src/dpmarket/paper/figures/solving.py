"""Draw how the appendix problem is solved: convexity, descent, other variables, the printed line search."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import COLOURS, MARKERS, Figure
from dpmarket.paper.figures.series import TableLike, series
from dpmarket.paper.figures.sheet import new_sheet

_STEPS = "steps of projected gradient descent"


def draw_convexity(table: TableLike) -> Figure:
    """Return one panel: the smallest eigenvalue against 2Λμ/m, for three kinds of records."""
    config = table.configuration
    balance = config["balances"][0]
    setup = (
        f"m = {config['people']} records, Λ = {balance:g} · 2μ, {config['points']} random points (w, a) and "
        "points far out where margins are negative; eigenvalue divided by min(Λ, 2μ)"
    )
    figure, (axes,) = new_sheet("Paper, theorem `convexify`: strict convexity in (w, a)", setup)
    for look, kind in enumerate(table.values_of("records")):
        mine = table.where(records=kind, balance=balance)
        series(axes, mine.number("ratio"), mine.number("lowest"), None, look, f"{kind} records")
    axes.axhline(0.0, color="0.72", linewidth=5.0, zorder=1, label="convex above")
    axes.axvline(1.0, color="0.3", linewidth=1.0, linestyle=":", label="2Λμ = m")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_xlabel("2Λμ/m")
    axes.set_ylabel("smallest eigenvalue found")
    axes.legend(fontsize=8)
    return figure


def _shown(settings: list[list[float]]) -> list[tuple[float, float]]:
    """Return up to four settings to draw: the first two, one in the middle and the last."""
    count = len(settings)
    places = sorted({0, 1, max(count - 5, 0), count - 1})
    return [(settings[k][0], settings[k][1]) for k in places]


def draw_descent(table: TableLike) -> Figure:
    """Return four panels, one per setting: the gap to the minimum against steps, one line per start."""
    config = table.configuration
    settings = _shown(config["settings"])
    setup = (
        f"breast cancer records, m = 341, n = 31, no cap k, η = {config['noise_rate']:g}, σ = "
        f"{config['noise']:g}, γ = {config['payment_weight']:g}, {config['starts']} random starts, tolerance "
        f"{config['tolerance']:.0e}; a straight line is a linear rate"
    )
    figure, panels = new_sheet(
        "Paper, theorem `convexify`: projected gradient descent over (w, a)", setup, len(settings)
    )
    for axes, (l2, mu) in zip(panels, settings, strict=True):
        part = table.where(l2=l2, concentration=mu)
        for look, start in enumerate(part.values_of("start")):
            mine = part.where(start=start)
            gap = np.where(mine.number("gap") > 0.0, mine.number("gap"), np.nan)
            series(axes, mine.number("step"), gap, None, look, f"start {start + 1:.0f}", marked=False)
        axes.set_yscale("log")
        axes.set_ylim(bottom=1e-13)
        axes.set_xlabel(_STEPS)
        axes.set_ylabel("objective − minimum")
        axes.set_title(
            f"Λ = {l2:g}, μ = {mu:g}: 2Λμ/m = {part.number('condition')[0]:.2g}, "
            f"2Λμ/|X|² = {part.number('sharp_condition')[0]:.2g}",
            fontsize=9,
        )
        axes.legend(fontsize=7)
    return figure


def draw_variables(table: TableLike) -> Figure:
    """Return one panel per setting: the gap against steps, over promises and over weights."""
    config = table.configuration
    setup = (
        f"breast cancer records, m = 341, n = 31, no cap k, γ = {config['payment_weight']:g}; promises: "
        f"backtracking steps from mean ε = {', '.join(f'{s:g}' for s in config['starts'])}, at most "
        f"{config['most']:,}; weights: the longest of the descents at {len(config['grid'])} noise rates"
    )
    settings = config["settings"]
    figure, panels = new_sheet(
        "Paper, contributions: the change of variables from ε to (a, η)", setup, len(settings)
    )
    for axes, (l2, mu, sigma) in zip(panels, settings, strict=True):
        part = table.where(l2=l2, concentration=mu, noise=sigma)
        ways = [("promises", start) for start in config["starts"]] + [("weights", 0.0)]
        for look, (variables, start) in enumerate(ways):
            mine = part.where(variables=variables, start=start)
            gap = np.where(mine.number("gap") > 1e-9, mine.number("gap"), np.nan)
            label = "over (w, a) at given η" if variables == "weights" else f"over (w, ε) from {start:g}"
            series(axes, mine.number("step") + 1.0, gap, None, look, label, marked=variables == "weights")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(f"1 + {_STEPS}")
        axes.set_ylabel("objective / optimum − 1")
        axes.set_title(f"Λ = {l2:g}, μ = {mu:g}, σ = {sigma:g}", fontsize=9)
        axes.legend(fontsize=7)
    return figure


def draw_printed(table: TableLike) -> Figure:
    """Return two panels: the objective in three readings, and where the line search ends."""
    config = table.configuration
    l2, sigma = config["settings"][0]
    setup = (
        f"breast cancer records, m = 341, n = 31, no cap k, μ = {config['concentration']:g}, γ = "
        f"{config['payment_weight']:g}; left: Λ = {l2:g}, σ = {sigma:g}, one draw of b; right: "
        f"{config['draws']} draws each, grid of {config['grid']} mean ε up to {config['highest']:g}, "
        "dotted: 1"
    )
    figure, (left, right) = new_sheet(
        "Paper, Algorithm `alg:mechanism-base`: the line search over mean ε", setup, 2, height=3.8
    )
    low = min(config["lowest"])
    part = table.where(l2=l2, noise=sigma, draw=0, lowest=low)
    for look, reading in enumerate(part.values_of("reading")):
        mine = part.where(reading=reading)
        series(left, mine.number("mean_epsilon"), mine.number("objective"), None, look, str(reading))
    turning = float(part.number("turning")[0])
    left.axvline(turning, color="0.3", linewidth=1.0, linestyle=":", label="2|b|²/(Λσm)")
    left.set_xscale("log")
    left.set_yscale("symlog", linthresh=1.0)
    left.axhline(0.0, color="0.3", linewidth=1.0)
    left.set_xlabel("mean epsilon η/m")
    left.set_ylabel("minimum over w and a")
    left.legend(fontsize=8)
    printed = table.where(reading="as printed")
    for look, (penalty, price) in enumerate(config["settings"]):
        mine = printed.where(l2=penalty, noise=price)
        first = [
            mine.where(draw=d, lowest=e) for d in mine.values_of("draw") for e in mine.values_of("lowest")
        ]
        x = np.array([one.number("lowest")[0] / one.number("turning")[0] for one in first])
        y = np.array([one.number("chosen")[0] / one.number("lowest")[0] for one in first])
        right.plot(
            x,
            y,
            color=COLOURS[look],
            marker=MARKERS[look],
            markersize=4,
            linestyle="none",
            label=f"Λ = {penalty:g}, σ = {price:g}",
        )
    right.axvline(1.0, color="0.3", linewidth=1.0, linestyle=":")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("lowest mean ε of the grid / (2|b|²/(Λσm))")
    right.set_ylabel("chosen mean ε / lowest of the grid")
    right.legend(fontsize=7)
    return figure
