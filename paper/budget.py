"""Contributions: the budget that an excess risk mu|a| + sigma/eta takes, against the number of sellers.

On U[0, 1] it is about 6/(m T^3) for a risk of T. The package plans with 1,000 quantiles of the costs: where
fewer than one in 100 of the sellers are bought from, that is up to 2% off.
"""

import math

from common import figure, in_parallel, label, main
from dpmarket.costs import Uniform
from dpmarket.mechanisms import PaperObjective, budget_for_error

SETTINGS = {
    "supports": [[1.0, 5.0], [0.0, 1.0]],
    "targets": [0.1, 0.2],
    "sellers": [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000],
}
QUICK = {"targets": [0.1], "sellers": [100, 1_000, 10_000]}


def compute(s):
    tasks = [(*support, target, m) for support in s.supports for target in s.targets for m in s.sellers]
    yield from in_parallel(budget, tasks)


def budget(low, high, target, m):
    """Return the expected payments of the plan that just reaches the target; none where no money does."""
    objective, found = PaperObjective(1.0, 1.0, 1.0), None
    if target > 1.0 / math.sqrt(m):  # |a| is at least this
        found = budget_for_error(Uniform(low, high), objective, m, target, minor_unit=1e-9)
    # For ever more sellers: all epsilon from those of the lowest virtual cost, and |a| = 0.
    return [
        {"low": low, "high": high, "target": target, "sellers": m, "budget": found, "limit": low / target}
    ]


def draw(table):
    drawn, axes = figure(columns=2)
    for ax, low in zip(axes, (1.0, 0.0), strict=True):
        for (target,), part in table.filter(low=low).group_by("target", maintain_order=True):
            line = ax.plot(part["sellers"], part["budget"], "o-", label=f"excess risk {target:g}")[0]
            if low:
                ax.axhline(part["limit"][0], color=line.get_color(), linestyle=":")
        label(ax, f"costs {'U[1, 5], limits dotted' if low else 'U[0, 1]'}", "sellers m", "budget", log="xy")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
