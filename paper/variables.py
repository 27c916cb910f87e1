"""Contributions: descent over (w, a) at each eta, and over the epsilons themselves.

The appendix objective with the noise at its mean. The direct descent over (w, eps) chooses its step by
backtracking, which favours it: no step size is safe everywhere.
"""

import math

import numpy as np
from scipy.special import expit

from common import figure, in_parallel, label, main
from descent import descend
from dpmarket.mechanisms.joint import Inner
from printed import JointChoices
from records import sellers_of_wisconsin

SETTINGS = {
    "l2_mu_sigma": [[20.0, 10.0, 10.0], [1.0, 200.0, 10.0], [1.0, 100.0, 100.0], [1.0, 2.0, 10.0]],
    "gamma": 1e-3,
    "starts": [0.1, 1.0, 10.0],
    "grid": np.geomspace(0.1, 10.0, 21).round(10).tolist(),
    "accuracy": 1e-6,
    "most": 20_000,
    "points": 15,
    "seed": 0,
}
QUICK = {"l2_mu_sigma": [[20.0, 10.0, 10.0]], "starts": [1.0], "most": 500}


def compute(s):
    yield from in_parallel(descents, [(s, *setting) for setting in s.l2_mu_sigma])


def descents(s, l2, mu, sigma):
    """Return the gap to the optimum after ever more steps, for both sets of variables."""
    rng = np.random.default_rng([s.seed, 9])
    rows, _, psi = sellers_of_wisconsin(s.seed, rng)
    best = JointChoices(rows, psi, l2, mu, 1.0, np.array([sigma * s.gamma])).choose(sigma, s.gamma)[2]
    w = rng.standard_normal(rows.shape[1])
    found = []
    for mean in s.starts:
        problem = (rows, psi, l2, mu, sigma, s.gamma)
        trace = over_epsilons(problem, w, np.full(psi.size, mean), best * (1.0 + s.accuracy), s.most)
        found += traced(s, "epsilons", mean, np.array(trace) / best - 1.0)
    steps, lowest, longest = 0, math.inf, np.empty(0)
    for mean in s.grid:
        eta = mean * psi.size
        inner = Inner(rows, s.gamma * eta * psi, np.zeros(rows.shape[1]), l2, mu, 1.0)
        gaps = np.array(descend(inner, w, 1e-7, 400_000)[1])
        end = gaps.min()
        used = int(np.argmax(gaps - end <= s.accuracy * abs(best)))
        steps += used
        lowest = min(lowest, end + sigma / eta)
        if used >= longest.size - 1:
            longest = (gaps[: used + 1] - end) / best
    found += traced(s, "weights", None, longest)
    shared = {
        "l2": l2,
        "mu": mu,
        "sigma": sigma,
        "line_search_steps": steps,
        "line_search_gap": lowest / best - 1.0,
    }
    return [shared | row for row in found]


def traced(s, variables, start, gaps):
    chosen = np.unique(np.linspace(0, gaps.size - 1, s.points).round().astype(int))
    return [{"variables": variables, "start": start, "step": int(k), "gap": float(max(gaps[k], 0.0)),
             "steps": gaps.size - 1, "end_gap": float(max(gaps[-1], 0.0))} for k in chosen]  # fmt: skip


def over_epsilons(problem, w, epsilons, enough, most):
    """Return the objective after every step of projected descent over (w, eps)."""
    rows, psi, l2, mu, sigma, gamma = problem

    def value(w, epsilons):
        total = epsilons.sum()
        if not total > 0.0:
            return math.inf
        losses = np.logaddexp(0.0, -(rows @ w))
        spread = mu * (epsilons @ epsilons) / total**2
        return (epsilons @ losses + sigma) / total + 0.5 * l2 * (w @ w) + spread + gamma * (epsilons @ psi)

    step, now = 1.0, value(w, epsilons)
    trace = [now]
    while len(trace) <= most and now > enough:
        total, margins = epsilons.sum(), rows @ w
        losses = np.logaddexp(0.0, -margins)
        by_w = l2 * w - ((epsilons / total) * expit(-margins)) @ rows
        shared = (epsilons @ losses + sigma) / total**2 + 2.0 * mu * (epsilons @ epsilons) / total**3
        by_epsilons = losses / total + 2.0 * mu * epsilons / total**2 - shared + gamma * psi
        step *= 2.0
        while True:
            moved = w - step * by_w, np.maximum(epsilons - step * by_epsilons, 0.0)
            changes = moved[0] - w, moved[1] - epsilons
            model = by_w @ changes[0] + by_epsilons @ changes[1]
            length = changes[0] @ changes[0] + changes[1] @ changes[1]
            reached = value(*moved)
            if reached <= now + model + length / (2.0 * step) + 1e-15:
                break
            step *= 0.5
        (w, epsilons), now = moved, reached
        trace.append(now)
    return trace


def draw(table):
    groups = list(table.group_by("l2", "mu", "sigma", maintain_order=True))
    drawn, axes = figure(columns=len(groups), width=2.9)
    for ax, ((l2, mu, sigma), part) in zip(axes, groups, strict=True):
        for (variables, start), line in part.group_by("variables", "start", maintain_order=True):
            name = "over (w, a), slowest η" if variables == "weights" else f"over (w, ε) from {start:g}"
            ax.plot(line["step"] + 1, line["gap"] + 1e-9, "o-", label=name)
        label(ax, f"Λ = {l2:g}, μ = {mu:g}, σ = {sigma:g}", "steps", "relative gap", log="xy")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
