"""Records and small markets for the tests of the data-dependent mechanism."""

import numpy as np

from dpmarket import PublicScaler
from dpmarket.allocation.simplex import UNCAPPED, split_cap
from dpmarket.datasets import breast_cancer, separable
from dpmarket.mechanisms.joint import InnerProblem


def records(data, radius):
    return PublicScaler(data.low, data.high, radius=radius).fit_transform(data.features), data.signs


def cancer(count=455):
    """Rows of norm at most 1 and signs, 455 of 569 as in the paper's split."""
    X, y = records(breast_cancer(), 2.0)
    chosen = np.random.default_rng(0).permutation(len(y))[:count]
    return X[chosen], y[chosen]


def synthetic(count=200, features=5, seed=0):
    rng = np.random.default_rng(seed)
    return records(separable(count, features, rng, flips=0.1), 1.0)


def inner_problem(X, y, *, concentration, l2, rng, cap=None, pull=0.0, price=0.1, radius=np.inf):
    """An inner problem with random prices and pull of the given sizes."""
    from fractions import Fraction

    m, n = X.shape
    direction = rng.standard_normal(n)
    layout = UNCAPPED if cap is None else split_cap(Fraction(cap) / m)
    return InnerProblem(
        y[:, None] * X,
        price * rng.uniform(1.0, 9.0, m),
        pull * direction / np.linalg.norm(direction),
        l2,
        concentration,
        layout,
        radius,
    )
