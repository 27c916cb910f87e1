"""Suggested prices against three others, by test log loss, and what suggesting costs.

The sets, budgets and draws here were used for no choice: the suggestion has two numbers of its own, the
spread of a gradient and the noise, and both come from mathematics and other data. All buyers get the same
sellers, splits and noise, and spend the same in expectation. Run it with the number of repetitions:
``python benchmarks/prices.py 200``. Rows are kept in ``out/prices``, so that a stopped run goes on where it
was. Writes ``docs/tables/prices.md``.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats

import dpmarket as dpm
from _markdown import write_tables
from _results import Table, at_least, at_most, measure, tell
from _timing import compare as time_in_turns
from dpmarket.datasets import diabetes, logistic, odd_digits, separable, wine
from dpmarket.planning import Trial, compare, plan_payment_weight, plan_prices, sharp_bound_constants

KEPT = Path(__file__).parent.parent / "out" / "prices"
COSTS = {"1 to 5": dpm.Uniform(1, 5), "0.1 to 5": dpm.Uniform(0.1, 5)}
BUDGETS = (60.0, 350.0, 2000.0)
SETS = {
    "diabetes": diabetes,
    "odd digits": odd_digits,
    "wine": wine,
    "separable": lambda: separable(2_500, 8, np.random.default_rng(11), flips=0.1),
    "logistic": lambda: logistic(4_000, 15, np.random.default_rng(12), offset=0.3),
}
OTHERS = ("1 and 1", "sharp bound", "1 and 20")
SELLERS = 1_000_000


def suggested(dist, trial, budget):
    return dpm.OfflineMechanism(dist, plan_prices(dist, trial.sellers, budget, trial.error_model).objective)


def priced(dist, trial, concentration, noise, budget):
    objective = dpm.BuyerObjective(concentration, noise, 1.0)
    return dpm.OfflineMechanism(dist, plan_payment_weight(dist, objective, trial.sellers, budget).objective)


def buyers(dist, trial):
    """Return the buyer with suggested prices, then the three others."""
    coefficients = trial.data.n_features + 1
    bound = np.sqrt(trial.error_model.sampling / 0.2)
    sharp = sharp_bound_constants(1.0, 0.05, 0.05, coefficients, bound)
    return {
        "suggested": partial(suggested, dist, trial),
        "1 and 1": partial(priced, dist, trial, 1.0, 1.0),
        "sharp bound": partial(priced, dist, trial, sharp.concentration, sharp.noise),
        "1 and 20": partial(priced, dist, trial, 1.0, 20.0),
    }


def verdict(standing):
    """Return 1 where the suggested prices are better beyond two standard errors, -1 worse, 0 not clear."""
    if abs(standing.log_loss_behind) <= 2.0 * standing.log_loss_behind_error:
        return 0
    return 1 if standing.log_loss_behind > 0.0 else -1


def quality():
    repetitions = int(sys.argv[1])
    KEPT.mkdir(parents=True, exist_ok=True)
    rows, verdicts, beats = [], [], []
    for name, make in SETS.items():
        trial = Trial(make())
        share = float(np.mean(trial.data.signs > 0.0))
        guessing = float(stats.entropy([share, 1.0 - share]))
        for costs, dist in COSTS.items():
            tell(f"{name}, costs {costs}")
            kept = KEPT / f"{name.replace(' ', '-')}-{dist.low:g}.json"
            table = compare(dist, trial, buyers(dist, trial), BUDGETS, 0.0, repetitions, 3, keep_in=kept)
            for k, budget in enumerate(BUDGETS):
                ours, *others = table.standings[4 * k : 4 * k + 4]
                plan = plan_prices(dist, trial.sellers, budget, trial.error_model)
                found = [verdict(other) for other in others]
                verdicts.append(found)
                beats.append(ours.log_loss < guessing)
                rows.append(
                    [
                        f"{name}, costs {costs}, budget {budget:g}",
                        f"{trial.sellers:,}",
                        f"{plan.expected_error.ratio:.2f}",
                        f"{guessing:.3f}",
                        f"{ours.log_loss:.3f}",
                        *(
                            f"{other.log_loss_behind:+.3f} ± {other.log_loss_behind_error:.3f}"
                            + {1: "", 0: " (not clear)", -1: " (worse)"}[what]
                            for other, what in zip(others, found, strict=True)
                        ),
                    ]
                )
    yield Table(
        f"Test log loss with suggested prices, and how much higher with others; {repetitions:,} repetitions",
        ["setting", "sellers", "ratio", "guessing", "suggested", *OTHERS],
        rows,
        "Ratio: the expected length of the error, in lengths of what usual data have to tell; above 1 "
        "`dpmarket plan` warns. Guessing: the log loss of the labels' shares alone.",
    )
    array, useful = np.array(verdicts), np.array(beats)
    together = {f"against {other}": array[:, [k]] for k, other in enumerate(OTHERS)}
    together |= {
        f"all {array.size} comparisons": array.reshape(-1, 1),
        "against all three at once": array,
        f"the same, in the {useful.sum()} settings in which the model beats guessing": array[useful],
    }
    yield Table(
        f"Share of the {len(array)} settings, beyond two standard errors",
        ["comparison", "not worse", "better"],
        [
            [
                name,
                at_least(0.9, float(np.mean((found >= 0).all(axis=1)))),
                at_least(0.5, float(np.mean((found > 0).all(axis=1)))),
            ]
            for name, found in together.items()
        ],
    )


def cost():
    """Yield what suggesting prices for a million sellers costs, in allocations of that size."""
    distributions = {
        "uniform": dpm.Uniform(1, 5),
        "uniform from 0": dpm.Uniform(0, 1),
        "log-normal": dpm.FromScipy(stats.lognorm(s=0.8, scale=2.0), 0, 30),
    }
    rows = []
    for name, dist in distributions.items():
        psi = dpm.virtual_costs(dist.sample(SELLERS, np.random.default_rng(0)), dist)
        for label, cap in (("no cap", None), ("cap 3", 3.0)):
            for budget in (50.0, 5_000.0):
                tell(f"{name}, {label}, budget {budget:g}")
                suggest = partial(dpm.suggest_prices, dist, SELLERS, budget, 31, 1.03, weight_cap=cap)
                objective = suggest()
                ours, peer = time_in_turns([suggest, partial(dpm.allocate, psi, objective)], repeat=3)
                rows.append(
                    [
                        f"{name}, {label}, budget {budget:g}",
                        f"{ours * 1e3:,.0f} ms",
                        at_most(60, ours / peer, ".1f"),
                    ]
                )
    yield Table(
        f"Suggesting prices for {SELLERS:,} sellers, in allocations of that size",
        ["market", "time", "ratio"],
        rows,
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_tables(__file__, measure(__file__, quality, cost))
    else:
        print("prices.py takes long: call it with the number of repetitions, 200")
