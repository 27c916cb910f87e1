"""On mixed promises the default estimator beats learners that use one epsilon; seeded, so it never flickers.

``benchmarks/accuracy.py`` is the whole comparison; this is its quick part, on sets that need no extra.
"""

import numpy as np
import pytest

from dpmarket.datasets import breast_cancer, separable, standard_bounds
from dpmarket.learning import PrivateLogisticRegression, PublicScaler
from dpmarket.learning.reference import (
    LargeEpsilonsOnly,
    OutputPerturbation,
    PersonalisedSampling,
    SmallestEpsilon,
)
from dpmarket.privacy import SeededNoise

TRIALS = 30


def log_losses(data, make):
    found = []
    for number in range(TRIALS):
        rng = np.random.default_rng([1, number])
        public, rest = data.split(0.2, rng)
        train, test = rest.split(0.75, rng)
        scaler = PublicScaler(*standard_bounds(public))
        epsilons = rng.choice([0.01, 0.2, 1.0], len(train), p=[0.54, 0.37, 0.09])
        learner = make(epsilons, number).fit(
            scaler.fit_transform(train.features), train.labels, epsilons=epsilons
        )
        chances = learner.predict_proba(scaler.transform(test.features))
        found.append(-np.log(np.where(test.signs > 0, chances[:, 1], chances[:, 0])).mean())
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [breast_cancer(), separable(2_000, 10, np.random.default_rng(1), margin=0.2)],
    ids=lambda d: d.name,
)
def test_promises_used_one_by_one_give_a_better_model_than_one_epsilon_for_all(data):
    classes = data.classes

    def ours(epsilons, seed):
        return PrivateLogisticRegression(classes=classes, noise_source=SeededNoise(seed))

    others = {
        "smallest": lambda e, seed: SmallestEpsilon(ours(e, seed)),
        "large": lambda e, seed: LargeEpsilonsOnly(ours(e, seed), float(np.median(e))),
        "sampling": lambda e, seed: PersonalisedSampling(
            float(e.mean()), classes, SeededNoise(seed), np.random.default_rng(seed).bytes
        ),
        "output": lambda e, seed: OutputPerturbation(None, classes, SeededNoise(seed)),
    }
    base = log_losses(data, ours)
    for name, make in others.items():
        ahead = log_losses(data, make) - base
        assert ahead.mean() > 2.0 * ahead.std(ddof=1) / np.sqrt(TRIALS), name
