"""The truthfulness audit in runs of the mechanism that it audits, and the sampled privacy audit in fits.

The truthfulness audit tries 40 misreports of each of 20 sellers; the peer is one run with 20 sellers.
"""

import time

import numpy as np

import dpmarket as dpm
from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.audit.neighbours import neighbours_of

MARKETS = {
    "no cap": dpm.Objective.for_model(10, 1e-3),
    "cap 3": dpm.Objective.for_model(10, 1e-3, weight_cap=3.0),
}


def truthfulness():
    dist, rows = dpm.Uniform(1, 5), []
    for name, objective in MARKETS.items():
        tell(f"{name}, misreports of 20 sellers")
        mechanism = dpm.OfflineMechanism(dist, objective)
        costs = dist.sample(20, np.random.default_rng(0))
        seconds, run = compare(
            [
                lambda m=mechanism: dpm.audit_truthfulness(m, dist, 20, 1, 40, np.random.default_rng(1)),
                lambda m=mechanism, c=costs: [m.run(c) for _ in range(20)],
            ],
            repeat=2,
        )
        runs = seconds / (run / 20)
        rows.append([name, f"{seconds:.1f} s", f"{run / 20 * 1e3:.1f} ms", at_most(1600, runs, ",.0f")])
    yield Table(
        "Truthfulness of 20 sellers with 40 misreports each, in runs of the mechanism with 20 sellers",
        ["market", "audit", "one run", "runs' worth"],
        rows,
    )


def privacy():
    promises = np.array([2.0, 1e7, 1e7])  # beside people whose records decide the model
    learner = dpm.PrivateLogisticRegression(fit_intercept=False, classes=(0, 1))
    pair = neighbours_of(0, 3)[0]
    learner.fit(*pair.before, promises)
    start = time.perf_counter()
    for _ in range(2_000):
        learner.fit(*pair.before, promises)
    plain = time.perf_counter() - start
    start = time.perf_counter()
    findings = dpm.audit_privacy(learner, promises, people=[0], fits=2_000).sampled
    audit = time.perf_counter() - start
    yield Table(
        "Sampled privacy audit of one person among three, 2,000 models",
        ["promises", "audit", "the fits alone", "ratio", "lower bound", "promise"],
        [
            [
                ", ".join(f"{promise:g}" for promise in promises),
                f"{audit:.1f} s",
                f"{plain:.1f} s",
                f"{audit / plain:.2f}",
                f"{findings.found[0]:.2f}",
                f"{findings.epsilons[0]:g}",
            ]
        ],
    )


if __name__ == "__main__":
    measure(__file__, truthfulness, privacy)
