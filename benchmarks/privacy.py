"""Weights from epsilons against one numpy pass over the array.

One pass is ``epsilons * 2.0``: every epsilon read, one multiplication, a new array written. From a certain
penalty on the determinant costs nothing; below it the weights are the root of an equation.
"""

import numpy as np

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.privacy import NoiseNorm, Release, logistic_loss

M = 1_000_000


def weights_from_epsilons():
    rng = np.random.default_rng(0)
    kinds = {
        "uniform on [.01, 1]": rng.uniform(0.01, 1.0, M),
        "log-normal, up to 17": rng.lognormal(-2.0, 1.0, M),
    }
    rows = []
    for name, epsilons in kinds.items():
        tell(name)
        for branch, factor in (("large penalty", 1.5), ("small penalty", 0.3)):
            l2 = factor * 2.0 / epsilons.sum()
            release = Release(logistic_loss(), NoiseNorm.euclidean(20), l2)
            weights, rate = release.weights(epsilons)
            ours, charge, peer = compare(
                [
                    lambda p=epsilons, r=release: r.weights(p),
                    lambda r=release, w=weights, eta=rate: r.epsilons(w, eta),
                    lambda p=epsilons: p * 2.0,
                ],
                repeat=21,
            )
            losses = release.epsilons(weights, rate)
            used = losses / epsilons
            assert np.all(losses <= epsilons)
            rows.append(
                [
                    f"{name}, {branch}",
                    f"{1e3 * ours:.1f} ms",
                    at_most(30, ours / peer, ".1f"),
                    f"{charge / peer:.1f}",
                    f"{1 - used.min():.0e}",
                ]
            )
    yield Table(
        f"Weights for {M:,} epsilons, in passes over them",
        ["epsilons", "time", "passes", "charge, passes", "unused, at most"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, weights_from_epsilons)
