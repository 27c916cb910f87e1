"""Draw the payment identity: expectations, utilities against reports, budgets, caps, and other losses."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import COLOURS, MARKERS, Figure
from dpmarket.paper.figures.series import TableLike, series, span
from dpmarket.paper.figures.sheet import new_sheet

_REPORT = "reported cost (money per unit of ε)"
_UTILITY = "utility at the true cost (money)"


def draw_payments(table: TableLike) -> Figure:
    """Return one panel: expected payments less expected virtual cost, relative, with two standard errors."""
    config = table.configuration
    setup = (
        f"μ = σ = 1, no cap k, m = {span(config['sellers'])}, {config['draws']:,} markets each; bars: two "
        "standard errors"
    )
    figure, (axes,) = new_sheet("Paper, lemma `mech design`: expected payments", setup)
    look = 0
    for low in table.values_of("low"):
        for weight in table.values_of("payment_weight"):
            mine = table.where(payment_weight=weight, low=low)
            virtual = mine.number("virtual")
            axes.errorbar(
                mine.number("sellers") * (1.0 + 0.06 * look),
                100.0 * mine.number("difference") / virtual,
                yerr=200.0 * mine.number("difference_se") / virtual,
                color=COLOURS[look],
                marker=MARKERS[look],
                linestyle="none",
                capsize=3,
                label=f"U[{low:g}, {mine.number('high')[0]:g}], γ = {weight:g}",
            )
            look += 1
    axes.axhline(0.0, color="0.3", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_xlabel("number of sellers m")
    axes.set_ylabel("expected payments − expected\nvirtual cost (% of the latter)")
    axes.legend(fontsize=8)
    return figure


def draw_reports(table: TableLike) -> Figure:
    """Return two panels: epsilon and utility against the report, for three sellers; truth is marked."""
    first = table.values_of("market")[0]
    setup = f"one market: {first}; μ = σ = 1; three of its sellers try every report; markers: the truth"
    figure, (left, right) = new_sheet("Paper, lemma `mech design`: promise and utility by report", setup, 2)
    part = table.where(market=first)
    for look, seller in enumerate(part.values_of("seller")):
        mine = part.where(seller=seller)
        reports, utilities = mine.number("report"), mine.number("utility")
        series(left, reports, mine.number("epsilon"), None, look, str(seller), marked=False)
        series(right, reports, utilities, None, look, str(seller), marked=False)
        at = int(np.argmin(np.abs(reports - mine.number("cost")[0])))
        right.plot(reports[at], utilities[at], color=COLOURS[look], marker=MARKERS[look], markersize=8)
    right.axhline(0.0, color="0.3", linewidth=1.0)
    for axes in (left, right):
        axes.set_xlabel(_REPORT)
    left.set_ylabel("promised ε")
    right.set_ylabel(_UTILITY)
    left.legend(title="true cost", fontsize=8)
    right.legend(title="true cost", fontsize=8)
    return figure


def draw_budget_lie(table: TableLike) -> Figure:
    """Return one panel: a seller's utility against the report, with γ announced and with γ adjusted."""
    first = table.values_of("market")[0]
    mine = table.where(market=first)
    setup = f"{first}; costs from U[0, 1], μ = σ = 1; the other sellers tell the truth"
    figure, (axes,) = new_sheet("Paper, practical usage: γ adjusted to a budget", setup)
    reports = mine.number("report")
    series(axes, reports, mine.number("utility_fixed_weight"), None, 0, "γ announced before", marked=False)
    series(axes, reports, mine.number("utility"), None, 1, "γ adjusted to the budget after", marked=False)
    axes.axvline(float(mine.number("cost")[0]), color="0.3", linewidth=1.0, linestyle=":", label="true cost")
    axes.set_xlabel(_REPORT)
    axes.set_ylabel(_UTILITY)
    axes.legend(fontsize=8)
    return figure


def draw_cap(table: TableLike) -> Figure:
    """Return one panel per cost distribution: the largest promise over the mean, against the cap."""
    config = table.configuration
    lows = table.values_of("low")
    sellers = max(table.values_of("sellers"))
    setup = (
        f"m = {sellers:,.0f} sellers, μ = σ = 1, γ = {span(config['payment_weights'], '.0e')}, k = "
        f"{span([k for k in config['weight_caps'] if k])}, {config['draws']} draws, the largest of them shown"
    )
    figure, panels = new_sheet("Paper, remark in section IV: ε_i ≤ k ε_avg", setup, len(lows))
    for axes, low in zip(panels, lows, strict=True):
        part = table.where(low=low, sellers=sellers)
        caps = np.array([k for k in config["weight_caps"] if k])
        axes.plot(caps, caps, color="0.72", linewidth=6.0, zorder=1, label="k")
        for look, gamma in enumerate(part.values_of("payment_weight")):
            mine = part.where(payment_weight=gamma)
            capped = mine.number("weight_cap") > 0.0
            x, y = mine.number("weight_cap")[capped], mine.number("largest")[capped]
            series(axes, x, y, None, look, f"γ = {gamma:g}")
        axes.set_xlabel("cap k (weights at most k/m)")
        axes.set_ylabel("largest ε / mean ε")
        axes.set_title(f"costs U[{low:g}, {part.number('high')[0]:g}]", fontsize=10)
        axes.legend(fontsize=8)
    return figure


def draw_independence(table: TableLike) -> Figure:
    """Return two panels: error and payments of several learners; what the best lie gains, buyer by buyer."""
    config = table.configuration
    setup = (
        f"left: breast cancer records (m = 341, n = 30), μ = {config['concentration']:g}, σ = "
        f"{config['noise']:g}, γ = {config['payment_weight']:g}, no cap k, {len(config['seeds'])} splits, "
        f"{config['noise_draws']} draws of noise, bars: two standard errors over splits; right: m = "
        f"{config['sellers']}, costs U[1, 5], {config['reports']} reports of {len(config['quantiles'])} "
        "sellers"
    )
    figure, (left, right) = new_sheet(
        "Paper, discussion in section IV: payments do not depend on the loss", setup, 2, height=3.8
    )
    learners = table.where(kind="learner")
    names = learners.values_of("name")
    parts = [learners.where(name=name) for name in names]
    means = [float(part.number("test_error").mean()) for part in parts]
    splits = len(config["seeds"])
    spreads = [float(part.number("test_error").std() / np.sqrt(max(splits - 1, 1))) for part in parts]
    shown = [str(name).replace(" ", "\n", 2) for name in names]
    bars = left.bar(shown, means, yerr=[2.0 * one for one in spreads], color=COLOURS[0], capsize=3, width=0.6)
    paid = [f"paid {part.number('payments').mean():.4f}" for part in parts]
    left.bar_label(bars, paid, label_type="center", color="white", fontsize=8)
    left.set_ylabel("test error (share of records)")
    left.set_title("one purchase, three learners", fontsize=10)
    buyers = table.where(kind="buyer")
    shown = [str(name).replace(" ", "\n", 1) for name in buyers.values_of("name")]
    bars = right.bar(shown, buyers.number("payments"), color=COLOURS[2], width=0.6)
    gains = [f"best lie\ngains {max(gain, 0.0):.0g}" for gain in buyers.number("gain").tolist()]
    right.bar_label(bars, gains, label_type="center", color="white", fontsize=8)
    right.set_ylabel("total payments (money)")
    right.set_title("one payment identity, five losses", fontsize=10)
    for axes in (left, right):
        axes.tick_params(axis="x", labelsize=8)
    return figure
