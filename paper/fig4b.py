"""Fig. 4b: error and loss against mu, the price of uneven weights, for given epsilons.

The paper's section II: minimise <a, loss(w)> + Lambda/2 |w|^2 + mu |a|^2 + sigma/eta over w, eta and weights
0 <= a_i <= min(eps_i/eta, k/m) that sum to 1; then train with noise. Weights that look at the records are not
private. Costs c come from U[low, 5] and person i has epsilon scale/c_i (the text names costs, no epsilons);
with low = 5 all epsilons are equal.
"""

import itertools

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from common import figure, in_parallel, label, main, mean_and_error
from printed import draw_noise, error, train
from records import synthetic

BASE = {"n": 10, "scale": 5.0, "sigma": 10.0, "l2": 0.05, "k": 10.0, "low": 1.0}
SETTINGS = {
    "records": 300,
    "test_records": 2_000,
    "given": [BASE, BASE | {"n": 5}, BASE | {"scale": 2.0}, BASE | {"sigma": 1.0}, BASE | {"l2": 0.2},
              BASE | {"k": 4.0}, BASE | {"scale": 10.0, "low": 5.0}, BASE | {"low": 3.0}],
    "mus": np.geomspace(0.1, 1e4, 11).round(10).tolist(),
    "other_mus": [0.1, 10.0, 100.0, 1e4],
    "grid": 16,
    "starts": 3,
    "noise_draws": 15,
    "data_sets": [12, 6],
    "seed": 0,
}  # fmt: skip
QUICK = {"given": [BASE], "mus": [1.0, 100.0, 1e4], "grid": 6, "starts": 1, "data_sets": [3, 3]}
OTHERS = ("without terms", "equal weights", "proportional")


def compute(s):
    tasks = [(s, g, "joint", mu) for g in s.given for mu in (s.mus if g == s.given[0] else s.other_mus)]
    yield from in_parallel(setting, tasks + [(s, g, name, 0.0) for g in s.given for name in OTHERS])


def setting(s, g, method, mu):
    """Return train and test error, loss with noise, and loss at the choice."""
    found = []
    for k in range(s.data_sets[g != s.given[0]]):
        (rows, signs), test = synthetic(s.records, s.test_records, g["n"], s.seed + k)
        rng = np.random.default_rng([s.seed, k, 5])
        epsilons = g["scale"] / rng.uniform(g["low"], 5.0, s.records)
        eta, a, chosen_loss = choose(s, g, method, mu, (signs[:, None] * rows, epsilons, rng))
        draws = np.random.default_rng([s.seed, k, 6])
        pulls = np.array([2.0 * draw_noise(g["n"], draws) for _ in range(s.noise_draws)]) / eta
        w = train(rows, signs, a, pulls, g["l2"])
        loss = (np.logaddexp(0.0, -signs * (w @ rows.T)) @ a).mean()
        found.append((error(w, rows, signs).mean(), error(w, *test).mean(), loss, chosen_loss, eta))
    row = {"given": name_of(g), "method": method, "mu": mu}
    names = ("train_error", "test_error", "loss", "chosen_loss", "total")
    for name, values in zip(names, np.transpose(found), strict=True):
        row[name], row[f"{name}_se"] = mean_and_error(values)
    return [row]


def choose(s, g, method, mu, data):
    """Return total, weights and the loss there."""
    signed, epsilons, rng = data
    m, largest = epsilons.size, float(epsilons.sum())
    grid = np.geomspace(largest / 30.0, largest * (1.0 - 1e-9), s.grid)
    starts = np.vstack([np.zeros(g["n"]), rng.standard_normal((s.starts - 1, g["n"]))])
    if method == "equal weights":
        return m * float(epsilons.min()), np.full(m, 1.0 / m), 0.0
    if method == "proportional":
        return largest, epsilons / largest, 0.0
    best = (np.inf, 0.0, epsilons, 0.0)
    for eta, start in itertools.product(grid, starts):
        limits = np.minimum(epsilons / eta, g["k"] / m)
        found = alternate if method == "without terms" else descend
        value, a, w = found(signed, limits, g["l2"], mu, start)
        total = value + (0.0 if method == "without terms" else g["sigma"] / eta)
        # Without terms the larger total is taken at equal values, which favours this buyer.
        if total < best[0] or (method == "without terms" and total <= best[0] + 1e-9):
            best = total, eta, a, float(a @ np.logaddexp(0.0, -(signed @ w)))
    return best[1:]


def descend(signed, limits, l2, mu, start):
    """Return value, weights and coefficients with a price of uneven weights: they are a projection."""

    def value(w):
        margins = signed @ w
        losses = np.logaddexp(0.0, -margins)
        a = project_below(losses * (-0.5 / mu), limits)
        return a @ losses + mu * (a @ a) + 0.5 * l2 * (w @ w), l2 * w - (a * expit(-margins)) @ signed

    found = minimize(value, start, jac=True, method="L-BFGS-B")
    return found.fun, project_below(np.logaddexp(0.0, -(signed @ found.x)) * (-0.5 / mu), limits), found.x


def alternate(signed, limits, l2, mu, start):
    """Return the same for mu = 0, by turns: the records with the least loss get all the weight allowed."""
    w, value = start, np.inf
    while True:
        order = np.argsort(np.logaddexp(0.0, -(signed @ w)), kind="stable")
        before = np.cumsum(limits[order]) - limits[order]
        a = np.zeros_like(limits)
        a[order] = np.clip(1.0 - before, 0.0, limits[order])
        w = train(signed, np.ones(limits.size), a, np.zeros((1, w.size)), l2)[0]
        reached = a @ np.logaddexp(0.0, -(signed @ w)) + 0.5 * l2 * (w @ w)
        if reached >= value - 1e-12:
            return reached, a, w
        value = reached


def project_below(point, limits):
    """Return the nearest weights between 0 and individual limits that sum to 1."""
    kinks = np.concatenate([point - limits, point])
    order = np.argsort(kinks, kind="stable")
    slopes, kinks = np.where(order < point.size, -1.0, 1.0), kinks[order]
    sums = limits.sum() + np.concatenate([[0.0], np.cumsum(np.cumsum(slopes)[:-1] * np.diff(kinks))])
    threshold = np.interp(-1.0, -sums, kinks)
    return np.clip(point - threshold, 0.0, limits)


def name_of(g):
    spread = "all equal" if g["low"] == 5.0 else f"c from {g['low']:g} to 5"
    return (
        f"n = {g['n']}, ε = {g['scale']:g}/c, {spread}, σ = {g['sigma']:g}, Λ = {g['l2']:g}, k = {g['k']:g}"
    )


def draw(table):
    drawn, (left, right) = figure(columns=2)
    part = table.filter(given=name_of(BASE), method="joint")
    for name, colour in (("train_error", "#1b6ca8"), ("test_error", "#c8553d"), ("chosen_loss", "#3c8d5a")):
        left.errorbar(
            part["mu"], part[name], 2 * part[f"{name}_se"], color=colour, label=name.replace("_", " ")
        )
    label(left, "Paper's setting as read here", "μ", "error, weighted loss", log="x")
    usual = name_of(BASE).split(", ")
    for (name,), group in table.filter(method="joint").group_by("given", maintain_order=True):
        changed = ", ".join(part for part in name.split(", ") if part not in usual)
        right.plot(group["mu"], group["test_error"], marker="o", label=changed or "as on the left")
    label(right, "Other settings, test error", "μ", "error", log="x")
    right.legend(fontsize=6)
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
