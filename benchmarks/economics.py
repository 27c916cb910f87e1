"""The economics core against numpy's argsort of the costs: exact mechanism, memory, cross-pricing, plans."""

import time
import tracemalloc

import numpy as np
from scipy import stats

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.costs import CostDistribution, Uniform
from dpmarket.mechanisms.cross_pricing import CrossPricedMechanism
from dpmarket.mechanisms.exact import OfflineMechanism
from dpmarket.mechanisms.objective import Objective, PaperObjective
from dpmarket.mechanisms.plan import plan

UNIFORM = Uniform(1, 5)
LOG_NORMAL = CostDistribution(stats.lognorm(s=0.5, scale=2.0), 0, 20)
MANY = 3_000_000
LARGEST = 10_000_000
SALTS = 20
MARKETS = {
    "uniform, cap 3": (UNIFORM, PaperObjective(1.0, 1.0, 1e-3, weight_cap=3.0), 1.5),
    "uniform, most sell": (UNIFORM, PaperObjective(1.0, 1.0, 1e-7), 1.5),
    "log-normal": (LOG_NORMAL, PaperObjective(1.0, 1.0, 1e-3), 3.0),
    "log-normal, cap 3": (LOG_NORMAL, PaperObjective(1.0, 1.0, 1e-3, weight_cap=3.0), 3.0),
}


def against_argsort():
    rows = []
    for name, (dist, objective, aim) in MARKETS.items():
        tell(f"{name}, {MANY:,} sellers")
        costs = dist.sample(MANY, np.random.default_rng(0))
        mechanism = OfflineMechanism(dist, objective)
        outcome = mechanism.run(costs)
        functions = [lambda c=costs, k=mechanism: k.run(c), lambda c=costs: np.argsort(c)]
        ours, peer = compare(functions, repeat=3, clock=time.process_time)
        knots = mechanism.groups[0].virtual_cost.knots.size
        sold = f"{np.count_nonzero(outcome.epsilons):,}"
        rows.append([name, str(knots), sold, f"{ours * 1e3:,.0f} ms", at_most(aim, ours / peer)])
    yield Table(
        f"Deciding and paying {MANY:,} sellers against `numpy.argsort` of their costs, processor time",
        ["market", "knots", "bought", "time", "ratio"],
        rows,
        "Nothing is compiled: the first run in a process takes as long as the others.",
    )


def memory():
    rows = []
    for name in ("uniform, cap 3", "log-normal, cap 3"):
        tell(f"{name}, {LARGEST:,} sellers")
        dist, objective, _ = MARKETS[name]
        costs = dist.sample(LARGEST, np.random.default_rng(0))
        tracemalloc.start()
        OfflineMechanism(dist, objective).run(costs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append([name, at_most(16, 1 + peak / costs.nbytes, ".1f")])
    yield Table(
        f"Peak memory of the exact mechanism with {LARGEST:,} sellers, in arrays of that length",
        ["market", "arrays"],
        rows,
        "The costs are one of them.",
    )


def budgets():
    rows = []
    costs = UNIFORM.sample(1000, np.random.default_rng(0))
    for wrong in (0.8, 1.0, 1.25):
        mechanism = CrossPricedMechanism(UNIFORM, Objective.for_model(10), 600.0)
        start, off = time.process_time(), []
        for salt in range(SALTS):
            outcome, _ = mechanism.run(range(1000), costs * wrong, salt=salt.to_bytes(16, "big"))
            off.append(abs(outcome.total_payment / 600.0 - 1.0))
        seconds = (time.process_time() - start) / SALTS
        cells = [f"{np.mean(off):.4f}", at_most(0.01, max(off), ".4f"), f"{seconds:.2f} s"]
        rows.append([f"{wrong:g} times the announced", *cells])
    yield Table(
        f"Cross-pricing: 1,000 sellers, a budget of 600, {SALTS} salts: how far off the budget",
        ["costs", "mean", "worst", "time"],
        rows,
    )
    rows = []
    for sellers in (1000, 1_000_000):
        make = lambda n=sellers: plan(UNIFORM, Objective.for_model(31), n, 500.0)  # noqa: E731
        (seconds,) = compare([make], 3, clock=time.process_time)
        tracemalloc.start()
        make()
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        rows.append([f"{sellers:,}", f"{seconds * 1e3:,.0f} ms", at_most(8, peak, ".1f")])
    yield Table(
        "A plan for a budget of 500", ["sellers", "processor time", "peak of allocations, MB"], rows,
        "One array of a million numbers takes 8 MB.",
    )  # fmt: skip


if __name__ == "__main__":
    measure(__file__, against_argsort, memory, budgets)
