"""Lemma `thm: offline perf` and its assumption's footnote: how fast the proxy loss falls, and how surely.

Costs with a density above 0 at 0 (U[0, 1], U[0, 3], e^-c on [0, 1]), or one that rises like c^n from 0. Their
virtual costs are known in closed form.
"""

import math

import numpy as np

from common import figure, in_parallel, label, lines, main, mean_and_error
from printed import leading_term, optimal_epsilons

SETTINGS = {
    "gammas": [1e-2, 1e-3],
    "sellers": [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000],
    "excess": 0.125,
    "margin": 0.05,
    "draws": 1_000,
    "seed": 0,
}
QUICK = {"gammas": [1e-2], "sellers": [300, 3_000, 30_000], "draws": 60}
# Virtual cost at a share of the population, density of virtual costs at 0, power of the density of costs.
COSTS = {
    "U[0, 1]": (lambda share: 2.0 * share, 0.5, 0),
    "U[0, 3]": (lambda share: 6.0 * share, 1.0 / 6.0, 0),
    "e^-c on [0, 1]": (lambda share: falling(share), 0.5 / (1.0 - math.exp(-1.0)), 0),
    "2c on [0, 1]": (lambda share: 1.5 * np.sqrt(share), None, 1),
    "3c^2 on [0, 1]": (lambda share: np.cbrt(share) * 4.0 / 3.0, None, 2),
}


def falling(share):
    """Return the virtual costs of costs with a density like e^-c on [0, 1]."""
    costs = -np.log1p(-share * (1.0 - math.exp(-1.0)))
    return costs + np.expm1(costs)


def compute(s):
    yield from in_parallel(market, [(s, m) for m in s.sellers])


def market(s, m):
    """Return the rows of one number of sellers: mean, spread and excess of the loss."""
    losses = {(name, gamma): np.empty(s.draws) for name in COSTS for gamma in s.gammas}
    for draw in range(s.draws):
        shares = np.sort(np.random.default_rng([s.seed, draw, m]).random(m))
        for name, (virtual, _, _) in COSTS.items():
            psi = virtual(shares)
            for gamma in s.gammas:
                losses[name, gamma][draw] = optimal_epsilons(psi, 1.0, 1.0, gamma)[0]
    return [row(s, m, name, gamma, values) for (name, gamma), values in losses.items()]


def row(s, m, name, gamma, values):
    _, density, power = COSTS[name]
    lead = None if density is None else leading_term(1.0, 1.0, gamma, density, m)
    limit = None if lead is None else lead * (1.0 + s.margin * m**-s.excess)
    loss, loss_se = mean_and_error(values)
    return {
        "costs": name, "power": power, "scale": round(1.0 / gamma), "sellers": m, "loss": loss,
        "loss_se": loss_se,
        "spread": float(values.std(ddof=1)) / loss, "leading": lead,
        "exceeding": None if limit is None else float((values > limit).mean()),
    }  # fmt: skip


def draw(table):
    drawn, (left, right) = figure(columns=2)
    part = table.filter(scale=100)
    lines(left, part, "sellers", "loss", "costs")
    leading = part.filter(costs="U[0, 1]")
    left.plot(leading["sellers"], leading["leading"], "k:", label="leading term, U[0, 1]")
    label(left, "Proxy loss, μ²/(σγ) = 100", "sellers m", "loss", log="xy")
    lines(right, part.filter(power=0), "sellers", "exceeding", "costs")
    label(right, "Markets above the margin", "sellers m", "share above 1 + 0.05 m^(-1/8)", log="x")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
