"""Remark in section IV: the cap k/m on weights bounds every epsilon by k times the mean epsilon.

The package raises a cap that would make everybody pivotal, to 1.5/(m - 1); ``allowed`` is the k that holds.
"""

import numpy as np

from common import figure, in_parallel, label, lines, main, mean_and_error
from dpmarket.costs import Uniform
from dpmarket.mechanisms import OfflineMechanism, PaperObjective
from dpmarket.mechanisms.groups import weight_cap
from printed import proxy_loss

SETTINGS = {
    "supports": [[1.0, 5.0], [0.0, 1.0]],
    "sellers": [20, 200, 2_000],
    "caps": [1.0, 1.5, 2.0, 4.0, 8.0, 0.0],  # 0: none
    "gammas": [1e-4, 1e-3, 1e-2, 1e-1],
    "draws": 20,
    "seed": 0,
}
QUICK = {"sellers": [200], "caps": [1.0, 2.0, 0.0], "gammas": [1e-3, 1e-1], "draws": 3}


def compute(s):
    tasks = [(s, *support, m, cap) for support in s.supports for m in s.sellers for cap in s.caps]
    yield from in_parallel(markets, tasks)


def markets(s, low, high, m, cap):
    """Return the largest epsilon over the mean epsilon, and the loss, for each gamma."""
    dist, found = Uniform(low, high), []
    for gamma in s.gammas:
        mechanism = OfflineMechanism(dist, PaperObjective(1.0, 1.0, gamma, cap or None))
        ratios, losses = [], []
        for draw in range(s.draws):
            costs = dist.sample(m, np.random.default_rng([s.seed, draw, m]))
            epsilons = mechanism.run(costs).epsilons
            ratios.append(epsilons.max() / epsilons.mean())
            losses.append(proxy_loss(epsilons, 2.0 * costs - low, 1.0, 1.0, gamma))
        loss, loss_se = mean_and_error(losses)
        found.append(
            {"low": low, "high": high, "sellers": m, "cap": cap, "gamma": gamma, "largest": max(ratios),
             "allowed": m * weight_cap(1.0, m, m, cap or None),
             "mean": float(np.mean(ratios)), "loss": loss, "loss_se": loss_se}
        )  # fmt: skip
    return found


def draw(table):
    drawn, axes = figure(columns=2)
    for ax, low in zip(axes, (1.0, 0.0), strict=True):
        part = table.filter(table["cap"] > 0.0, low=low, sellers=table["sellers"].unique().sort()[-1])
        lines(ax, part, "cap", "largest", "gamma")
        ax.plot([1, 8], [1, 8], "k:", label="k")
        ax.get_lines()[-1].set_zorder(0)
        label(ax, f"costs {'U[1, 5]' if low else 'U[0, 1]'}", "cap k", "largest ε over the mean ε")
        ax.get_legend().set_title("γ")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
