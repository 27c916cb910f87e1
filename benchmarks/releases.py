"""Weights and fits of the release core against version 0.2's own functions, in the same run.

The peers are what the core replaces; they stay here until they are deleted.
"""

import subprocess
import sys
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.learning.linear import PrivateLinearRegression, PrivateLogisticRegression
from dpmarket.privacy import softmax_weights_for, weights_for
from dpmarket.privacy.loss import Softmax, log_cosh_loss, logistic_loss
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release, least_l2

M = 100_000
FIRST_NEW = """
from dpmarket.privacy.loss import logistic_loss
from dpmarket.privacy.noise_norm import NoiseNorm
from dpmarket.privacy.release import Release
weights = lambda e: Release(logistic_loss(), NoiseNorm.euclidean(20), 1.0 / e.sum()).weights(e)
"""
FIRST_OLD = """
from dpmarket.privacy import weights_for
weights = lambda e: weights_for(e, 1.0 / e.sum())
"""
FIRST = """
import time, numpy as np
epsilons = np.random.default_rng(0).uniform(0.01, 3.0, 100_000)
start = time.perf_counter()
{imports}
weights(epsilons)
print(time.perf_counter() - start)
"""


def weights_of_many_people():
    epsilons = np.exp(np.random.default_rng(0).uniform(-4.0, 1.5, M))
    norm = NoiseNorm.euclidean(20)
    kinds = {
        "two classes": (logistic_loss(), lambda l2: weights_for(epsilons, l2)),
        "softmax of 5": (Softmax(5), lambda l2: softmax_weights_for(epsilons, l2, 5, 20)),
        "log-cosh": (log_cosh_loss(0.3), None),
    }
    rows = []
    for name, (loss, old) in kinds.items():
        tell(name)
        l2 = 0.5 * least_l2(loss, norm, epsilons.sum())
        release = Release(loss, norm, l2)
        peer = (lambda f=old, p=l2: f(p)) if old else (lambda: None)
        peer()
        new, before = compare([lambda r=release: r.weights(epsilons), peer])
        ratio = at_most(2, new / before) if old else ""
        rows.append([name, f"{1e3 * new:.1f} ms", f"{1e3 * before:.1f} ms" if old else "", ratio])
    yield Table(
        f"Weights of {M:,} distinct epsilons, with log-determinant terms",
        ["loss", "time", "version 0.2", "ratio"],
        rows,
        "Two classes had a compiled Chebyshev series of their own there; one solver in numpy serves all now.",
    )
    rows = []
    for name, imports in (("release core", FIRST_NEW), ("version 0.2", FIRST_OLD)):
        found = [
            float(
                subprocess.run(
                    [sys.executable, "-c", FIRST.format(imports=imports)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(3)
        ]
        rows.append([name, f"{min(found):.2f} s"])
    yield Table("The same for two classes as the first thing that a process does", ["", "time"], rows)


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
    measure(__file__, weights_of_many_people, fits)
