"""Allocate and pay against numpy's argsort of the costs: the ratio, its growth with m, and the memory."""

import time
import tracemalloc

import numpy as np
from scipy import stats

import dpmarket as dpm
from _timing import compare, print_table

OBJECTIVES = {
    "no cap": dpm.BuyerObjective(1.0, 1.0, 1e-3),
    "cap 3": dpm.BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0),
}
DISTRIBUTIONS = {
    "uniform": (dpm.Uniform(1, 5), "3"),
    "log-normal": (dpm.FromScipy(stats.lognorm(s=0.5, scale=2.0), 0, 20), "20"),
}


def main():
    start = time.perf_counter()
    dpm.OfflineMechanism(dpm.Uniform(1, 5), OBJECTIVES["cap 3"]).run(np.linspace(1, 5, 3000))
    print(
        f"first run in this process, compiling or loading what is cached: {time.perf_counter() - start:.1f} s"
    )
    rows = []
    for name, (dist, aim) in DISTRIBUTIONS.items():
        for label, objective in OBJECTIVES.items():
            mechanism = dpm.OfflineMechanism(dist, objective)
            before = None
            for m in (10_000, 100_000, 1_000_000, 10_000_000):
                costs = dist.sample(m, np.random.default_rng(m))
                outcome = mechanism.run(costs)
                ours, peer = compare(
                    [lambda c=costs, k=mechanism: k.run(c), lambda c=costs: np.argsort(c)],
                    repeat=3 if m == 10_000_000 else 5,
                )
                bought = outcome.epsilons > 0
                error = float((outcome.payment_errors[bought] / outcome.payments[bought]).max())
                rows.append(
                    [
                        f"{name}, {label}",
                        f"{m:,}",
                        f"{bought.sum():,}",
                        f"{ours * 1e3:,.0f} ms",
                        f"{ours / peer:.2f}",
                        aim if m == 10_000_000 else "",
                        "" if before is None else f"{ours / before:.1f}",
                        f"{error:.0e}",
                    ]
                )
                before = ours
    print_table(
        "Offline mechanism (virtual costs, allocation, payments) against numpy.argsort of the costs",
        ["market", "sellers", "bought", "time", "ratio", "aim", "growth", "payment error"],
        rows,
    )
    m = 10_000_000
    for name, (dist, _) in DISTRIBUTIONS.items():
        costs = dist.sample(m, np.random.default_rng(0))
        tracemalloc.start()
        dpm.OfflineMechanism(dist, OBJECTIVES["cap 3"]).run(costs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"peak memory, {name}, {m:,} sellers: {peak / (8 * m) + 1:.1f} arrays with the costs (aim 16)")


if __name__ == "__main__":
    main()
