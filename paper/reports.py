"""Lemma `mech design`, `Eq: IC` and `Eq: IR`: a seller's utility against the report, others truthful."""

import numpy as np

from common import figure, in_parallel, label, main
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism, PaperObjective

SETTINGS = {
    # low, high, sellers, gamma, k (None: no cap)
    "markets": [[1.0, 5.0, 100, 1e-3, None], [1.0, 5.0, 100, 1e-1, None], [1.0, 5.0, 10, 1e-3, None],
                [1.0, 5.0, 100, 1e-3, 2.0], [0.0, 1.0, 100, 1e-3, None], [0.0, 1.0, 1_000, 1e-2, 4.0]],
    "quantiles": [0.1, 0.3, 0.6],
    "reports": 161,
    "seed": 0,
}  # fmt: skip
QUICK = {"reports": 41}


def compute(s):
    yield from in_parallel(seller, [(s, *market, q) for market in s.markets for q in s.quantiles])


def seller(s, low, high, m, gamma, cap, quantile):
    """Return epsilon, payment and utility at the true cost, for each report of one seller."""
    dist = Uniform(low, high)
    mechanism = OfflineMechanism(dist, PaperObjective(1.0, 1.0, gamma, cap))
    costs = dist.sample(m, np.random.default_rng(s.seed))
    i = int(np.argsort(costs)[round(quantile * (m - 1))])
    true = float(costs[i])
    name = f"U[{low:g}, {high:g}], m = {m}, γ = {gamma:g}" + (f", k = {cap:g}" if cap else "")
    found = []
    for report in np.unique(np.append(np.linspace(low, high, s.reports), true)).tolist():
        epsilon, payment = mechanism.respond(costs, i, report)
        found.append(
            {"market": name, "cost": true, "report": report, "epsilon": epsilon, "payment": payment,
             "utility": payment - true * epsilon}
        )  # fmt: skip
    return found


def draw(table):
    drawn, axes = figure(rows=2, columns=3, width=3.2)
    for ax, ((name,), market) in zip(axes, table.group_by("market", maintain_order=True), strict=True):
        for (cost,), part in market.group_by("cost", maintain_order=True):
            line = ax.plot(part["report"], part["utility"], label=f"cost {cost:.2f}")[0]
            best = part.filter(report=cost)
            ax.plot(best["report"], best["utility"], "o", color=line.get_color())
        ax.axhline(0.0, color="k", linewidth=0.8)
        label(ax, name, "report", "utility")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
