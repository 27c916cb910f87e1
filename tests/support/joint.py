"""Records for the tests of the joint mechanism."""

import numpy as np

from dpmarket import PublicScaler
from dpmarket.datasets import breast_cancer, separable


def records(data, radius):
    return PublicScaler(data.low, data.high, radius=radius).fit_transform(data.features), data.signs


def cancer(count=455):
    """Rows of norm at most 1 and signs, 455 of 569 as in the paper's split."""
    X, y = records(breast_cancer(), 2.0)
    chosen = np.random.default_rng(0).permutation(len(y))[:count]
    return X[chosen], y[chosen]


def synthetic(count=200, features=5, seed=0):
    return records(separable(count, features, np.random.default_rng(seed)), 1.0)
