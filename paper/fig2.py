"""Fig. 2: error, payments and overall error on the Wisconsin breast cancer records, against gamma.

Buyers: ``joint``, the appendix's Algorithm 4 with the noise at its mean in the choice; ``offline``, Algorithm
2, which decides without records and trains with weights that keep every epsilon (not rounded to a release's
grid, which would move an error by less than 0.001); ``naive``, Algorithm 4 with mu = sigma = 0; ``baseline``,
without payments and privacy; ``guess``, who names the commoner public class.
Payments are expected ones, the sum of psi times epsilon. Hyper-parameters are chosen on the public part:
``fixed`` marks those that serve all gamma best, ``tuned`` the best at one gamma. The naive objective rises
with eta, so that its line search ends at the lowest mean epsilon: that is its ``fixed`` row.
"""

import itertools
import math

import numpy as np
import polars as pl

from common import COLOURS, figure, in_parallel, label, lines, main, mean_and_error
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism, PaperObjective
from printed import JointChoices, draw_noise, error, naive_weights, train, weights_for
from records import LOWEST, split, wisconsin

SETTINGS = {
    "gammas": [1e-5, 10**-4.5, 1e-4, 10**-3.5, 1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1],
    "mus": [1.0, 10.0, 100.0, 1000.0],
    "sigmas": [1.0, 10.0, 100.0],
    "l2s": [0.01, 0.1, 1.0],
    "mean_epsilons": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0],
    "cap": 4.0,
    "features": "all",
    "seller_share": 0.6,
    "public_share": 0.2,
    "noise_draws": 15,
    "splits": [0, 1, 2, 3],
}
QUICK = {"gammas": [1e-5, 1e-3, 1e-1], "mus": [100.0], "sigmas": [10.0], "l2s": [1.0],
         "mean_epsilons": [0.01, 1.0], "splits": [0]}  # fmt: skip
BUYERS = {"joint": "appendix (Algorithm 4)", "offline": "offline (Algorithm 2)", "naive": "naive, μ = σ = 0",
          "guess": "buys nothing, guesses", "baseline": "no privacy, no payment"}  # fmt: skip


def compute(s):
    tasks = [(s, seed, buyer, 0.0, l2) for seed in s.splits for buyer, l2s in (
        ("guess", [0.0]), ("baseline", [0.001, *s.l2s]), ("naive", s.l2s)) for l2 in l2s]  # fmt: skip
    pairs = list(itertools.product(s.splits, ("joint", "offline"), s.mus, s.l2s))
    rows = list(in_parallel(bought, tasks + [(s, *pair) for pair in pairs]))
    for seed, buyer in itertools.product(s.splits, BUYERS):
        mark([row for row in rows if (row["split"], row["buyer"]) == (seed, buyer)])
    return [row for row in rows if row["fixed"] or row["tuned"]]


