"""Weights from promises against one numpy pass over the array.

One pass is ``epsilons * 2.0``: every promise read, one multiplication, a new array written.
"""

import numpy as np

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.privacy import NoiseNorm, Release, logistic_loss

M = 1_000_000


def weights_from_promises():
    rng = np.random.default_rng(0)
    kinds = {
        "uniform on [.01, 1]": rng.uniform(0.01, 1.0, M),
        "a third promised nothing": np.where(rng.random(M) < 1 / 3, 0.0, rng.random(M)),
        "log-normal, up to 17": rng.lognormal(-2.0, 1.0, M),
        "uniform on [0, 10]": rng.uniform(0.0, 10.0, M),
    }
    rows = []
    for name, promises in kinds.items():
        tell(name)
        for branch, factor in (("no slack", 1.5), ("slack", 0.3)):
            l2 = factor * 2.0 / promises.sum()
            release = Release(logistic_loss(), NoiseNorm.euclidean(20), l2)
            weights, rate = release.weights(promises)
            ours, charge, peer = compare(
                [
                    lambda p=promises, r=release: r.weights(p),
                    lambda r=release, w=weights, eta=rate: r.epsilons(w, eta),
                    lambda p=promises: p * 2.0,
                ],
                repeat=21,
            )
            losses = release.epsilons(weights, rate)
            used = (losses / np.where(promises > 0, promises, 1.0))[promises > 0]
            assert np.all(losses <= promises)
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
        f"Weights for {M:,} promises, in passes over them",
        ["promises", "time", "passes", "charge, passes", "promise unused, at most"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, weights_from_promises)
