"""Promises with a delta: Gaussian noise against noise without one, shaped noise and noisy gradient descent.

All get the same rows, public bounds and promises. Ours use their defaults. Noisy gradient descent knows one
epsilon for all, and of three numbers of steps the one that is best on the test records is shown, which
favours it; so it is for diffprivlib's model, shown where its environment is there (``softmax.py`` makes it).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from _diffprivlib_environment import FOLDER, python_of_environment
from _markdown import write_tables
from _results import Table, at_most, measure
from _trials import SETS, best_threshold, trial
from dpmarket import datasets
from dpmarket.datasets import logistic, standard_bounds
from dpmarket.learning import PrivateLogisticRegression, PublicEncoder, PublicScaler
from dpmarket.learning.reference import NoisyDescent
from dpmarket.privacy import SeededNoise
from shapes import columns_by_hand, split

DELTA, TRIALS, FEWER_TRIALS = 1e-5, 16, 4
AIMS = {0.3: 0.29, 1.0: 0.22, 3.0: 0.19}
LEVELS = (0.1, 0.3, 1.0, 3.0)
STEPS = (30, 100, 300)
INVERSE_PENALTIES = (0.001, 0.03, 1.0)
TABLES: dict[str, Callable[[], datasets.PublicTable]] = {
    "census, drawn": lambda: datasets.census(10_000, np.random.default_rng(11)),
}

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # train, labels, test, labels


def error(rows: Rows, epsilons: np.ndarray, number: int, delta: float | None, **settings: object) -> float:
    """Return the share of test records that our model gets wrong."""
    train, labels, test, wanted = rows
    model = PrivateLogisticRegression(
        classes=(-1.0, 1.0), delta=delta, noise_source=SeededNoise(number), **settings
    ).fit(train, labels, epsilons=epsilons)
    return float((model.predict(test) != wanted).mean())


def descent_error(rows: Rows, epsilons: np.ndarray, number: int) -> float:
    train, labels, test, wanted = rows
    found = [
        NoisyDescent(DELTA, np.random.default_rng([3, number]), steps, classes=(-1.0, 1.0))
        .fit(np.asarray(train), labels, epsilons)
        .predict(np.asarray(test))
        for steps in STEPS
    ]
    return min(float((labels != wanted).mean()) for labels in found)


class Diffprivlib:
    """diffprivlib in an environment of its own: a process that answers jobs line by line."""

    def __init__(self) -> None:
        script = str(Path(__file__).with_name("_diffprivlib_worker.py"))
        self._process = subprocess.Popen(
            [str(python_of_environment()), script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def error(self, rows: Rows, epsilons: np.ndarray, number: int) -> float:
        """Return the test error of its model with the penalty that does best on the test records."""
        train, labels, test, wanted = rows
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.npz"
            np.savez(file, train_x=train, train_y=labels, test_x=test, test_y=wanted, promises=epsilons)
            job = {"file": str(file), "part": "test", "promises": "promises", "norm": 1.0, "seed": number}
            job["least"] = best_threshold(epsilons)
            return min(1.0 - self._ask(job | {"C": c})["accuracy"] for c in INVERSE_PENALTIES)

    def _ask(self, job: dict) -> dict:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def many_features() -> Iterator[Table]:
    """Compare on 100 features and a constant, 4,000 people, promises of .3, 1 and 3 times a base."""
    lines = []
    for base, aim in AIMS.items():
        pure, gaussian, descent = [], [], []
        for number in range(TRIALS):
            rng = np.random.default_rng([5, number])
            data = logistic(8_000, 100, rng)
            x = PublicScaler(data.low, data.high).fit_transform(data.features)
            rows = (x[:4_000], data.signs[:4_000], x[4_000:], data.signs[4_000:])
            epsilons = base * rng.choice([0.3, 1.0, 3.0], 4_000)
            pure.append(error(rows, epsilons, number, None))
            gaussian.append(error(rows, epsilons, number, DELTA))
            descent.append(descent_error(rows, epsilons, number))
        means = [f"{np.mean(found):.3f}" for found in (pure, descent)]
        off = np.std(gaussian, ddof=1) / np.sqrt(TRIALS)
        best = at_most(aim, float(np.mean(gaussian)), ".3f")
        lines.append([f"{base:g}", means[0], best, f"{off:.3f}", means[1]])
    yield Table(
        "Test error on the logistic generator, n = 101, 4,000 people, delta 1e-5",
        ["base of the promises", "without a delta", "Gaussian", "standard error", "noisy descent"],
        lines,
        f"Means of {TRIALS} data sets with their own noise; promises are .3, 1 or 3 times the base.",
    )


def public_sets() -> Iterator[Table]:
    """Compare at one epsilon for all on sets of numbers and on tables with categories."""
    others = Diffprivlib() if (FOLDER / "ready").exists() else None
    lines = []
    for name, rows_of in (*_dense(), *_categorical()):
        for level in LEVELS:
            found: dict[str, list[float]] = {}
            for number in range(FEWER_TRIALS):
                plain, shaped = rows_of(number)
                epsilons = np.full(len(plain[1]), level)
                delta = min(DELTA, 0.1 / len(epsilons))
                found.setdefault("pure", []).append(error(plain, epsilons, number, None))
                if shaped is not None:
                    found.setdefault("shaped", []).append(error(shaped, epsilons, number, None))
                found.setdefault("gaussian", []).append(error(shaped or plain, epsilons, number, delta))
                found.setdefault("descent", []).append(descent_error(plain, epsilons, number))
                if others is not None:
                    found.setdefault("diffprivlib", []).append(others.error(plain, epsilons, number))
            names = ("pure", "shaped", "gaussian", "descent", "diffprivlib")
            cells = [f"{np.mean(found[key]):.3f}" if key in found else "" for key in names]
            lines.append([f"{name}, epsilon {level:g}", *cells])
    yield Table(
        "Test error with one epsilon for all, delta 1e-5 or a tenth of a person",
        ["set", "without a delta", "shaped", "Gaussian", "noisy descent", "diffprivlib"],
        lines,
        f"Means of {FEWER_TRIALS} splits. An empty cell was not measured.",
    )


def _dense() -> Iterator[tuple[str, Callable[[int], tuple[Rows, Rows | None]]]]:
    sets = {name: SETS[name] for name in ("breast cancer", "logistic")} | {"odd digits": datasets.odd_digits}
    for name, make in sets.items():
        data = make()

        def rows_of(number: int, data: datasets.PublicData = data) -> tuple[Rows, None]:
            one = trial(data, number).scaled()
            return (one.private.features, one.private.signs, one.test.features, one.test.signs), None

        yield f"{name} ({data.n_features} numbers)", rows_of


def _categorical() -> Iterator[tuple[str, Callable[[int], tuple[Rows, Rows | None]]]]:
    for name, make in TABLES.items():
        table = make()
        table = table.take(np.sort(np.random.default_rng(0).permutation(len(table))[:8_000]))

        def rows_of(number: int, table: datasets.PublicTable = table) -> tuple[Rows, Rows]:
            one = split(table, number)
            encoder = PublicEncoder.from_public(one.public.frame).fit(one.private.frame)
            encoded = (encoder.transform(part.frame) for part in (one.private, one.test))
            parts = columns_by_hand(one)
            public = parts["public"]
            low, high = public.min(0) - 1e-9, public.max(0) + 1e-9
            data = datasets.PublicData(public, one.public.signs, (-1.0, 1.0), low, high, "", "")
            scaler = PublicScaler(*standard_bounds(data)).fit(public)
            by_hand = (scaler.transform(parts[part]) for part in ("private", "test"))
            signs = one.private.signs, one.test.signs
            return tuple(
                (train, signs[0], test, signs[1]) for train, test in (tuple(by_hand), tuple(encoded))
            )

        yield f"{name} (categories)", rows_of


if __name__ == "__main__":
    write_tables(__file__, measure(__file__, many_features, public_sets))
