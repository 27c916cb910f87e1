"""Theorem `thm: perf bounds`: the online loss when only a fraction xi of the expected sellers arrives."""

import numpy as np

from common import figure, in_parallel, label, lines, main, mean_and_error
from dpmarket.costs import Uniform
from dpmarket.mechanisms import PaperObjective, population_schedule
from printed import algorithm3, proxy_loss

SETTINGS = {
    "expected": [1_000, 100_000],
    "fractions": [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
    "gamma": 1e-3,
    "draws": 50,
    "seed": 0,
}
QUICK = {"expected": [10_000], "fractions": [0.1, 0.5, 1.0], "draws": 10}


def compute(s):
    yield from in_parallel(market, [(s, m) for m in s.expected])


def market(s, m):
    """Return the rows of one expected number: loss, and loss over that with everybody. Costs from U[0, 1]."""
    dist, terms = Uniform(0.0, 1.0), (1.0, 1.0, s.gamma)
    schedule = population_schedule(dist, PaperObjective(*terms), m)
    rows = []
    for name in ("Algorithm 3", "population"):
        losses = np.empty((s.draws, len(s.fractions)))
        for draw in range(s.draws):
            costs = dist.sample(m, np.random.default_rng([s.seed, draw, m]))
            psi = 2.0 * costs
            bought = algorithm3(psi, *terms, m, 0.5) if name == "Algorithm 3" else schedule.quote(costs)[0]
            for k, fraction in enumerate(s.fractions):
                came = round(fraction * m)
                losses[draw, k] = proxy_loss(bought[:came], psi[:came], *terms)
        for k, fraction in enumerate(s.fractions):
            (loss, loss_se), (ratio, ratio_se) = map(
                mean_and_error, (losses[:, k], losses[:, k] / losses[:, -1])
            )
            rows.append(
                {"expected": m, "buyer": name, "fraction": fraction, "loss": loss, "loss_se": loss_se,
                 "ratio": ratio, "ratio_se": ratio_se}
            )  # fmt: skip
    return rows


def draw(table):
    drawn, (ax,) = figure()
    lines(ax, table.filter(expected=table["expected"].max()), "fraction", "ratio", "buyer", "ratio_se")
    fractions = table["fraction"].unique().sort()
    ax.plot(fractions, 1.0 / fractions, "k:", label="1/ξ")
    label(ax, "Loss over the loss with everybody", "fraction ξ that comes", "ratio", log="xy")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
