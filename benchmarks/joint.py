"""The data-dependent mechanism's reduced solver against the paper's descent to the same objective.

Also how its time grows with the number of sellers, where ``numpy.argsort`` of the prices grows like m log m,
and how long whole runs take.
"""

import numpy as np

import dpmarket as dpm
from _results import Table, at_least, at_most, measure, tell
from _timing import best_seconds, compare
from dpmarket.datasets import breast_cancer, separable
from dpmarket.mechanisms.joint.optimum import BuyableSellers

NOISE = dpm.privacy.SeededNoise(0)


def records(data, radius, count):
    X = dpm.PublicScaler(data.low, data.high, radius=radius).fit_transform(data.features)
    return X[:count], data.signs[:count]


def inner(X, y, l2, concentration, *, reading, sigma, noise_rate):
    """The problem at one noise rate, costs as in the paper's experiment."""
    dist = dpm.Uniform(np.exp(-4.0), 5 * np.exp(-4.0))
    costs = dist.sample(len(y), np.random.default_rng(0))
    objective = dpm.BuyerObjective(concentration, sigma, 0.1)
    mechanism = dpm.mechanisms.joint.JointMechanism(dist, objective, l2, reading=reading, noise_source=NOISE)
    setting = mechanism.with_records(X, y).setting
    return setting.problem(BuyableSellers.of(setting, dpm.virtual_costs(costs, dist)), noise_rate)


def against_descent():
    X, y = records(breast_cancer(), 2.0, 455)
    m, n = X.shape
    start = np.random.default_rng(1).standard_normal(n)
    rows = []
    for l2 in (1.0, 2.0, 5.0, 10.0):
        for name, reading, sigma in (
            ("expected noise", dpm.mechanisms.joint.ExpectedNoise(), 1.0),
            ("|w| <= 1", dpm.mechanisms.joint.BoundedCoefficients(1.0), 150.0),
        ):
            tell(f"l2 = {l2:g}, {name}")
            problem = inner(X, y, l2, 1.05 * m / (2 * l2), reading=reading, sigma=sigma, noise_rate=30.0)
            fast, slow = (
                solver.solve(problem, start)
                for solver in (dpm.mechanisms.joint.ReducedSolver(), dpm.mechanisms.joint.PaperDescent())
            )
            ours, peer = compare(
                [
                    lambda p=problem: dpm.mechanisms.joint.ReducedSolver().solve(p, start),
                    lambda p=problem: dpm.mechanisms.joint.PaperDescent().solve(p, start),
                ],
                repeat=4,
            )
            rows.append(
                [
                    f"l2 = {l2:g}, {name}",
                    f"{len(fast.trace)}",
                    f"{len(slow.trace):,}",
                    f"{ours * 1e3:.2f} ms",
                    f"{peer * 1e3:,.0f} ms",
                    at_least(50, peer / ours, ",.0f"),
                    f"{abs(fast.value - slow.value):.0e}",
                ]
            )
    yield Table(
        f"Breast cancer, m = {m}, n = {n}, `2*l2*mu = 1.05 m`: time of the descent in times of ours",
        ["problem", "our steps", "its steps", "ours", "descent", "ratio", "difference"],
        rows,
        "Difference: between the two objectives.",
    )


def growth():
    rows, first, before, peer_before = [], None, None, None
    for m in (1_000, 10_000, 100_000, 1_000_000):
        tell(f"{m:,} sellers")
        X, y = records(separable(m, 10, np.random.default_rng(0), flips=0.1), 4.0, m)
        problem = inner(
            X, y, 1.0, 1.05 * m / 2, reading=dpm.mechanisms.joint.ExpectedNoise(), sigma=1.0, noise_rate=30.0
        )
        start = np.zeros(10)
        steps = len(dpm.mechanisms.joint.ReducedSolver().solve(problem, start).trace)
        ours, peer = compare(
            [
                lambda p=problem, s=start: dpm.mechanisms.joint.ReducedSolver().solve(p, s),
                lambda p=problem: np.argsort(p.prices),
            ],
            repeat=3,
        )
        rows.append(
            [
                f"{m:,}",
                f"{steps}",
                f"{ours * 1e3:,.1f} ms",
                f"{ours / peer:.1f}" if first is None else at_most(first, ours / peer, ".1f"),
                "" if before is None else f"{ours / before:.1f}",
                "" if before is None else f"{peer / peer_before:.1f}",
            ]
        )
        first, before, peer_before = first or round(ours / peer, 1), ours, peer
    yield Table(
        "Growth with the number of sellers, n = 10, against `numpy.argsort` of the prices",
        ["sellers", "steps", "time", "ratio", "growth", "`argsort`'s growth"],
        rows,
        "The aim is that the ratio does not rise above that of the smallest market.",
    )


def whole_runs():
    X, y = records(breast_cancer(), 2.0, 455)
    dist = dpm.Uniform(np.exp(-4.0), 5 * np.exp(-4.0))
    costs = dist.sample(455, np.random.default_rng(0))
    rows = []
    for name, l2, mu in (("convex", 1.0, 240.0), ("not convex", 0.05, 1.0)):
        for rule in (dpm.mechanisms.joint.ExpectedPayments(), dpm.mechanisms.joint.EnvelopePayments()):
            mechanism = dpm.mechanisms.joint.JointMechanism(
                dist, dpm.BuyerObjective(mu, 1.0, 0.1), l2, payments=rule, noise_source=NOISE
            )
            tell(f"{name}, {type(rule).__name__}")
            outcome = mechanism.run(costs, X, y)
            seconds = best_seconds(lambda k=mechanism: k.run(costs, X, y), repeat=2)
            rows.append(
                [
                    f"{name}, `{type(rule).__name__}`",
                    f"{int((outcome.epsilons > 0).sum())}",
                    f"{outcome.stationary_points}",
                    f"{seconds:.2f} s",
                ]
            )
    yield Table(
        "Whole runs on breast cancer, m = 455: grid, refinement, training and payments",
        ["run", "bought", "stationary points", "time"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, against_descent, growth, whole_runs)
