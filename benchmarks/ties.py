"""Pay sellers whose costs are round numbers, and markets that are hard, against the plain case."""

import time

import numpy as np

import dpmarket as dpm
from _results import Table, at_most, measure, tell
from _timing import compare

DIST = dpm.Uniform(1, 5)
OBJECTIVES = {
    "no cap": dpm.BuyerObjective(1.0, 1.0, 1e-3),
    "cap 3": dpm.BuyerObjective(1.0, 1.0, 1e-3, weight_cap=3.0),
}
STEPS = {"cents": 0.01, "halves": 0.5, "whole numbers": 1.0}
SIZES = (100_000, 1_000_000, 10_000_000)
DISTANCES = (1e-6, 1e-4, 1e-2)
DRAWS = 7


def round_numbers():
    for label, objective in OBJECTIVES.items():
        mechanism = dpm.OfflineMechanism(DIST, objective)
        rows = []
        for m in SIZES:
            tell(f"{label}, {m:,} sellers")
            plain = DIST.sample(m, np.random.default_rng(m))
            markets = [plain, *(np.round(plain / step) * step for step in STEPS.values())]
            seconds = _seconds(mechanism, markets, 1 if m == SIZES[-1] else 3)
            ratios = [at_most(2, each / seconds[0]) for each in seconds[1:]]
            rows.append([f"{m:,}", f"{seconds[0] * 1e3:,.0f} ms", *ratios])
        yield Table(
            f"Reports in round numbers against any numbers, processor time, {label}",
            ["sellers", "plain", *STEPS],
            rows,
        )


def hard_markets():
    rows = []
    for sellers, ties in ((1_500, 400), (3_000, 500), (3_000, 2_000), (10_000, 800)):
        for distance in DISTANCES:
            costs = _ties_above_the_cutoff(sellers, ties, distance)
            name = f"{ties:,} ties {distance:g} above the cutoff of {sellers:,}"
            rows.append(_row(name, costs, OBJECTIVES["no cap"]))
    for cheap, dear in ((30, 3_000), (300, 3_000), (1_000, 3_000), (100, 8_000)):
        costs = _two_groups(cheap, dear)
        objective = _of_equal_value(costs)
        name = f"{cheap:,} cheap and {dear:,} dear, two minima of equal value"
        rows.append(_row(name, costs, objective))
    yield Table(
        "Hard markets against plain ones with as many sellers, processor time",
        ["market", "bought", "plain", "time", "ratio"],
        rows,
        f"Plain markets of one size differ: the ratio is to the median of {DRAWS} draws.",
    )


def _row(name, costs, objective):
    tell(name)
    mechanism = dpm.OfflineMechanism(DIST, objective)
    plain = dpm.OfflineMechanism(DIST, OBJECTIVES["no cap"])
    drawn = [DIST.sample(costs.size, np.random.default_rng(seed)) for seed in range(DRAWS)]
    bought = int((mechanism.run(costs).epsilons > 0).sum())
    runs = [lambda: mechanism.run(costs), *(lambda c=c: plain.run(c) for c in drawn)]
    seconds, *others = compare(runs, repeat=3, clock=time.process_time)
    plain_seconds = sorted(others)
    typical = plain_seconds[DRAWS // 2]
    spread = f"{plain_seconds[0] * 1e3:,.0f} to {plain_seconds[-1] * 1e3:,.0f} ms"
    return [name, f"{bought:,}", spread, f"{seconds * 1e3:,.1f} ms", at_most(10, seconds / typical)]


def _seconds(mechanism, markets, repeat):
    """Return the processor time of each market, after a small run that loads what is compiled."""
    for costs in markets:
        mechanism.run(costs[:3_000])
    return compare(
        [lambda c=costs: mechanism.run(c) for costs in markets], repeat=repeat, clock=time.process_time
    )


def _ties_above_the_cutoff(sellers, ties, distance):
    """Many equal costs a little above the cutoff of the others."""
    others = DIST.sample(sellers, np.random.default_rng(7))
    cutoff = dpm.allocate(dpm.virtual_costs(others, DIST), OBJECTIVES["no cap"]).cutoff
    return np.concatenate((others, np.full(ties, 0.5 * (cutoff + 1.0) * (1.0 + distance))))


def _two_groups(cheap, dear):
    rng = np.random.default_rng(7)
    return np.concatenate((rng.uniform(1.0, 1.1, cheap), rng.uniform(3.0, 3.2, dear)))


def _of_equal_value(costs):
    """Return an objective under which buying from the cheap ones and buying from all are equally good."""
    psi = dpm.virtual_costs(costs, DIST)

    def leads(weight):
        """Tell how many minima there are, and whether the first, with the larger promise, is the best."""
        minima = dpm.allocate(psi, dpm.BuyerObjective(1.0, 1.0, weight)).local_minima
        values = [minimum.objective_value for minimum in minima]
        return len(values), values[0] <= values[-1]

    low, high = None, None
    for weight in np.geomspace(1e-6, 1.0, 400):
        count, first = leads(float(weight))
        if count > 1 and not first:
            low = float(weight)
        if count > 1 and first and low is not None:
            high = float(weight)
            break
    if low is None or high is None:
        raise SystemExit("expected a payment weight with two minima of equal value, found none.")
    for _ in range(60):
        middle = 0.5 * (low + high)
        if leads(middle)[1]:
            high = middle
        else:
            low = middle
    return dpm.BuyerObjective(1.0, 1.0, low)


if __name__ == "__main__":
    measure(__file__, round_numbers, hard_markets)
