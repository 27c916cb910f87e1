"""Our buyer against simple ones at equal expected payments.

Settings are tuned on public data with other seeds than the comparison's; all buyers get the same ones.
Run it with the number of repetitions and of processes: ``python benchmarks/buyers.py 1000 2``. Rows are kept
in ``out/buyers``, so that a stopped run goes on where it was. Writes ``docs/tables/buyers.md``.
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import dpmarket as dpm
from _markdown import write_tables
from _results import Table, measure, tell
from dpmarket.datasets import breast_cancer, separable
from dpmarket.planning import Trial, compare, standard_buyers, tune

KEPT = Path(__file__).parent.parent / "out" / "buyers"
DIST = dpm.Uniform(1, 5)
MONEY = 1e-5  # error units per unit of money


def trials():
    """Return the two sets of public records, with their public bounds."""
    return {
        "breast cancer": (
            Trial(breast_cancer()),
            (100.0, 250.0, 600.0, 1500.0, 4000.0),
        ),
        "synthetic": (
            Trial(separable(3000, 5, np.random.default_rng(0), flips=0.05)),
            (100.0, 250.0, 600.0, 1500.0, 4000.0),
        ),
    }


def row(name, budget, repetitions):
    """Return one line of the table: tune for our buyer, then compare all of them with the same objective."""
    trial, _ = trials()[name]
    objective = tune(trial, DIST, budget, seed=1, repetitions=100).best.objective
    buyers = standard_buyers(DIST, objective, trial.sellers)
    kept = KEPT / f"{name.replace(' ', '-')}-{budget:g}.json"
    ours, *others = compare(DIST, trial, buyers, [budget], MONEY, repetitions, seed=2, keep_in=kept).standings
    cells = [f"{budget:g}", f"{objective.concentration:g}", f"{ours.overall:.4f}"]
    for other in others:
        mark = "" if other.is_clear else " (not clear)"
        cells.append(f"{other.behind:+.4f} ± {other.behind_error:.4f}{mark}")
    tell(f"{name}: {', '.join(cells)}")
    return cells


def comparisons():
    repetitions, processes = int(sys.argv[1]), int(sys.argv[2])
    KEPT.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for name, (trial, budgets) in trials().items():
            rows = pool.map(row, [name] * len(budgets), budgets, [repetitions] * len(budgets))
            yield Table(
                f"{name.capitalize()}: {trial.sellers:,} sellers with costs uniform on 1 to 5, "
                f"{repetitions:,} repetitions",
                ["budget", "concentration", "dpmarket", "posted price", "cheapest k", "same for all"],
                list(rows),
            )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write_tables(__file__, measure(__file__, comparisons))
    else:
        print("buyers.py takes long: call it with the numbers of repetitions and processes, 1000 2")
