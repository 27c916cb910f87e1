"""Theorems `thm: asymptotic` and `thm: perf bounds`: error plus payments on separable data, many sellers."""

import numpy as np

from common import figure, in_parallel, label, lines, main, mean_and_error
from dpmarket.costs import Uniform, VirtualCost
from dpmarket.mechanisms import OfflineMechanism, PaperObjective, paper_schedule, population_schedule
from printed import draw_noise, error, train_in_ball
from records import with_margin

SETTINGS = {
    "sellers": [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000],
    "features": 5,
    "margin": 1.0,
    "betas": [5.0, 20.0],
    "gamma": 1e-3,
    "allowance": 0.1,
    "test_records": 4_000,
    "draws": 40,
    "seed": 0,
}
QUICK = {"sellers": [100, 3_000], "betas": [20.0], "draws": 5}


def compute(s):
    yield from in_parallel(markets, [(s, m) for m in sorted(s.sellers, reverse=True)])


def markets(s, m):
    """Return the buyer's objective of three ways to buy; costs from U[0, 1], mu = sigma = 1."""
    dist, objective = Uniform(0.0, 1.0), PaperObjective(1.0, 1.0, s.gamma)
    schedules = {
        "Algorithm 3": paper_schedule(VirtualCost.of(dist), objective, m, 0.5),
        "population": population_schedule(dist, objective, m),
    }
    found = {}
    for draw in range(s.draws):
        rng = np.random.default_rng([s.seed, draw, m])
        normal = rng.standard_normal(s.features)
        normal /= np.linalg.norm(normal)
        rows, signs, margin = with_margin(m, normal, s.margin, rng)
        test = with_margin(s.test_records, normal, s.margin, rng)[:2]
        costs = dist.sample(m, rng)
        noise = draw_noise(s.features, rng)
        outcome = OfflineMechanism(dist, objective).run(costs)
        bought = {"offline": (outcome.epsilons, outcome.payments)}
        bought |= {name: schedule.quote(costs) for name, schedule in schedules.items()}
        for name, (epsilons, payments) in bought.items():
            eta = float(epsilons.sum())
            for beta in s.betas:
                w = train_in_ball(rows, signs, epsilons / eta, 2.0 * noise / eta, beta)
                values = (error(w, *test)[0], float(payments.sum()), np.logaddexp(0.0, -margin * beta))
                found.setdefault((name, beta), []).append(values)
    return [row(s, m, *key, np.array(values)) for key, values in found.items()]


def row(s, m, name, beta, values):
    errors, payments, floors = values.T
    objectives = errors + s.gamma * payments
    objective, objective_se = mean_and_error(objectives)
    return {
        "sellers": m, "buyer": name, "beta": beta, "objective": objective, "objective_se": objective_se,
        "error": float(errors.mean()), "payments": float(payments.mean()), "floor": float(floors.mean()),
        "exceeding": float((objectives >= floors + s.allowance).mean()),
    }  # fmt: skip


def draw(table):
    drawn, axes = figure(columns=2)
    for ax, beta in zip(axes, (5.0, 20.0), strict=True):
        part = table.filter(beta=beta).sort("sellers")
        if part.height:
            lines(ax, part, "sellers", "objective", "buyer", "objective_se")
            floors = part.filter(buyer="offline")
            ax.plot(floors["sellers"], floors["floor"], "k:", label="log(1 + exp(-ρβ))")
            label(ax, f"error + γ·payments, β = {beta:g}", "sellers m", "objective", log="x")
    return drawn


if __name__ == "__main__":
    main(__file__, SETTINGS, QUICK, compute, draw)
