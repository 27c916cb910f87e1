"""Weights from promises against one numpy pass over the array; how the time of ``best_weights`` grows.

One pass is ``epsilons * 2.0``: every promise read, one multiplication, a new array written.
"""

import numpy as np

from _results import Table, at_most, measure, tell
from _timing import best_seconds, compare
from dpmarket.privacy import best_weights, privacy_loss, weights_for

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
            weights = weights_for(promises, l2)  # compiles
            ours, charge, peer = compare(
                [
                    lambda p=promises, penalty=l2: weights_for(p, penalty),
                    lambda w=weights, penalty=l2: privacy_loss(*w, penalty),
                    lambda p=promises: p * 2.0,
                ],
                repeat=21,
            )
            losses = weights.privacy_losses()
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
        ["promises", "time", "passes", "`privacy_loss`, passes", "promise unused, at most"],
        rows,
    )


def growth_of_best_weights():
    rng, rows = np.random.default_rng(1), []
    for m in (1_000, 10_000, 100_000, 1_000_000):
        tell(f"best_weights of {m:,} people")
        promises = rng.uniform(0.01, 1.0, m)
        cells = [f"{m:,}"]
        for factor in (30.0, 0.3):
            l2 = factor * 2.0 / promises.sum()
            noise = 0.01 * promises.sum() / np.sqrt(m)
            seconds = best_seconds(
                lambda p=promises, penalty=l2, s=noise: best_weights(p, penalty, 1.0, s),
                repeat=3 if m < M else 1,
            )
            cells += [f"{1e3 * seconds:,.1f} ms", f"{1e9 * seconds / m:,.0f} ns"]
        rows.append(cells)
    yield Table(
        "`best_weights`: time of all, and per person",
        ["people", "no slack", "per person", "slack", "per person"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, weights_from_promises, growth_of_best_weights)
