"""Lemma `mech design`: expected payments equal expected virtual costs, E[sum t] = E[sum psi eps]."""

import numpy as np

from common import figure, in_parallel, label, main, mean_and_error
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism, PaperObjective

SETTINGS = {
    "supports": [[1.0, 5.0], [0.0, 1.0]],
    "sellers": [5, 20, 100, 500],
    "gammas": [1e-3, 1e-1],
    "draws": 400,
    "seed": 0,
}
QUICK = {"supports": [[1.0, 5.0]], "sellers": [5], "gammas": [1e-1], "draws": 100}


def compute(s):
    tasks = [(s, *support, m, gamma) for support in s.supports for m in s.sellers for gamma in s.gammas]
    yield from in_parallel(markets, tasks)


def markets(s, low, high, m, gamma):
    """Return both means over many markets, and their difference."""
    dist = Uniform(low, high)
    mechanism = OfflineMechanism(dist, PaperObjective(1.0, 1.0, gamma))
    paid, virtual = np.empty(s.draws), np.empty(s.draws)
    for draw in range(s.draws):
        costs = dist.sample(m, np.random.default_rng([s.seed, draw, m]))
        outcome = mechanism.run(costs)
        paid[draw] = outcome.total_payment
        virtual[draw] = (2.0 * costs - low) @ outcome.epsilons
    difference, difference_se = mean_and_error(paid - virtual)
    return [{
        "low": low, "high": high, "sellers": m, "gamma": gamma, "payments": float(paid.mean()),
        "payments_se": mean_and_error(paid)[1], "virtual": float(virtual.mean()), "difference": difference,
        "difference_se": difference_se, "single_market": float(np.abs(paid / virtual - 1.0).mean()),
    }]  # fmt: skip


def draw(table):
    drawn, (ax,) = figure(width=4.5)
    relative = table["difference"] / table["virtual"]
    errors = 2 * table["difference_se"] / table["virtual"]
    ax.errorbar(range(table.height), relative, errors, fmt="o", color="#1b6ca8", label="± 2 standard errors")
    names = [f"m = {row['sellers']}\nγ = {row['gamma']:g}" for row in table.iter_rows(named=True)]
    ax.set_xticks(range(table.height), names, rotation=90, fontsize=6)
    ax.axhline(0.0, color="k", linewidth=0.8)
    label(ax, "Payments less virtual costs, on average", "market", "relative difference")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
