"""Our buyer against simple ones at equal expected payments, each at its own best by public facts.

Five public sets, narrow and wide costs, three budgets. All buyers get the same sellers, splits and noise;
what differs is who is bought from, and how much. Run it with the number of repetitions:
``python benchmarks/buyers.py 200``. Rows are kept in ``out/buyers``, so that a stopped run goes on where it
was. Writes ``docs/tables/buyers.md``.
"""

import sys
from pathlib import Path

import numpy as np

import dpmarket as dpm
from _markdown import write_tables
from _results import Table, measure, tell
from dpmarket.datasets import breast_cancer, diabetes, logistic, odd_digits, wine
from dpmarket.planning import Trial, compare, compare_rules, plan_prices, standard_buyers

KEPT = Path(__file__).parent.parent / "out" / "buyers"
COSTS = {"1 to 5": dpm.Uniform(1, 5), "0.1 to 5": dpm.Uniform(0.1, 5)}
BUDGETS = (100.0, 600.0, 3000.0)
SETS = {
    "breast cancer": breast_cancer,
    "diabetes": diabetes,
    "odd digits": odd_digits,
    "wine": wine,
    "logistic": lambda: logistic(3_000, 10, np.random.default_rng(21), offset=0.5),
}


def comparisons():
    repetitions = int(sys.argv[1])
    KEPT.mkdir(parents=True, exist_ok=True)
    for name, make in SETS.items():
        trial, rows = Trial(make()), []
        for costs, dist in COSTS.items():
            tell(f"{name}, costs {costs}")
            buyers = standard_buyers(dist, trial.error_model, trial.sellers)
            kept = KEPT / f"{name.replace(' ', '-')}-{dist.low:g}.json"
            table = compare(dist, trial, buyers, BUDGETS, 0.0, repetitions=repetitions, seed=2, keep_in=kept)
            for k, budget in enumerate(BUDGETS):
                ours, *others = table.standings[4 * k : 4 * k + 4]
                plan = plan_prices(dist, trial.sellers, budget, trial.error_model)
                rows.append(
                    [
                        f"{costs}, {budget:,.0f}",
                        f"{compare_rules(dist, plan, budget).loss:+.0%}",
                        f"{ours.error:.3f}",
                        f"{ours.log_loss:.3f}",
                        *(_behind(other) for other in others),
                    ]
                )
        yield Table(
            f"{name.capitalize()}: {trial.sellers:,} sellers, {trial.data.n_features} features, "
            f"{repetitions:,} repetitions",
            ["costs, budget", "predicted", "error", "log loss", "posted price", "cheapest k", "same for all"],
            rows,
        )


def _behind(other):
    """Return a difference with its standard error, in brackets where it is less than two of them."""
    shown = f"{other.log_loss_behind:+.3f} ± {other.log_loss_behind_error:.3f}"
    return shown if abs(other.log_loss_behind) > 2.0 * other.log_loss_behind_error else f"({shown})"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_tables(__file__, measure(__file__, comparisons))
    else:
        print("buyers.py takes long: call it with the number of repetitions, 200")
