"""Weights from epsilons against sorting them. Aims: twice version 0.2."""

import time

import numpy as np

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.privacy import NoiseNorm, Release, logistic_loss

KINDS = {
    "uniform on [.01, 1]": lambda rng, people: rng.uniform(0.01, 1.0, people),
    "log-normal, up to 17": lambda rng, people: rng.lognormal(-2.0, 1.0, people),
}
AIMS = {100_000: (2.9, 3.6), 1_000_000: (0.86, 1.3)}


def weights_from_epsilons():
    rows = []
    for people, aims in AIMS.items():
        for (name, draw), aim in zip(KINDS.items(), aims, strict=True):
            tell(f"{name}, {people:,}")
            epsilons = draw(np.random.default_rng(0), people)
            # So small a penalty that the determinant costs epsilon: weights are the root of an equation.
            release = Release(logistic_loss(), NoiseNorm.euclidean(20), 0.3 * 2.0 / epsilons.sum())
            weights, rate = release.weights(epsilons)
            ours, charge, peer = compare(
                [
                    lambda p=epsilons, r=release: r.weights(p),
                    lambda r=release, w=weights, eta=rate: r.epsilons(w, eta),
                    lambda p=epsilons: np.argsort(p),
                ],
                repeat=41,
                clock=time.process_time,
            )
            losses = release.epsilons(weights, rate)
            assert np.all(losses <= epsilons)
            rows.append(
                [
                    f"{people:,} {name}",
                    f"{1e3 * ours:.2f} ms",
                    at_most(aim, ours / peer, ".2f"),
                    f"{charge / peer:.2f}",
                    f"{1 - (losses / epsilons).min():.0e}",
                ]
            )
    yield Table(
        "Weights from epsilons at a small penalty, in sorts",
        ["epsilons", "time", "sorts", "charge, sorts", "unused, at most"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, weights_from_epsilons)
