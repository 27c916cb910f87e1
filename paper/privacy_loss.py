"""Proposition `algoproof`: the privacy loss of one weight: as claimed, as the package bounds it, as found.

One record of weight 1/m is replaced, all else fixed. ``found`` is the largest ratio of exact output densities
over the record, its replacement, the others' and the output, in two dimensions.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from common import figure, in_parallel, label, main
from dpmarket.privacy import NoiseNorm, Release, logistic_loss, paper_privacy_loss

SETTINGS = {
    "people_and_eta": [[20, 20.0], [5, 20.0], [100, 20.0], [20, 4.0], [20, 100.0], [1_000, 1.0]],
    "products": np.geomspace(2e-3, 20.0, 13).round(10).tolist(),  # of l2 and eta
}
QUICK = {"people_and_eta": [[20, 20.0], [1_000, 1.0]], "products": [0.02, 0.1, 2.0]}


def compute(s):
    yield from in_parallel(
        losses, [(m, eta, product) for m, eta in s.people_and_eta for product in s.products]
    )


def losses(m, eta, product):
    l2, weights = product / eta, np.full(m, 1.0 / m)
    release = Release(logistic_loss(), NoiseNorm.euclidean(2), l2)
    return [{
        "people": m, "eta": eta, "product": product, "l2": l2, "without_slack": eta / m,
        "paper": float(paper_privacy_loss(weights, eta, l2, weight_cap=1.0 + 1e-9)[0]),
        "package": float(release.epsilons(weights, eta)[0]), "found": search(1.0 / m, eta, l2),
    }]  # fmt: skip


def log_density(w, rows, weights, eta, l2):
    """Return the log density of the output w, but for a constant; rows are multiplied by their labels."""
    s = expit(-(rows @ w))
    noise = (weights * s) @ rows - l2 * w
    hessian = l2 * np.eye(2) + (rows.T * (weights * s * (1.0 - s))) @ rows
    return -0.5 * eta * np.linalg.norm(noise) + np.linalg.slogdet(hessian)[1]


def search(weight, eta, l2):
    """Return the largest log ratio found: rows almost across a long output have any margin one likes."""

    def ratio(point, sides):
        length, margins = np.exp(np.clip(point[0], -5.0, 25.0)), point[1:4]
        along = np.clip(margins / length, -1.0, 1.0)
        own, replaced, others = np.column_stack([along, np.sqrt(1.0 - along**2) * sides])
        w, both = np.array([length, 0.0]), np.array([weight, 1.0 - weight])
        densities = [log_density(w, np.array([row, others]), both, eta, l2) for row in (own, replaced)]
        return abs(densities[0] - densities[1])

    best, options = 0.0, {"maxfev": 2_000, "adaptive": True}
    for sides in ([1.0, -1.0, -1.0], [1.0, -1.0, 1.0], [1.0, 1.0, -1.0]):
        starts = [[np.log(length), own, far, others] for length in np.geomspace(0.3, 1e6, 14)
                  for own in (-3.0, -1.0, 0.0, 1.0, 3.0, 12.0) for far in (-40.0, -1.0, 1.0, 40.0)
                  for others in (-40.0, 0.0, 40.0)]  # fmt: skip
        starts.sort(key=lambda point, sides=sides: ratio(np.array(point), sides))
        for start in starts[-6:]:
            found = minimize(
                lambda p, sides=sides: -ratio(p, sides), start, method="Nelder-Mead", options=options
            )
            best = max(best, -float(found.fun))
    return best


def draw(table):
    drawn, axes = figure(columns=2)
    for ax, (m, eta) in zip(axes, ((20, 20.0), (1_000, 1.0)), strict=True):
        part = table.filter(people=m, eta=eta)
        names = {
            "paper": "Proposition",
            "package": "package's bound",
            "found": "found",
            "without_slack": "a·η alone",
        }
        for (name, text), style in zip(names.items(), ("s-", "-", "o", ":"), strict=True):
            ax.plot(part["product"], part[name], style, label=text)
        label(ax, f"{m:,} people, η = {eta:g}", "Λη", "privacy loss", log="xy")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
