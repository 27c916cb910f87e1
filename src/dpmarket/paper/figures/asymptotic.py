"""Draw the theorems for many sellers: the buyer's objective, the proof's schedule, and fewer arrivals."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import COLOURS, STYLES, Figure
from dpmarket.paper.figures.series import TableLike, backdrop, series, span
from dpmarket.paper.figures.sheet import new_sheet


def draw_asymptotic(table: TableLike) -> Figure:
    """Return one panel per coefficient radius: the buyer's objective against the number of sellers."""
    config = table.configuration
    radii = table.values_of("coef_radius")
    setup = (
        f"separable records with margin, n = {config['features']}, m = {span(config['sellers'], ',.0f')} "
        f"sellers, no cap k, costs U[0, 1], μ = {config['concentration']:g}, σ = {config['noise']:g}, "
        f"γ = {config['payment_weight']:g}, {config['draws']} draws; bands: two standard errors"
    )
    figure, panels = new_sheet(
        "Paper, theorems `thm: asymptotic` and `thm: perf bounds`: the buyer's objective", setup, len(radii)
    )
    for axes, radius in zip(panels, radii, strict=True):
        part = table.where(coef_radius=radius)
        offline = part.where(buyer="offline")
        backdrop(axes, offline.number("sellers"), offline.number("objective"), "offline (Algorithm 2)")
        for look, (buyer, label) in enumerate(
            (("literal", "online, Algorithm 3"), ("population", "online, population curve"))
        ):
            mine = part.where(buyer=buyer)
            m = mine.number("sellers")
            series(axes, m, mine.number("objective"), mine.number("objective_se"), look, label)
        axes.plot(
            offline.number("sellers"),
            offline.number("floor"),
            color=COLOURS[6],
            linestyle=STYLES[3],
            label="log(1 + exp(−ρβ))",
        )
        axes.set_xscale("log")
        axes.set_xlabel("number of sellers m")
        axes.set_ylabel("error + γ × payments")
        axes.set_title(f"β = {radius:g}", fontsize=10)
        axes.set_ylim(bottom=0.0)
        axes.legend(fontsize=8)
    return figure


def draw_schedule(table: TableLike) -> Figure:
    """Return two panels: what is left of the bound above nu, and the probabilities, against sellers."""
    config = table.configuration
    setup = (
        f"δ = exp(−E₃νm^(1/4)), σ = μ², δ' to match; n = {config['features']}, no cap k, costs U[0, 1], "
        f"m = 10^{min(config['exponents']):g} … 10^{max(config['exponents']):g}; markets were run up to m = "
        f"{10 ** config['simulated']:,.0f} (in the table)"
    )
    figure, (left, right) = new_sheet(
        "Paper, theorem `thm: asymptotic`: the proof's own schedule", setup, 2, height=3.8
    )
    for look, (nu, beta, gamma) in enumerate(config["choices"]):
        mine = table.where(nu=nu, coef_radius=beta, payment_weight=gamma)
        m = mine.number("sellers")
        label = f"ν = {nu:g}, β = {beta:g}, γ = {gamma:.0e}"
        series(left, m, mine.number("proxy") - nu, None, look, label)
        series(right, m, mine.number("surprise"), None, look, label)
    m = table.where(nu=config["choices"][0][0]).number("sellers")
    left.plot(m, 30.0 * m**-0.25, color="0.4", linestyle=":", linewidth=1.0, label="slope −1/4")
    right.plot(m, 0.02 * m**0.25, color="0.4", linestyle=":", linewidth=1.0, label="slope 1/4")
    right.axhline(np.log(2.0), color="0.72", linewidth=5.0, zorder=1, label="δ = 1/2")
    left.set_ylabel("proxy loss − ν: what the bound adds")
    right.set_ylabel("−ln δ")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("number of sellers m")
        axes.legend(fontsize=7)
    return figure


def draw_arrivals(table: TableLike) -> Figure:
    """Return one panel: loss with a fraction of the sellers over loss with all, against the fraction."""
    config = table.configuration
    setup = (
        f"costs U[{config['low']:g}, {config['high']:g}], μ = {config['concentration']:g}, σ = "
        f"{config['noise']:g}, γ = {config['payment_weight']:g}, {config['draws']} draws; bands: two "
        "standard errors"
    )
    figure, (axes,) = new_sheet("Paper, theorem `thm: perf bounds`: fewer sellers than expected", setup)
    look = 0
    for curve in table.values_of("curve"):
        for m in table.values_of("expected_sellers"):
            mine = table.where(curve=curve, expected_sellers=m)
            name = {"literal": "Algorithm 3", "population": "population curve"}[str(curve)]
            x, ratio = mine.number("participation"), mine.number("ratio")
            series(axes, x, ratio, mine.number("ratio_se"), look, f"{name}, m = {m:,.0f}")
            look += 1
    xi = np.linspace(float(table.number("participation").min()), 1.0, 50)
    axes.plot(xi, 1.0 / xi, color="0.3", linestyle=":", linewidth=1.2, label="1/ξ")
    axes.set_yscale("log")
    axes.set_xlabel("fraction ξ of the expected sellers that arrives")
    axes.set_ylabel("loss / loss with everybody")
    axes.legend(fontsize=8)
    return figure
