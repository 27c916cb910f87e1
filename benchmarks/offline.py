"""Allocate and pay all sellers against numpy's argsort of their costs: time, its growth, and memory."""

import time
import tracemalloc

import numpy as np
from scipy import stats

import dpmarket as dpm
from _results import Table, at_most, measure, tell
from _timing import compare

OBJECTIVES = {
    "no cap": dpm.BuyerObjective(1.0, 1.0, 1e-3),
    "cap 3": dpm.BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0),
}
DISTRIBUTIONS = {
    "uniform": (dpm.Uniform(1, 5), 3),
    "log-normal": (dpm.FromScipy(stats.lognorm(s=0.5, scale=2.0), 0, 20), 20),
}
LARGEST = 10_000_000


def against_argsort():
    start = time.perf_counter()
    dpm.OfflineMechanism(dpm.Uniform(1, 5), OBJECTIVES["cap 3"]).run(np.linspace(1, 5, 3000))
    first = time.perf_counter() - start
    rows = []
    for name, (dist, aim) in DISTRIBUTIONS.items():
        for label, objective in OBJECTIVES.items():
            mechanism = dpm.OfflineMechanism(dist, objective)
            before = None
            for m in (10_000, 100_000, 1_000_000, LARGEST):
                tell(f"{name}, {label}, {m:,} sellers")
                costs = dist.sample(m, np.random.default_rng(m))
                outcome = mechanism.run(costs)
                ours, peer = compare(
                    [lambda c=costs, k=mechanism: k.run(c), lambda c=costs: np.argsort(c)],
                    repeat=3 if m == LARGEST else 5,
                )
                bought = outcome.epsilons > 0
                error = float((outcome.payment_errors[bought] / outcome.payments[bought]).max())
                rows.append(
                    [
                        f"{name}, {label}, {m:,}",
                        f"{bought.sum():,}",
                        f"{ours * 1e3:,.0f} ms",
                        at_most(aim, ours / peer) if m == LARGEST else f"{ours / peer:.2f}",
                        "" if before is None else f"{ours / before:.1f}",
                        f"{error:.0e}",
                    ]
                )
                before = ours
    yield Table(
        "Offline mechanism (virtual costs, allocation, payments) against `numpy.argsort` of the costs",
        ["market, sellers", "bought", "time", "ratio", "growth", "payment error"],
        rows,
        f"First run in the process, kernels compiled or loaded from the cache: {first:.1f} s.",
    )


def memory():
    rows = []
    for name, (dist, _) in DISTRIBUTIONS.items():
        tell(f"{name}, {LARGEST:,} sellers")
        costs = dist.sample(LARGEST, np.random.default_rng(0))
        tracemalloc.start()
        dpm.OfflineMechanism(dist, OBJECTIVES["cap 3"]).run(costs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append([name, at_most(16, 1 + peak / costs.nbytes, ".1f")])
    yield Table(
        f"Peak memory of the offline mechanism with {LARGEST:,} sellers, in arrays of that length",
        ["costs", "arrays"],
        rows,
        "The costs are one of them.",
    )


if __name__ == "__main__":
    measure(__file__, against_argsort, memory)
