"""Weights from promises against one numpy pass over the array; the growth of best_weights.

One pass is ``epsilons * 2.0``: every promise read, one multiplication, a new array written.
"""

import numpy as np

from _timing import best_seconds, compare, print_table
from dpmarket.privacy import best_weights, privacy_loss, weights_for

M = 1_000_000
AIM = 30


def main():
    rng = np.random.default_rng(0)
    kinds = {
        "uniform on [.01, 1]": rng.uniform(0.01, 1.0, M),
        "a third promised nothing": np.where(rng.random(M) < 1 / 3, 0.0, rng.random(M)),
        "log-normal, up to 17": rng.lognormal(-2.0, 1.0, M),
        "uniform on [0, 10]": rng.uniform(0.0, 10.0, M),
    }
    rows = []
    for name, promises in kinds.items():
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
                    f"{1e3 * ours:.1f}",
                    f"{ours / peer:.1f}",
                    str(AIM),
                    f"{charge / peer:.1f}",
                    f"{1 - used.min():.0e}",
                ]
            )
    print_table(
        f"Weights for a million promises (m = {M:,}); a pass is epsilons * 2.0",
        ["promises", "ms", "passes", "aim", "privacy_loss, passes", "promise unused, at most"],
        rows,
    )

    rows = []
    for m in (1_000, 10_000, 100_000, 1_000_000):
        promises = rng.uniform(0.01, 1.0, m)
        cells = [f"{m:,}"]
        for factor in (30.0, 0.3):
            l2 = factor * 2.0 / promises.sum()
            noise = 0.01 * promises.sum() / np.sqrt(m)
            seconds = best_seconds(
                lambda p=promises, penalty=l2, s=noise: best_weights(p, penalty, 1.0, s),
                repeat=3 if m < M else 1,
            )
            cells += [f"{1e3 * seconds:.1f}", f"{1e9 * seconds / m:.0f}"]
        rows.append(cells)
    print_table(
        "best_weights",
        ["people", "no slack, ms", "ns per person", "slack, ms", "ns per person"],
        rows,
    )


if __name__ == "__main__":
    main()
