"""Memory: a fit never copies the whole matrix."""

import tracemalloc

import numpy as np
import pytest

from dpmarket.learning import PrivateLogisticRegression

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300_000, 20))
X /= np.linalg.norm(X, axis=1, keepdims=True) * 1.001
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "epsilons", "clip"),
    [
        (X, np.ones(len(X)), False),
        (np.asfortranarray(X), np.ones(len(X)), False),
        (X, np.arange(len(X)) % 2.0, False),
        (1.5 * X, np.ones(len(X)), True),
    ],
    ids=["rows", "columns", "half without promise", "clipped"],
)
def test_a_fit_needs_less_than_a_copy_of_the_matrix_in_addition(x, epsilons, clip):
    PrivateLogisticRegression(clip=clip, epsilon=1.0).fit(x[:20_000], Y[:20_000])  # compiling takes memory
    tracemalloc.start()
    try:
        PrivateLogisticRegression(clip=clip, classes=(0, 1)).fit(x, Y, epsilons=epsilons)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.9 * x.nbytes
