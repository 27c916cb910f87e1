"""Fig. 2 with other settings: features, caps, shares of sellers, penalties; smaller grids than fig2.py."""

from types import SimpleNamespace

import fig2
from common import figure, label, lines, main

BASE = fig2.SETTINGS | {
    "gammas": [1e-5, 1e-3, 1e-1],
    "mus": [100.0],
    "sigmas": [10.0],
    "l2s": [0.1, 1.0],
    "mean_epsilons": [0.01, 1.0],
    "splits": [0, 1],
}
SETTINGS = {
    "base": BASE,
    "variants": {
        "ten features": {"features": "means"},
        "k = 2": {"cap": 2.0},
        "k = 20": {"cap": 20.0},
        "30% sold": {"seller_share": 0.3},
    },
}
QUICK = {"base": BASE | fig2.QUICK, "variants": {"ten features": {"features": "means"}}}


def compute(s):
    for name, changes in s.variants.items():
        for row in fig2.compute(SimpleNamespace(**s.base | changes)):
            yield {"variant": name} | row


def draw(table):
    names = table["variant"].unique(maintain_order=True)
    drawn, axes = figure(rows=-(-len(names) // 2), columns=min(len(names), 2), width=3.4)
    for ax, name in zip(axes, names, strict=True):
        part = fig2.means(table.filter(variant=name), "tuned")
        part = part.with_columns(buyer=part["buyer"].replace_strict(fig2.BUYERS)).sort("buyer", "gamma")
        lines(ax, part, "gamma", "overall", "buyer", "overall_se")
        label(ax, name, "γ", "overall error", log="x", legend=name == names[0])
        ax.set_ylim(0.0, 0.6)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
