"""A private fit with a proved gradient bound against scikit-learn's LogisticRegression (no privacy).

Both get the same float64 rows of norm at most 1, dense or, for a table with categories, sparse. The private
fit includes validation, weights from promises, noise, the proof and the release; its first call, which
compiles or loads the kernels, is reported apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.learning import Categories, Numbers, PrivateLogisticRegression, PublicEncoder

SHAPES = [(100_000, 20), (1_000_000, 20), (100_000, 200)]


def records(count: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, n))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.sqrt(n)) * (1.0 + 1e-12)
    truth = 3.0 * rng.normal(size=n)
    return x, (rng.random(count) < 1.0 / (1.0 + np.exp(-x @ truth))).astype(int)


def table_rows(count: int) -> tuple[object, np.ndarray]:
    """Return encoded rows, sparse: 50 numbers and 5 categories of 10 levels, 100 columns."""
    rng = np.random.default_rng(0)
    numbers = {f"number {k}": rng.normal(size=count) for k in range(50)}
    levels = {f"category {k}": rng.integers(0, 10, count) for k in range(5)}
    margins = sum(0.3 * rng.normal() * values for values in numbers.values())
    margins = margins + sum(rng.normal(size=10)[places] for places in levels.values())
    declared = dict.fromkeys(numbers, Numbers(-2.0, 2.0)) | dict.fromkeys(
        levels, Categories(tuple(range(10)))
    )
    rows = PublicEncoder(declared).fit_transform(numbers | levels)
    return rows, (rng.random(count) < 1.0 / (1.0 + np.exp(-margins))).astype(int)


def fits() -> Iterator[Table]:
    x, y = records(1_000, 3)
    start = time.perf_counter()
    PrivateLogisticRegression(epsilon=1.0).fit(x, y)
    PrivateLogisticRegression(epsilon=1.0, numerical_epsilon=1e-12).fit(x, y)
    first = time.perf_counter() - start
    rows = []
    cases = {f"{count:,} x {n}": (lambda count=count, n=n: records(count, n)) for count, n in SHAPES}
    cases["100,000 x 100, half of them 0 or 1, CSR"] = lambda: table_rows(100_000)
    for name, make in cases.items():
        tell(name)
        x, y = make()
        private = PrivateLogisticRegression(epsilon=1.0)
        seconds = compare(
            [lambda m=private, x=x, y=y: m.fit(x, y), lambda x=x, y=y: LogisticRegression().fit(x, y)], 7
        )
        rows.append(
            [
                name,
                f"{seconds[0]:.3f} s",
                f"{seconds[1]:.3f} s",
                at_most(1.0, seconds[0] / seconds[1]),
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
