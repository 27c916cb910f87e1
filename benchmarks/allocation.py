"""The exact allocation against one sort of the costs, against the paper's method, and against cvxpy.

The paper's method and cvxpy search 1,000 equally spaced total promises, up to 4.13 times the best one. The
paper's method runs all of them, with the longest safe step and this project's exact projection; cvxpy
(Clarabel) runs some, and its time is scaled up.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from functools import partial

import cvxpy as cp
import numpy as np

from _results import Table, at_most, measure, tell
from _timing import best_seconds, compare
from dpmarket.allocation import BuyerObjective, allocate, paper_allocation

OBJECTIVES = {
    "plain": BuyerObjective(1.0, 1.0, 1e-3),
    "capped, 3": BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0),
    "all bought": BuyerObjective(1.0, 1.0, 1e-9),
}
GRID = 1000


def virtual_costs(m: int) -> np.ndarray:
    """Virtual costs of costs that are uniform on [1, 5], the paper's online experiment."""
    return np.random.default_rng(m).uniform(1.0, 9.0, m)


def compiling() -> Iterator[Table]:
    script = (
        "import time\n"
        "from dpmarket.allocation import BuyerObjective, allocate\n"
        "start = time.perf_counter()\n"
        "allocate([1.0, 2.0], BuyerObjective(1.0, 1.0, 1.0, weight_cap=1.5))\n"
        "print(time.perf_counter() - start)\n"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        times = [
            float(
                subprocess.run(
                    [sys.executable, "-c", script],
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(2)
        ]
    yield Table(
        "First call in a process, compiling or loading kernels; not part of any other figure",
        ["process", "time"],
        [["first, empty cache", f"{times[0]:.2f} s"], ["next, cached", f"{times[1]:.2f} s"]],
    )


def against_argsort() -> Iterator[Table]:
    rows = []
    for m in (10**4, 10**5, 10**6, 10**7):
        tell(f"{m:,} costs")
        psi = virtual_costs(m)
        for name, objective in OBJECTIVES.items():
            ours, theirs = compare(
                [partial(allocate, psi, objective), partial(np.argsort, psi)],
                repeat=max(4, min(200, 10**6 // m)),
            )
            ratio = ours / theirs
            rows.append(
                [
                    f"{m:,} costs, {name}",
                    f"{1e3 * ours:,.3f} ms",
                    f"{1e3 * theirs:,.3f} ms",
                    at_most(2, ratio) if m == 10**7 else f"{ratio:.2f}",
                    f"{allocate(psi, objective).kkt_residual:.0e}",
                ]
            )
    yield Table(
        "Allocation against `numpy.argsort` of the same costs",
        ["costs, objective", "`allocate`", "`argsort`", "ratio", "optimality residual"],
        rows,
    )


def cvxpy_at(psi: np.ndarray, objective: BuyerObjective, total_promises: np.ndarray) -> float:
    m = psi.size
    weights = cp.Variable(m, nonneg=True)
    price = cp.Parameter(nonneg=True)
    bounds = [cp.sum(weights) == 1]
    if objective.weight_cap is not None:
        bounds.append(weights <= objective.weight_cap / m)
    problem = cp.Problem(
        cp.Minimize(objective.concentration * cp.norm(weights, 2) + price * (psi @ weights)), bounds
    )
    best = np.inf
    for eta in total_promises:
        price.value = objective.payment_weight * eta
        problem.solve(solver=cp.CLARABEL)
        a = np.maximum(weights.value, 0.0)
        a /= a.sum()
        value = objective.concentration * np.sqrt(a @ a) + objective.noise / eta
        best = min(best, float(value + objective.payment_weight * eta * (a @ psi)))
    return best


def against_grids() -> Iterator[Table]:
    rows = []
    for m, some in ((10**3, 20), (10**4, 5)):
        psi = virtual_costs(m)
        for name in ("plain", "capped, 3"):
            tell(f"{m:,} costs, {name}")
            objective = OBJECTIVES[name]
            exact = allocate(psi, objective)
            ours = best_seconds(partial(allocate, psi, objective), 200)
            grid = np.linspace(0.0, 4.13 * exact.total_promise, GRID + 1)[1:]
            found = [paper_allocation(psi, objective, grid).objective_value]
            paper = best_seconds(partial(paper_allocation, psi, objective, grid), 10**4 // m // 3 + 1)
            near = grid[GRID // 4 - 1 :: GRID // some][:some]
            cvxpy_at(psi, objective, near[:1])
            start = time.perf_counter()
            found.append(cvxpy_at(psi, objective, near))
            solver = (time.perf_counter() - start) * (GRID / near.size)
            worse = [value / exact.objective_value - 1.0 for value in found]
            if min(worse) < -1e-12:
                raise SystemExit("a reference found a better objective: the solver is wrong")
            rows.append(
                [
                    f"{m:,} costs, {name}",
                    f"{1e3 * ours:.3f} ms",
                    f"{paper / ours:,.0f}",
                    f"{worse[0]:.1e}",
                    f"{solver / ours:,.0f}",
                    f"{worse[1]:.1e}",
                ]
            )
    yield Table(
        f"The paper's method and cvxpy over one grid of {GRID:,} total promises, in times of one allocation",
        ["costs, objective", "`allocate`", "paper's time", "worse by", "cvxpy's time", "worse by"],
        rows,
        "Worse by: how far the other's objective lies above ours, relatively; one below stops the script.",
    )


def memory() -> Iterator[Table]:
    m = 10**7
    psi = virtual_costs(m)
    rows = []
    for name, objective in OBJECTIVES.items():
        tracemalloc.start()
        allocate(psi, objective)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append([name, at_most(10, 1 + peak / psi.nbytes)])
    yield Table(
        f"Peak memory of an allocation of {m:,} costs, in arrays of that length",
        ["objective", "arrays"],
        rows,
        "The costs and the result are three of them.",
    )


if __name__ == "__main__":
    measure(__file__, compiling, against_argsort, against_grids, memory)
