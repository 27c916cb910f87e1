"""A private fit with a proved gradient bound against scikit-learn's LogisticRegression (no privacy).

Both get the same float64 rows of norm at most 1. The private fit includes validation, weights from promises,
noise, the proof and the release; its first call, which compiles or loads the kernels, is reported apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression

from _results import Table, measure, tell
from _timing import compare
from dpmarket.learning import PrivateLogisticRegression

SHAPES = [(100_000, 20), (1_000_000, 20), (100_000, 200)]


def records(count: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, n))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.sqrt(n)) * (1.0 + 1e-12)
    truth = 3.0 * rng.normal(size=n)
    return x, (rng.random(count) < 1.0 / (1.0 + np.exp(-x @ truth))).astype(int)


def fits() -> Iterator[Table]:
    x, y = records(1_000, 3)
    start = time.perf_counter()
    PrivateLogisticRegression(epsilon=1.0).fit(x, y)
    PrivateLogisticRegression(epsilon=1.0, numerical_epsilon=1e-12).fit(x, y)
    first = time.perf_counter() - start
    rows = []
    for count, n in SHAPES:
        tell(f"{count:,} rows, {n} features")
        x, y = records(count, n)
        private = PrivateLogisticRegression(epsilon=1.0)
        seconds = compare(
            [lambda m=private, x=x, y=y: m.fit(x, y), lambda x=x, y=y: LogisticRegression().fit(x, y)], 5
        )
        rows.append(
            [
                f"{count:,} x {n}",
                f"{seconds[0]:.3f} s",
                f"{seconds[1]:.3f} s",
                f"{seconds[0] / seconds[1]:.2f}",
                f"{private.release_plan_.gradient_bound:.1e}",
                f"{private.score(x, y):.4f}",
                f"{LogisticRegression().fit(x, y).score(x, y):.4f}",
            ]
        )
    yield Table(
        "`PrivateLogisticRegression(epsilon=1)` against `LogisticRegression()`",
        ["rows x features", "private", "sklearn", "ratio", "gradient bound", "accuracy", "sklearn's"],
        rows,
        f"First calls, kernels compiled or loaded from the cache: {first:.1f} s.",
    )


if __name__ == "__main__":
    measure(__file__, fits)
