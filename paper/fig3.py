"""Fig. 3: the proxy loss of online and offline buying, and their ratio, against the number of sellers.

On costs U[1, 5], as in the paper, whose virtual costs have no mass at 0, and on U[0, 1], where the theory's
assumption holds. The paper prints no mu, sigma and gamma; in units of sqrt(sigma gamma) every loss depends on
mu^2/(sigma gamma) alone (``scale``), so that several gamma stand for all choices. Algorithm 3 divides by the
density of virtual costs at 0; where that is 0, their density at the lower end is read ("Algorithm 3"), or
that of the costs ("Algorithm 3, f_C"). "population" is the package's schedule.
"""

import numpy as np

from common import figure, in_parallel, label, lines, main, mean_and_error
from dpmarket.costs import Uniform
from dpmarket.mechanisms import PaperObjective, population_schedule
from printed import algorithm3, optimal_epsilons, proxy_loss

SETTINGS = {
    "supports": [[1.0, 5.0], [0.0, 1.0]],
    "sellers": [30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
    "gammas": [1e-2, 1e-3, 1e-4, 1e-5, 1e-6],
    "draws": 12,
    "seed": 0,
}
QUICK = {"sellers": [30, 100, 1_000, 10_000], "gammas": [1e-3, 1e-5], "draws": 2}
SHOWN = 1e-5


def compute(s):
    tasks = [(s, low, high, m) for low, high in s.supports for m in s.sellers]
    yield from in_parallel(market, tasks)


def market(s, low, high, m):
    """Return the rows of one number of sellers."""
    dist, density = Uniform(low, high), 0.5 / (high - low)
    losses = {}
    schedules = {gamma: population_schedule(dist, PaperObjective(1.0, 1.0, gamma), m) for gamma in s.gammas}
    for draw in range(s.draws):
        costs = np.sort(dist.sample(m, np.random.default_rng([s.seed, draw, m])))
        psi = 2.0 * costs - low
        for gamma in s.gammas:
            terms = (1.0, 1.0, gamma)
            bought = {
                "Algorithm 3": algorithm3(psi, *terms, m, density),
                "population": schedules[gamma].quote(costs)[0],
            }
            if low > 0.0:
                bought["Algorithm 3, f_C"] = algorithm3(psi, *terms, m, 2.0 * density)
            losses.setdefault((gamma, "offline"), []).append(optimal_epsilons(psi, *terms)[0])
            for name, epsilons in bought.items():
                losses.setdefault((gamma, name), []).append(proxy_loss(epsilons, psi, *terms))
    return [row(low, high, m, key, values, losses) for key, values in losses.items()]


def row(low, high, m, key, values, losses):
    """Return means over the draws; none where nobody is bought from in some of them."""
    gamma, name = key
    found = {
        "low": low,
        "high": high,
        "gamma": gamma,
        "scale": round(1.0 / gamma),
        "sellers": m,
        "buyer": name,
    }
    values = np.array(values)
    if np.isinf(values).any():
        nothing = dict.fromkeys(("loss", "loss_se", "ratio", "ratio_se"))
        return found | nothing | {"nobody": float(np.isinf(values).mean())}
    ratios = values / np.array(losses[gamma, "offline"])
    (loss, loss_se), (ratio, ratio_se) = mean_and_error(values), mean_and_error(ratios)
    return found | {"loss": loss, "loss_se": loss_se, "ratio": ratio, "ratio_se": ratio_se, "nobody": 0.0}


def draw(table):
    drawn, axes = figure(rows=2, columns=2)
    for ax, low in zip(axes[::2], (1.0, 0.0), strict=True):
        part = table.filter(low=low, gamma=SHOWN)
        lines(ax, part, "sellers", "loss", "buyer", "loss_se")
        costs = "U[1, 5]" if low else "U[0, 1]"
        label(ax, f"a. Loss, costs {costs}, μ²/(σγ) = 100,000", "sellers m", "proxy loss", log="xy")
    for ax, low in zip(axes[1::2], (1.0, 0.0), strict=True):
        part = table.filter(low=low, buyer="Algorithm 3").sort("scale", "sellers")
        lines(ax, part, "sellers", "ratio", "scale")
        costs = "U[1, 5]" if low else "U[0, 1]"
        label(ax, f"b. Algorithm 3 over offline, costs {costs}", "sellers m", "ratio", log="x")
        ax.get_legend().set_title("μ²/(σγ)")
        ax.set_ylim(0.95, 3.0)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
