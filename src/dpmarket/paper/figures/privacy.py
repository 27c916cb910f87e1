"""Draw privacy losses: claimed, bounded and found."""

from __future__ import annotations

from dpmarket.figures.canvas import Figure
from dpmarket.paper.figures.series import TableLike, backdrop, series, span
from dpmarket.paper.figures.sheet import new_sheet


def draw_privacy(table: TableLike) -> Figure:
    """Return one panel: the privacy loss of one weight against l2*eta."""
    crowd = table.configuration["crowds"][0]
    mine = table.where(people=crowd["people"], noise_rate=crowd["noise_rate"])
    setup = (
        f"m = {crowd['people']} people of equal weight a = 1/m, η = {crowd['noise_rate']:g}, k = 1, n = 2, "
        f"Λη = {span(table.configuration['products'])}; dotted: Λη = 2, from where there is no slack"
    )
    figure, (axes,) = new_sheet("Paper, Proposition `algoproof`: what a weight costs in privacy", setup)
    x = mine.number("product")
    backdrop(axes, x, mine.number("found"), "largest found (exact ratio)")
    for look, (name, label) in enumerate(
        (
            ("formula", "this library's bound"),
            ("paper", "Proposition: aη + 2 ln(1 + k/(mΛ))"),
            ("without_slack", "aη, the slack left out"),
        )
    ):
        series(axes, x, mine.number(name), None, look, label)
    axes.axvline(2.0, color="0.3", linewidth=1.0, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("Λη")
    axes.set_ylabel("privacy loss ε of one record")
    axes.legend(fontsize=8)
    return figure


def draw_joint_privacy(table: TableLike) -> Figure:
    """Return one panel per number of people: exact loss, and formulas for fixed weights, against μ."""
    config = table.configuration
    l2, eta = config["penalties"][0], config["noise_rates"][0]
    part = table.where(l2=l2, noise_rate=eta)
    counts = part.values_of("people")
    setup = (
        f"n = 1 feature, one label replaced, η = {eta:g} given, Λ = {l2:g}, no cap k, γ = 0.001, μ = "
        f"{span(config['concentrations'])}, costs evenly spaced on [1.5, 5]"
    )
    figure, panels = new_sheet(
        "Paper, appendix: the privacy loss when weights are chosen from the records", setup, len(counts)
    )
    for axes, people in zip(panels, counts, strict=True):
        mine = part.where(people=people)
        x = mine.number("concentration")
        series(axes, x, mine.number("exact"), None, 0, "exact loss")
        series(axes, x, mine.number("paper"), None, 1, "Proposition “algoproof”, fixed weights")
        series(axes, x, mine.number("formula"), None, 2, "tight formula, fixed weights")
        axes.set_xscale("log")
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("price of uneven weights μ")
        axes.set_ylabel("privacy loss ε of one record")
        axes.set_title(f"m = {people:.0f} people", fontsize=10)
        axes.legend(fontsize=7)
    return figure
