"""Draw Fig. 2: error and payments, overall error buyer by buyer, and the same with other settings."""

from __future__ import annotations

from dpmarket.figures.canvas import Axes, Figure
from dpmarket.paper.figures.series import TableLike, backdrop, series, span
from dpmarket.paper.figures.sheet import new_sheet

_WEIGHT = "payment weight γ (error per unit of money)"
_OVERALL = "overall error: error + γ × payments"
_PAPER = (
    ("joint", "fixed", "appendix algorithm (the paper's)"),
    ("naive", "fixed", "naive model (μ = σ = 0)"),
    ("guess", "tuned", "buys nothing, guesses"),
)
_TUNED = (
    ("joint", "tuned", "appendix, tuned at each γ"),
    ("naive", "tuned", "naive, tuned at each γ"),
    ("offline", "fixed", "offline (Algorithm 2), certified"),
    ("offline", "tuned", "offline, tuned at each γ"),
)


def draw_market(table: TableLike) -> Figure:
    """Return four panels: error, payments, overall error as in the paper, overall error of fairer buyers."""
    config = table.configuration
    setup = (
        f"Wisconsin diagnostic breast cancer set, {len(config['seeds'])} splits: "
        f"{config['seller_share']:.0%} sellers (m = 341, n = 31 with the constant), "
        f"{config['public_share']:.0%} public, the rest test; k = {config['weight_cap']:g}; γ = "
        f"{span(config['payment_weights'], '.0e')}; {{μ, σ, Λ}} from {len(config['concentrations'])} × "
        f"{len(config['noises'])} × {len(config['penalties'])} on the public part; {config['noise_draws']} "
        "draws of b; bands: two standard errors over splits"
    )
    figure, (error, paid, overall, tuned) = new_sheet(
        "Paper Fig. 2: error and payments (a), overall error (b)", setup, 4, height=3.5
    )
    euler = table.where(reading="euler")
    base, found = euler.where(buyer="baseline", tuned=1).means_by("payment_weight", "test_error", "overall")
    backdrop(error, base, found["test_error"][0], "no privacy, no payment")
    for axes in (overall, tuned):
        backdrop(axes, base, found["overall"][0], "no privacy, no payment")
    for look, (buyer, label) in enumerate(
        (("joint", "appendix algorithm (the paper's)"), ("offline", "offline (Algorithm 2)"))
    ):
        x, values = euler.where(buyer=buyer, fixed=1).means_by(
            "payment_weight", "test_error", "expected_payments"
        )
        series(error, x, *values["test_error"], look, label)
        series(paid, x, *values["expected_payments"], look, label)
    _overall(overall, euler, _PAPER)
    _overall(tuned, euler, _TUNED)
    for axes, title in (
        (error, "(a) misclassification error"),
        (paid, "(a) payments"),
        (overall, "(b) overall error, one setting for all γ"),
        (tuned, "(b) overall error, fairer opponents"),
    ):
        axes.set_xscale("log")
        axes.set_xlabel(_WEIGHT)
        axes.set_title(title, fontsize=10)
    error.set_ylabel("test error (share of records)")
    error.set_ylim(bottom=0.0)
    paid.set_yscale("log")
    paid.set_ylabel("expected payments (money)")
    for axes in (overall, tuned):
        axes.set_ylabel(_OVERALL)
        axes.set_ylim(0.0, 0.95)
    for axes in (error, paid, overall, tuned):
        axes.legend(fontsize=8)
    return figure


def _overall(axes: Axes, part: TableLike, buyers: tuple[tuple[str, str, str], ...]) -> None:
    for look, (buyer, mark, label) in enumerate(buyers):
        x, found = part.where(buyer=buyer, **{mark: 1}).means_by("payment_weight", "overall")
        series(axes, x, *found["overall"], look, label, marked=buyer != "guess")


def draw_market_variants(table: TableLike) -> Figure:
    """Return one panel per variant: the overall error of the appendix algorithm and of its opponents."""
    config = table.configuration["variants"]
    first = config[0]["market"]
    setup = (
        f"{len(first['seeds'])} splits, γ = {span(first['payment_weights'], '.0e')}, {{μ, σ, Λ}} from "
        f"{len(first['concentrations'])} × {len(first['noises'])} × {len(first['penalties'])} (or as the "
        f"title says), k = {first['weight_cap']:g} unless the title says otherwise; all tuned at each γ; "
        "bands: two standard errors over splits"
    )
    names = [variant["name"] for variant in config]
    figure, panels = new_sheet("Paper Fig. 2b with other settings", setup, len(names), height=3.0)
    for axes, name in zip(panels, names, strict=True):
        part = table.where(variant=name, reading="euler")
        x, found = part.where(buyer="baseline", tuned=1).means_by("payment_weight", "overall")
        backdrop(axes, x, found["overall"][0], "no privacy, no payment")
        _overall(axes, part, (_TUNED[0], _TUNED[1], _TUNED[3]))
        axes.set_xscale("log")
        axes.set_xlabel(_WEIGHT)
        axes.set_ylabel("overall error")
        axes.set_ylim(0.0, 0.8)
        axes.set_title(name, fontsize=10)
        axes.legend(fontsize=7)
    return figure