def bought(s, seed, buyer, mu, l2):
    """Return what a buyer gets, for every gamma and sigma (or mean epsilon)."""
    parts = split(wisconsin(s.features), s.seller_share, s.public_share, seed)
    (x, y), n = parts.sellers, parts.sellers[0].shape[1]
    rng = np.random.default_rng([14, seed])
    costs = LOWEST * (1.0 + 4.0 * rng.random(y.size))
    psi, noises = 2.0 * costs - LOWEST, np.array([draw_noise(n, rng) for _ in range(s.noise_draws)])
    signed, cap = y[:, None] * x, s.cap / y.size
    products = np.outer(s.sigmas, s.gammas)
    choices = JointChoices(signed, psi, l2, mu, cap, products) if buyer == "joint" else None
    grid = {"joint": s.sigmas, "offline": s.sigmas, "naive": s.mean_epsilons}.get(buyer, [0.0])
    found = []
    for gamma, value in itertools.product(s.gammas, grid):
        objective, models, expected = None, np.zeros((1, n)), 0.0
        if buyer == "guess":
            models[0, -1] = np.sign(parts.public[1].sum())  # the constant alone
        elif buyer == "baseline":
            models = train(x, y, np.full(y.size, 1.0 / y.size), models, l2)
        else:
            if buyer == "offline":
                epsilons = OfflineMechanism(
                    Uniform(LOWEST, 5 * LOWEST), PaperObjective(mu, value, gamma, s.cap)
                ).run(costs).epsilons  # fmt: skip
                total, a = weights_for(epsilons, l2, n)
            elif choices is not None:
                total, solution, objective = choices.choose(value, gamma)
                a, epsilons = solution.weights, solution.weights * total
            else:
                total = value * y.size
                a, objective = naive_weights(signed, gamma * total * psi, l2, cap)
                epsilons = a * total
            expected = float(psi @ epsilons)
            if total > 0.0:
                models = train(x, y, a, 2.0 * noises / total, l2)
        public, test = error(models, *parts.public).mean(), error(models, *parts.test)
        test_error, test_error_se = mean_and_error(test)
        found.append(
            {"split": seed, "buyer": buyer, "gamma": gamma, "mu": mu, "l2": l2,
             "sigma": value if buyer != "naive" else 0.0, "mean_epsilon": value if buyer == "naive" else 0.0,
             "objective": objective, "public_overall": public + gamma * expected, "test_error": test_error,
             "test_error_se": test_error_se, "payments": expected, "overall": test_error + gamma * expected,
             "fixed": 0, "tuned": 0}
        )  # fmt: skip
    return found


def mark(rows):
    """Mark the best setting at each gamma, and the one with the least mean ratio to the best at each."""
    by_gamma = {row["gamma"]: min(rows, key=lambda r, g=row["gamma"]: (r["gamma"] != g, r["public_overall"]))
                for row in rows}  # fmt: skip
    for row in by_gamma.values():
        row["tuned"] = 1
    lowest = min(row["mean_epsilon"] for row in rows)
    printed = [row for row in rows if row["mean_epsilon"] == lowest]
    regrets = {}
    for row in printed:
        best = min(r["public_overall"] for r in printed if r["gamma"] == row["gamma"])
        setting = (row["mu"], row["sigma"], row["l2"])
        regrets[setting] = regrets.get(setting, 0.0) + row["public_overall"] / max(best, 1e-6)
    chosen = min(regrets, key=regrets.__getitem__)
    for row in printed:
        row["fixed"] = int((row["mu"], row["sigma"], row["l2"]) == chosen)


def means(table, which):
    """Return means and standard errors over splits, by buyer and gamma."""
    names = ("test_error", "payments", "overall")
    errors = [
        (pl.col(name).std() / math.sqrt(table["split"].n_unique())).alias(f"{name}_se") for name in names
    ]
    groups = table.filter(pl.col(which) == 1).group_by("buyer", "gamma")
    return groups.agg(*[pl.col(name).mean() for name in names], *errors).sort("gamma")


def draw(table):
    drawn, axes = figure(rows=2, columns=2)
    fixed, tuned = means(table, "fixed"), means(table, "tuned")
    panels = ((fixed, "test_error", "a. Misclassification error", 2), (fixed, "payments", "a. Payments", 2),
              (fixed, "overall", "b. Overall error, one setting for all γ", 4),
              (tuned, "overall", "b. Overall error, all tuned at each γ", 5))  # fmt: skip
    for ax, (part, name, title, count) in zip(axes, panels, strict=True):
        for buyer, colour in zip(list(BUYERS)[:count], COLOURS, strict=False):
            lines(ax, part.filter(buyer=buyer), "gamma", name, error=f"{name}_se")
            ax.lines[-1].set(color=colour, label=BUYERS[buyer])
            ax.collections[-1].set_facecolor(colour)
        label(ax, title, "γ", name.replace("_", " "), log="xy" if name == "payments" else "x")
    axes[2].set_ylim(0.0, 0.95)
    axes[3].set_ylim(0.0, 0.95)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
