"""How fast the exact allocation is: against one sort, against the paper's method, against cvxpy.

Run with ``python benchmarks/allocation.py``; about two minutes. All ratios come from one run, with the
functions called in turn, so that they hold on a busy machine too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from functools import partial

import cvxpy as cp
import numpy as np

from _timing import best_seconds, compare
from dpmarket.allocation import BuyerObjective, allocate
from dpmarket.allocation.paper_method import paper_allocation

OBJECTIVES = {
    "plain": BuyerObjective(1.0, 1.0, 1e-3),
    "capped, 3": BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0),
    "all bought": BuyerObjective(1.0, 1.0, 1e-9),
}
GRID = 1000


def virtual_costs(m: int) -> np.ndarray:
    """Virtual costs of costs that are uniform on [1, 5], the paper's online experiment."""
    return np.random.default_rng(m).uniform(1.0, 9.0, m)


def compile_time() -> None:
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
    print("Compiling (first call of a process; not part of any figure below)")
    print(f"  first process, empty cache   {times[0]:8.2f} s")
    print(f"  next process, cached         {times[1]:8.2f} s\n")


def against_argsort() -> None:
    print("Against numpy.argsort of the same costs (ratio of times; aim at 1e7: at most 2)")
    print(f"  {'m':>10} {'objective':>12} {'allocate':>12} {'argsort':>12} {'ratio':>7} {'kkt':>9}")
    for m in (10**4, 10**5, 10**6, 10**7):
        psi = virtual_costs(m)
        for name, objective in OBJECTIVES.items():
            ours, theirs = compare(
                [partial(allocate, psi, objective), partial(np.argsort, psi)],
                repeat=max(4, min(200, 10**6 // m)),
            )
            residual = allocate(psi, objective).kkt_residual
            print(
                f"  {m:>10,} {name:>12} {1e3 * ours:>9.3f} ms {1e3 * theirs:>9.3f} ms "
                f"{ours / theirs:>7.2f} {residual:>9.0e}"
            )
    print()


def cvxpy_at(psi: np.ndarray, objective: BuyerObjective, total_epsilons: np.ndarray) -> float:
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
    for eta in total_epsilons:
        price.value = objective.payment_weight * eta
        problem.solve(solver=cp.CLARABEL)
        a = np.maximum(weights.value, 0.0)
        a /= a.sum()
        value = objective.concentration * np.sqrt(a @ a) + objective.noise / eta
        best = min(best, float(value + objective.payment_weight * eta * (a @ psi)))
    return best


def against_grids() -> None:
    print(f"Against the paper's method and cvxpy over one grid: {GRID} equally spaced total epsilons")
    print("up to 4.13 times the best one. The paper's method runs all of them, with the longest safe step")
    print("and this project's exact projection; cvxpy (Clarabel) runs some, and its time is scaled up.")
    print("'worse by': how far the other's objective lies above ours, relative (aim: never below 0).")
    head = ("m", "objective", "allocate", "paper / ours", "worse by", "cvxpy / ours", "worse by")
    print("  {:>7} {:>10} {:>11} {:>13} {:>9} {:>13} {:>9}".format(*head))
    for m, some in ((10**3, 20), (10**4, 5)):
        psi = virtual_costs(m)
        for name in ("plain", "capped, 3"):
            objective = OBJECTIVES[name]
            exact = allocate(psi, objective)
            ours = best_seconds(partial(allocate, psi, objective), 200)
            grid = np.linspace(0.0, 4.13 * exact.total_epsilon, GRID + 1)[1:]
            found = [paper_allocation(psi, objective, grid).objective_value]
            paper = best_seconds(partial(paper_allocation, psi, objective, grid), 10**4 // m // 3 + 1)
            near = grid[GRID // 4 - 1 :: GRID // some][:some]
            cvxpy_at(psi, objective, near[:1])
            start = time.perf_counter()
            found.append(cvxpy_at(psi, objective, near))
            solver = (time.perf_counter() - start) * (GRID / near.size)
            worse = [value / exact.objective_value - 1.0 for value in found]
            print(
                f"  {m:>7,} {name:>10} {1e3 * ours:>8.3f} ms {paper / ours:>13,.0f} {worse[0]:>9.1e} "
                f"{solver / ours:>13,.0f} {worse[1]:>9.1e}"
            )
            if min(worse) < -1e-12:
                raise SystemExit("a reference found a better objective: the solver is wrong")
    print()


def memory() -> None:
    m = 10**7
    psi = virtual_costs(m)
    print("Peak memory at m = 10,000,000, in arrays of that length (aim: at most 10)")
    for name, objective in OBJECTIVES.items():
        tracemalloc.start()
        allocate(psi, objective)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"  {name:>12} {1 + peak / psi.nbytes:6.2f}   (the costs and the result are three)")


if __name__ == "__main__":
    compile_time()
    against_argsort()
    against_grids()
    memory()
