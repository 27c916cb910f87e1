"""Draw the payment identity: expectations, utilities against reports, and a budget met after the reports."""

from __future__ import annotations

import numpy as np

from dpmarket.figures.canvas import COLOURS, MARKERS, Figure, new_figure
from dpmarket.paper.figures.series import TableLike, series


def draw_payments(table: TableLike) -> Figure:
    """Return one panel: expected payments less expected virtual cost, relative, with two standard errors."""
    figure, (axes,) = new_figure()
    for look, weight in enumerate(table.values_of("payment_weight")):
        mine = table.where(payment_weight=weight)
        virtual = mine.number("virtual")
        axes.errorbar(
            mine.number("sellers") * (1.0 + 0.05 * look),
            100.0 * mine.number("difference") / virtual,
            yerr=200.0 * mine.number("difference_se") / virtual,
            color=COLOURS[look],
            marker=MARKERS[look],
            linestyle="none",
            capsize=3,
            label=f"γ = {weight:g}",
        )
    axes.axhline(0.0, color="0.3", linewidth=1.0)
    axes.set_xscale("log")
    axes.set_xlabel("number of sellers m")
    axes.set_ylabel("expected payments − expected\nvirtual cost (% of the latter)")
    axes.legend()
    return figure


def draw_reports(table: TableLike) -> Figure:
    """Return two panels: epsilon and utility against the report, for three sellers; truth is marked."""
    figure, (left, right) = new_figure(panels=2)
    for look, seller in enumerate(table.values_of("seller")):
        mine = table.where(seller=seller)
        reports, utilities = mine.number("report"), mine.number("utility")
        series(left, reports, mine.number("epsilon"), None, look, str(seller), marked=False)
        series(right, reports, utilities, None, look, str(seller), marked=False)
        at = int(np.argmin(np.abs(reports - mine.number("cost")[0])))
        right.plot(reports[at], utilities[at], color=COLOURS[look], marker=MARKERS[look], markersize=8)
    right.axhline(0.0, color="0.3", linewidth=1.0)
    for axes in (left, right):
        axes.set_xlabel("reported cost (money per unit of ε)")
    left.set_ylabel("promised ε")
    right.set_ylabel("utility at the true cost (money)")
    left.legend(title="true cost")
    right.set_title("markers: the truth", fontsize=10)
    return figure


def draw_budget_lie(table: TableLike) -> Figure:
    """Return one panel: a seller's utility against the report, with γ announced and with γ adjusted."""
    figure, (axes,) = new_figure()
    reports = table.number("report")
    true = float(table.number("cost")[0])
    series(axes, reports, table.number("utility_fixed_weight"), None, 0, "γ announced before", marked=False)
    series(axes, reports, table.number("utility"), None, 1, "γ adjusted to the budget after", marked=False)
    axes.axvline(true, color="0.3", linewidth=1.0, linestyle=":", label="true cost")
    axes.set_xlabel("reported cost (money per unit of ε)")
    axes.set_ylabel("utility at the true cost (money)")
    axes.legend()
    return figure
