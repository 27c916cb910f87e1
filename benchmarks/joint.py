"""Reduced solver against the paper's descent to the same objective, growth with m, and whole runs."""

import numpy as np

import dpmarket as dpm
from _timing import best_seconds, compare, print_table
from dpmarket.datasets import breast_cancer, separable
from dpmarket.mechanisms.joint.solving import Market

NOISE = dpm.SeededNoise(0)


def records(data, radius, count):
    X = dpm.PublicScaler(data.low, data.high, radius=radius).fit_transform(data.features)
    return X[:count], data.signs[:count]


def inner(X, y, l2, concentration, reading, sigma, total_epsilon):
    """The problem at one total epsilon, costs as in the paper's experiment."""
    dist = dpm.Uniform(np.exp(-4.0), 5 * np.exp(-4.0))
    costs = dist.sample(len(y), np.random.default_rng(0))
    objective = dpm.BuyerObjective(concentration, sigma, 0.1)
    mechanism = dpm.JointMechanism(dist, objective, l2, reading=reading, noise_source=NOISE)
    setting = mechanism.with_records(X, y).setting
    return setting.problem(Market.of(setting, dpm.virtual_costs(costs, dist)), total_epsilon)


def against_descent():
    X, y = records(breast_cancer(), 2.0, 455)
    m, n = X.shape
    start = np.random.default_rng(1).standard_normal(n)
    rows = []
    for l2 in (0.5, 1.0, 2.0, 10.0):
        for name, reading, sigma in (
            ("expected noise", dpm.ExpectedNoise(), 1.0),
            ("|w| <= 1", dpm.BoundedCoefficients(1.0), 150.0),
        ):
            problem = inner(X, y, l2, 1.05 * m / (2 * l2), reading, sigma, 30.0)
            fast, slow = (
                solver.solve(problem, start) for solver in (dpm.ReducedSolver(), dpm.PaperDescent())
            )
            ours = best_seconds(lambda p=problem: dpm.ReducedSolver().solve(p, start), repeat=30)
            peer = best_seconds(lambda p=problem: dpm.PaperDescent().solve(p, start), repeat=1)
            rows.append(
                [
                    f"l2 = {l2}, {name}",
                    f"{len(fast.trace)}",
                    f"{len(slow.trace):,}",
                    f"{ours * 1e3:.2f} ms",
                    f"{peer * 1e3:,.0f} ms",
                    f"{peer / ours:,.0f}",
                    f"{abs(fast.value - slow.value):.0e}",
                ]
            )
    print_table(
        f"Breast cancer, m = {m}, n = {n}, 2*l2*mu = 1.05 m: time of the descent divided by ours (aim 50)",
        ["problem", "our steps", "its steps", "ours", "descent", "ratio", "difference"],
        rows,
    )


def growth():
    rows, before, peer_before = [], None, None
    for m in (1_000, 10_000, 100_000, 1_000_000):
        X, y = records(separable(m, 10, np.random.default_rng(0), flips=0.1), 4.0, m)
        problem = inner(X, y, 1.0, 1.05 * m / 2, dpm.ExpectedNoise(), 1.0, 30.0)
        start = np.zeros(10)
        steps = len(dpm.ReducedSolver().solve(problem, start).trace)
        ours, peer = compare(
            [
                lambda p=problem, s=start: dpm.ReducedSolver().solve(p, s),
                lambda p=problem: np.argsort(p.prices),
            ],
            repeat=3,
        )
        rows.append(
            [
                f"{m:,}",
                f"{steps}",
                f"{ours * 1e3:,.1f} ms",
                f"{ours / peer:.1f}",
                "" if before is None else f"{ours / before:.1f}",
                "" if before is None else f"{peer / peer_before:.1f}",
            ]
        )
        before, peer_before = ours, peer
    print_table(
        "Growth with the number of sellers, n = 10; numpy.argsort is m log m (aim: the ratio does not rise)",
        ["sellers", "steps", "time", "ratio", "growth", "argsort's growth"],
        rows,
    )


def whole_runs():
    X, y = records(breast_cancer(), 2.0, 455)
    dist = dpm.Uniform(np.exp(-4.0), 5 * np.exp(-4.0))
    costs = dist.sample(455, np.random.default_rng(0))
    rows = []
    for name, l2, mu in (("convex", 1.0, 240.0), ("not convex", 0.05, 1.0)):
        for rule in (dpm.ExpectedPayments(), dpm.EnvelopePayments()):
            mechanism = dpm.JointMechanism(
                dist, dpm.BuyerObjective(mu, 1.0, 0.1), l2, payments=rule, noise_source=NOISE
            )
            outcome = mechanism.run(costs, X, y)
            seconds = best_seconds(lambda k=mechanism: k.run(costs, X, y), repeat=2)
            rows.append(
                [
                    f"{name}, {type(rule).__name__}",
                    f"{int((outcome.epsilons > 0).sum())}",
                    f"{outcome.stationary_points}",
                    f"{seconds:.2f} s",
                ]
            )
    print_table(
        "Whole runs on breast cancer, m = 455: grid, refinement, training and payments",
        ["run", "bought", "stationary points", "time"],
        rows,
    )


if __name__ == "__main__":
    against_descent()
    growth()
    whole_runs()
