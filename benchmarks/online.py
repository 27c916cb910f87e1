"""Quotes per second, one at a time and in batches, against a bare numpy evaluation of the same formula.

Bare numpy checks nothing, keeps no books and bounds no error. For uniform costs it has the payment in closed
form; for others it interpolates a table of 1,000 points, which is fast and far less exact.
"""

import numpy as np
from scipy import stats

import dpmarket as dpm
from _results import Table, measure, tell
from _timing import compare

OBJECTIVE = dpm.BuyerObjective(1.0, 1.0, 1e-3)
DISTRIBUTIONS = {
    "uniform": dpm.Uniform(1, 5),
    "log-normal": dpm.FromScipy(stats.lognorm(s=0.5, scale=2.0), 0, 20),
    "two groups": dpm.Mixture([dpm.Uniform(0, 1), dpm.Uniform(2, 3)], [0.5, 0.5]),
}


def bare(curve):
    """Return costs -> (epsilons, payments) as a line of numpy would: no checks, no books, no error bounds.

    For uniform costs the payment is in closed form; otherwise it is interpolated in a table of 1,000 points,
    which is as fast as numpy gets and far less exact.
    """
    slope, cutoff, reach, dist = curve.slope, curve.cutoff, curve.reach, curve.dist
    if isinstance(dist, dpm.Uniform):

        def closed_form(costs):
            epsilons = slope * np.maximum(cutoff - (2.0 * costs - dist.low), 0.0)
            return epsilons, epsilons * (costs + 0.5 * np.maximum(reach - costs, 0.0))

        return closed_form
    table = np.linspace(dist.support[0], reach, 1000)
    rents = curve.offers(table).payments - table * curve.epsilons(table)

    def interpolated(costs):
        epsilons = slope * np.maximum(cutoff - dist.virtual_cost(costs), 0.0)
        return epsilons, costs * epsilons + np.interp(costs, table, rents, right=0.0)

    return interpolated


def quotes():
    rows = []
    for name, dist in DISTRIBUTIONS.items():
        tell(name)
        curve = dpm.population_curve(dist, OBJECTIVE, 10_000)
        rng = np.random.default_rng(0)
        singles = dist.sample(300, rng).tolist()
        plain = bare(curve)

        def one_by_one(costs=singles, dist=dist, curve=curve):
            market = dpm.OnlineMechanism(dist, curve)
            for cost in costs:
                market.accept(market.quote(cost))

        def bare_one_by_one(costs=singles, plain=plain):
            for cost in costs:
                plain(np.array([cost]))

        ours, peer = compare([one_by_one, bare_one_by_one], repeat=5)
        rows.append([f"{name}, one at a time", f"{len(singles) / ours:,.0f}", f"{ours / peer:.2f}"])
        for size in (1000, 1_000_000):
            costs = dist.sample(size, rng)
            ours, peer = compare(
                [
                    lambda c=costs, d=dist, k=curve: dpm.OnlineMechanism(d, k).quote_many(c),
                    lambda c=costs, plain=plain: plain(c),
                ],
                repeat=5,
            )
            rows.append([f"{name}, batches of {size:,}", f"{size / ours:,.0f}", f"{ours / peer:.2f}"])
    yield Table(
        "Online quotes against bare numpy", ["costs, how they arrive", "quotes per second", "ratio"], rows
    )


if __name__ == "__main__":
    measure(__file__, quotes)
