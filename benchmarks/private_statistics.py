"""A mean bought at equal money by several buyers; private statistics, their intervals, other libraries.

All buyers see the same markets of 1,000 sellers and spend the same in expectation, each at its own best by
public facts; the central mechanism of Fallah et al. solves its problem at the reports themselves
(``_central_mean.py``). Other libraries run in an environment of their own, made once in ``out``.
Run it with the number of markets: ``python benchmarks/private_statistics.py 400``. Writes
``docs/tables/private-statistics.md``.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import dpmarket as dpm
from _central_mean import central_purchase
from _diffprivlib_environment import environment
from _markdown import write_tables
from _results import Table, at_most, measure, tell
from dpmarket.mechanisms import CheapestK, Objective, OfflineMechanism
from dpmarket.statistics import (
    PrivateHistogram,
    PrivateMean,
    PrivateQuantile,
    PrivateShare,
    PrivateVectorMean,
)

SELLERS = 1_000
COSTS = {"1 to 5": dpm.Uniform(1, 5), "0.1 to 5": dpm.Uniform(0.1, 5)}
BUDGETS = (5.0, 20.0, 100.0)
MEAN = PrivateMean(0.0, 1.0)
MODEL = MEAN.error  # of records uniform on [0, 1]: its spread is exact
NAMES = ("dpmarket", "Fallah et al.", "posted price", "cheapest k", "same for all")


def markets():
    return int(sys.argv[1])


def central_for_budget(dist, budget, rng):
    """Return the payment weight with which the central mechanism meets the budget on average."""
    psi_of = dpm.VirtualCost.of(dist)
    samples = [psi_of(dist.sample(SELLERS, rng)) for _ in range(200)]

    def over(logarithm):
        bought = (central_purchase(psi, MODEL.sampling, MODEL.noise, np.exp(logarithm))[0] for psi in samples)
        return np.mean([psi @ epsilons for psi, epsilons in zip(samples, bought, strict=True)]) / budget - 1.0

    return float(np.exp(brentq(over, -16.0, 4.0, xtol=1e-4)))


def equal_money():
    rows = []
    for costs, dist in COSTS.items():
        for budget in BUDGETS:
            tell(f"costs {costs}, budget {budget:g}")
            rng = np.random.default_rng(5)
            weight = central_for_budget(dist, budget, rng)
            objective = Objective(MODEL.sampling, MODEL.noise, 1.0)
            planned = dpm.plan(dist, objective, SELLERS, budget)
            posted, same = planned.alternatives[0], planned.alternatives[-1]
            # As many as accept the posted price, on average at the same money.
            count = round(posted.share_bought * SELLERS)
            epsilon, top = posted.largest_epsilon, dist.support[1]
            mechanisms = {
                "dpmarket": OfflineMechanism(dist, planned.objective),
                "cheapest k": CheapestK(count, epsilon, top, objective),
            }
            squares = {name: [] for name in NAMES}
            squares |= {"posted price": [posted.error], "same for all": [same.error]}
            money = []
            for _ in range(markets()):
                reports = dist.sample(SELLERS, rng)
                for name, mechanism in mechanisms.items():
                    outcome = mechanism.run(reports)
                    squares[name].append(outcome.sampling_error + outcome.noise_error)
                    money += [outcome.total_payment] if name == "dpmarket" else []
                psi = dpm.VirtualCost.of(dist)(reports)
                epsilons, _ = central_purchase(psi, MODEL.sampling, MODEL.noise, weight)
                total = epsilons.sum()
                squares["Fallah et al."].append(
                    MODEL.sampling * (epsilons @ epsilons) / total**2 + MODEL.noise / total**2
                )
            roots = {name: float(np.sqrt(np.mean(found))) for name, found in squares.items()}
            ours = roots["dpmarket"]
            named = costs == "1 to 5" and budget == 20.0
            rows.append(
                [
                    f"costs {costs}, budget {budget:g}",
                    f"{np.mean(money):.2f}",
                    at_most(0.095, ours, ".4f") if named else f"{ours:.4f}",
                    *(f"{roots[name]:.4f}" for name in NAMES[1:]),
                ]
            )
    yield Table(
        f"Root mean square error of the mean of numbers uniform on 0 to 1, at equal expected payments; "
        f"{SELLERS:,} sellers, {markets():,} markets",
        ["market", "paid", *NAMES],
        rows,
        "Errors are expected ones given the epsilons, spread of records and noise included; `paid` is "
        "dpmarket's mean total payment.",
    )


def asked(rng):
    """Yield each statistic with fresh records and what is true of their population."""
    yield "share of 0.5", PrivateShare(), rng.random(SELLERS) < 0.5, 0.5
    yield "share of 0.05", PrivateShare(), rng.random(SELLERS) < 0.05, 0.05
    yield "mean, uniform", PrivateMean(0.0, 1.0), rng.random(SELLERS), 0.5
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    histogram = PrivateHistogram((0, 1, 2, 3))
    yield "histogram, 4 bins", histogram, rng.choice(4, SELLERS, p=shares), shares
    median = PrivateQuantile(0.5, np.linspace(0.0, 1.0, 101))
    yield "median, 101 candidates", median, rng.random(SELLERS), 0.5
    rows = rng.choice([-1.0, 1.0], (SELLERS, 2)) / np.sqrt(2.0)
    yield "vector mean, 2 coordinates", PrivateVectorMean(("a", "b"), 1.0), rows, np.zeros(2)


def intervals():
    """Yield how far statistics are off, and how often their intervals hold."""
    rng, most = np.random.default_rng(6), 0.1
    off, covered, widths = {}, {}, {}
    for _ in range(markets()):
        epsilons = rng.uniform(0.0, most, SELLERS)
        for name, statistic, records, truth in asked(rng):
            release = statistic.fit(records, epsilons=epsilons).release_
            error = np.array(release.values) - truth
            off.setdefault(name, []).append((error**2).sum())
            if release.radius is None:
                lows, highs = np.array(release.lows), np.array(release.highs)
                held = np.all((lows <= truth) & (truth <= highs))
                width = float(np.mean(highs - lows)) / 2.0
            else:
                held, width = np.linalg.norm(error) <= release.radius, release.radius
            covered.setdefault(name, []).append(bool(held))
            widths.setdefault(name, []).append(width)
    rows = [
        [
            name,
            f"{np.sqrt(np.mean(off[name])):.4f}",
            f"{np.mean(widths[name]):.4f}",
            f"{np.mean(covered[name]):.3f}",
        ]
        for name in off
    ]
    yield Table(
        f"Private statistics of {SELLERS:,} people with epsilons from 0 to {most:g}, their 95% intervals; "
        f"{markets():,} releases each",
        ["statistic", "root mean square error", "half-width or radius", "coverage"],
        rows,
        "Intervals hold for any records within the public bounds and any number of people, so that most "
        "cover more often than they say. For a histogram all intervals at once must hold.",
    )


def other_libraries():
    """Yield the error of the same mean with one epsilon for all, by this project and two libraries."""
    count, rows = 5 * markets(), []
    records = np.random.default_rng(7).random(200)
    worker = Path(__file__).with_name("_means_worker.py")
    for epsilon in (0.01, 0.1, 1.0):
        found = {"dpmarket": [MEAN.fit(records, np.full(200, epsilon)).value_ for _ in range(count)]}
        jobs = [
            json.dumps({"library": name, "records": records.tolist(), "epsilon": epsilon, "count": count})
            for name in ("diffprivlib", "OpenDP")
        ]
        done = subprocess.run(
            [environment("private_statistics"), worker],
            input="\n".join(jobs),
            capture_output=True,
            text=True,
            check=True,
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        found |= dict(zip(("diffprivlib", "OpenDP"), answers, strict=True))
        squares = {name: (np.array(means) - records.mean()) ** 2 for name, means in found.items()}
        ours = squares.pop("dpmarket")
        cells = [f"{np.sqrt(ours.mean()):.5f}"]
        for other in squares.values():
            error = np.hypot(ours.std(ddof=1), other.std(ddof=1)) / np.sqrt(count)
            cells += [
                f"{np.sqrt(other.mean()):.5f}",
                f"{(ours.mean() - other.mean()) / error:+.2f}",
            ]
        rows.append([f"{epsilon:g}", *cells])
    yield Table(
        f"Root mean square error of the mean of 200 records, one epsilon for all; {count:,} releases each",
        ["epsilon", "dpmarket", "diffprivlib", "behind", "OpenDP", "behind"],
        rows,
        "Behind: our mean squared error less theirs, in standard errors of the difference. OpenDP does not "
        "bring its answer back into the public range; the others do.",
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_tables(__file__, measure(__file__, equal_money, intervals, other_libraries))
    else:
        print("private_statistics.py takes a few minutes: call it with the number of markets, 400")
