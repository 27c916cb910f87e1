"""Section VI, practical usage: a misreport pays where gamma is adjusted to a budget after the reports."""

import numpy as np
from scipy.optimize import brentq

from common import figure, in_parallel, label, main
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism, PaperObjective

TEN = np.linspace(0.08, 0.98, 10).round(2).tolist()
SETTINGS = {
    # costs (from U[0, 1]; the first seller tries other reports), budget, k
    "markets": [[[0.2, 0.5, 0.7], 0.3, 2.4], [[0.2, 0.5, 0.7], 0.1, 2.4], [[0.2, 0.5, 0.7], 1.0, 2.4],
                [[0.4, 0.5, 0.7], 0.3, 2.4], [TEN, 0.3, 2.0], [TEN, 1.0, 4.0]],
    "reports": 31,
}  # fmt: skip
QUICK = {"markets": SETTINGS["markets"][:2], "reports": 7}


def compute(s):
    yield from in_parallel(outcomes, [(s, *market) for market in s.markets])


def outcomes(s, costs, budget, cap):
    """Return the first seller's utility with gamma adjusted to each report, and with it announced."""

    def market(log):
        return OfflineMechanism(Uniform(0.0, 1.0), PaperObjective(1.0, 1.0, float(np.exp(log)), cap))

    def adjusted(reports, low=-8.0, high=10.0):
        return brentq(lambda log: market(log).run(reports).total_payment - budget, low, high, xtol=1e-7)

    announced, found = adjusted(np.array(costs)), []
    for report in np.unique(np.append(np.linspace(0.05, 0.95, s.reports), costs[0])).tolist():
        reports = np.array([report, *costs[1:]])
        after = adjusted(reports, announced - 1.0, announced + 1.0)
        outcomes = [market(log).run(reports) for log in (after, announced)]
        late, early = (float(each.payments[0] - costs[0] * each.epsilons[0]) for each in outcomes)
        name = f"{len(costs)} sellers, budget {budget:g}, k = {cap:g}, cost {costs[0]:g}"
        found.append(
            {"market": name, "report": report, "cost": costs[0], "gamma": float(np.exp(after)),
             "utility": late, "utility_announced": early}
        )  # fmt: skip
    return found


def draw(table):
    drawn, (ax,) = figure(width=4.5)
    part = table.filter(market=table["market"][0])
    ax.plot(part["report"], part["utility"], label="γ adjusted to the reports")
    ax.plot(part["report"], part["utility_announced"], "--", label="γ announced before them")
    ax.axvline(part["cost"][0], color="k", linestyle=":", label="true cost")
    label(ax, table["market"][0], "report", "utility")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
