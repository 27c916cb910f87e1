"""Fits of private linear models against scikit-learn's, in the same run."""

import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.learning.linear import PrivateLinearRegression, PrivateLogisticRegression


def fits():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500_000, 20))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.000001
    score = 5.0 * x[:, 0] + rng.logistic(size=len(x))
    labels = {
        "two classes": (PrivateLogisticRegression(epsilon=1.0, classes=(0, 1)), (score > 0).astype(int), 0.6),
        "five classes": (
            PrivateLogisticRegression(epsilon=1.0, classes=range(5)),
            np.digitize(score, [-2.0, -0.7, 0.7, 2.0]),
            0.8,
        ),
        "regression": (PrivateLinearRegression(epsilon=1.0, scale=2.0), score, None),
    }
    rows = []
    for name, (model, y, aim) in labels.items():
        tell(name)
        model.fit(x[:1000], y[:1000])
        start = time.perf_counter()
        if aim is not None:
            LogisticRegression(C=1.0).fit(x, y)
        peer = time.perf_counter() - start
        (own,) = compare([lambda m=model, t=y: m.fit(x, t)], 3)
        rows.append([name, f"{own:.2f} s", "" if aim is None else at_most(aim, own / peer)])
    yield Table("Fit of 500,000 records with 20 features", ["model", "time", "scikit-learn's"], rows)


if __name__ == "__main__":
    measure(__file__, fits)
