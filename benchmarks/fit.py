"""A private fit with a proved gradient bound against scikit-learn's LogisticRegression (no privacy).

Both get the same float64 rows of norm at most 1, dense or, for a table with categories, sparse. The private
fit includes validation, weights from epsilons, noise, the proof and the release. Times are processor times,
which other programs disturb least.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression

from _results import Table, at_most, measure, tell
from _timing import compare
from dpmarket.learning import Categories, Numbers, PrivateLogisticRegression, PublicEncoder


def records(count: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and a score, from which labels are cut."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, n))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * 1.000001
    return x, 5.0 * x[:, 0] + rng.logistic(size=count)


def table_rows(count: int) -> tuple[object, np.ndarray]:
    """Return encoded rows, sparse: 50 numbers and 5 categories of 10 levels, 100 columns; and a score."""
    rng = np.random.default_rng(0)
    numbers = {f"number {k}": rng.normal(size=count) for k in range(50)}
    levels = {f"category {k}": rng.integers(0, 10, count) for k in range(5)}
    score = sum(0.3 * rng.normal() * values for values in numbers.values())
    score = score + sum(rng.normal(size=10)[places] for places in levels.values()) + rng.logistic(size=count)
    declared = dict.fromkeys(numbers, Numbers(-2.0, 2.0)) | dict.fromkeys(
        levels, Categories(tuple(range(10)))
    )
    return PublicEncoder(declared).fit_transform(numbers | levels), score


def fits() -> Iterator[Table]:
    cases = {
        "500,000 x 20, two classes": (lambda: records(500_000, 20), [0.0], 0.6),
        "500,000 x 20, five classes": (lambda: records(500_000, 20), [-2.0, -0.7, 0.7, 2.0], 0.8),
        "100,000 x 200, two classes": (lambda: records(100_000, 200), [0.0], None),
        "100,000 x 100 of a table, CSR": (lambda: table_rows(100_000), [0.0], None),
    }
    rows = []
    for name, (make, cuts, aim) in cases.items():
        tell(name)
        x, score = make()
        y = np.digitize(score, cuts)
        private = PrivateLogisticRegression(range(len(cuts) + 1), epsilon=1.0)
        plain = LogisticRegression()
        both = [lambda m=private, x=x, y=y: m.fit(x, y), lambda p=plain, x=x, y=y: p.fit(x, y)]
        own, peer = compare(both, 5, clock=time.process_time)
        ratio = own / peer
        rows.append(
            [
                name,
                f"{own:.2f} s",
                f"{peer:.2f} s",
                f"{ratio:.2f}" if aim is None else at_most(aim, ratio),
                f"{private.release_plan_.gradient_bound:.1e}",
                f"{private.score(x, y):.4f}",
                f"{plain.score(x, y):.4f}",
            ]
        )
    yield Table(
        "`PrivateLogisticRegression(epsilon=1)` against `LogisticRegression()`, processor time",
        ["rows x features", "private", "sklearn", "ratio", "gradient bound", "accuracy", "sklearn's"],
        rows,
    )


if __name__ == "__main__":
    measure(__file__, fits)
