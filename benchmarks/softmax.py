"""More than two classes: softmax regression, one against the rest and diffprivlib's, on public sets.

One against the rest is our binary model for every class, each at epsilon / K, so that all together keep the
promise; diffprivlib's does the same within. It knows one epsilon for all: where promises are mixed, the
promise that buys most, and the records of people who were promised less are left out. All get the same rows
and public bounds. Ours use their defaults; of diffprivlib's models with three penalties the one that is best
on the test records is shown, which favours it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from dpmarket.learning.geometry import geometry_of
from dpmarket.learning.softmax_geometry import SoftmaxGeometry
from sklearn.linear_model import LogisticRegression

from _classes import SETS, Split, scores, split
from _diffprivlib_environment import environment
from _markdown import write_tables
from _results import Table, at_least, at_most, measure, tell
from _timing import compare
from _trials import LOG_UNIFORM, best_threshold, promises
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import SeededNoise

LEVELS = ("1", "3", "10", "34/43/23% at 1/2/3", LOG_UNIFORM)
TRIALS, STUDY_TRIALS = 10, 4
PENALTIES, STRETCHES = (0.25, 0.5, 1.0, 2.0, 4.0), (0.0, 0.5, 1.0, 2.0)
INVERSE_PENALTIES = (0.001, 0.03, 1.0)
AIMS = {("digits", "3"): 0.75, ("digits", "10"): 0.89}


def softmax_scores(one: Split, epsilons: np.ndarray, classes: int, **settings: float) -> tuple[float, float]:
    model = PrivateLogisticRegression(
        classes=tuple(range(classes)), noise_source=SeededNoise(one.number), **settings
    ).fit(one.train, one.train_labels, epsilons=epsilons)
    return scores(model.predict_proba(one.test), one.test_labels)


def rest_scores(one: Split, epsilons: np.ndarray, classes: int) -> tuple[float, float]:
    """Return the scores of one binary model per class, each at a share of the promises."""
    shares = np.column_stack(
        [
            PrivateLogisticRegression(
                classes=(False, True), noise_source=SeededNoise(classes * one.number + k)
            )
            .fit(one.train, one.train_labels == k, epsilons=epsilons / classes)
            .predict_proba(one.test)[:, 1]
            for k in range(classes)
        ]
    )
    return scores(shares / shares.sum(axis=1, keepdims=True), one.test_labels)


class Diffprivlib:
    """diffprivlib in an environment of its own: a process that answers jobs line by line."""

    def __init__(self) -> None:
        script = str(Path(__file__).with_name("_diffprivlib_classes.py"))
        self._process = subprocess.Popen(
            [str(environment()), script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def scores(self, one: Split, epsilons: np.ndarray) -> tuple[float, float]:
        """Return accuracy and log loss of its model with the penalty that does best on the test records."""
        found = [self._scores(one, epsilons, inverse) for inverse in INVERSE_PENALTIES]
        return max(accuracy for accuracy, _ in found), min(loss for _, loss in found)

    def _scores(self, one: Split, epsilons: np.ndarray, inverse_penalty: float) -> tuple[float, float]:
        least = best_threshold(epsilons)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "split.npz"
            used = epsilons >= least
            np.savez(file, train=one.train[used], labels=one.train_labels[used], test=one.test)
            job = {"file": str(file), "epsilon": least, "C": inverse_penalty, "seed": one.number}
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        shown = np.zeros((len(one.test), int(max(one.train_labels.max(), one.test_labels.max())) + 1))
        shown[:, answer["classes"]] = answer["probabilities"]
        return scores(shown, one.test_labels)


def quality() -> Iterator[Table]:
    peer = Diffprivlib()
    rows = []
    for name, load in SETS.items():
        data = load()
        for level in LEVELS:
            tell(f"{name}, {level}")
            found = []
            for number in range(TRIALS):
                one = split(data, number)
                epsilons = promises(level, len(one.train), np.random.default_rng([13, number]))
                found.append(
                    [
                        *softmax_scores(one, epsilons, data.count),
                        *rest_scores(one, epsilons, data.count),
                        *peer.scores(one, epsilons),
                    ]
                )
            array = np.array(found)
            mean = array.mean(axis=0)
            ahead = array[:, [0]] - array[:, [2, 4]]
            error = ahead.std(axis=0, ddof=1) / np.sqrt(TRIALS)
            own = f"{mean[0]:.3f}"
            rows.append(
                [
                    f"{name}, {level}",
                    str(data.count),
                    at_least(AIMS[name, level], mean[0], ".3f") if (name, level) in AIMS else own,
                    *(
                        f"{mean[2 + 2 * k]:.3f} ({ahead[:, k].mean():+.3f} ± {error[k]:.3f})"
                        for k in range(2)
                    ),
                    f"{mean[1]:.3f}",
                    f"{mean[3]:.3f}",
                    f"{mean[5]:.3f}",
                ]
            )
    yield Table(
        f"Test accuracy and log loss with more than two classes, mean of {TRIALS} splits",
        [
            "set, promises",
            "K",
            "softmax",
            "one against rest",
            "diffprivlib",
            "log loss",
            "rest",
            "diffprivlib's",
        ],
        rows,
        "In brackets: how far softmax is ahead, with its standard error over splits. Promises are those of "
        "all, or of shares of the people.",
    )


def defaults() -> Iterator[Table]:
    """Yield how much is lost on average against the best setting of each case, around the defaults."""
    settings = [(penalty, 1.0) for penalty in PENALTIES] + [(1.0, s) for s in STRETCHES if s != 1.0]
    cases = []
    for name, load in SETS.items():
        data = load()
        for level in LEVELS:
            tell(f"{name}, {level}")
            found = np.zeros((STUDY_TRIALS, len(settings), 2))
            for number in range(STUDY_TRIALS):
                one = split(data, 1_000 + number)
                epsilons = promises(level, len(one.train), np.random.default_rng([13, number]))
                geometry = SoftmaxGeometry(
                    geometry_of(one.train.shape[1], None, None, wanted=True), data.count
                )
                for k, (penalty, stretch) in enumerate(settings):
                    l2 = penalty * geometry.suggested_l2(epsilons)
                    suggested = geometry.suggested_stretch(
                        geometry.weights(epsilons, l2, rows_per_person=1, reserve=1e-6)
                    )
                    stretched = 1.0 + stretch * (suggested - 1.0)
                    found[number, k] = softmax_scores(one, epsilons, data.count, l2=l2, stretch=stretched)
            cases.append(found.mean(axis=0))
    array = np.array(cases)
    lost = np.stack(
        [
            array[:, :, 0].max(axis=1, keepdims=True) - array[:, :, 0],
            array[:, :, 1] - array[:, :, 1].min(axis=1, keepdims=True),
        ]
    )
    rows = [
        [
            f"penalty {penalty:g}, stretch {stretch:g}",
            *(f"{part[:, k].mean():.4f}" for part in lost),
            *(f"{part[:, k].max():.4f}" for part in lost),
        ]
        for k, (penalty, stretch) in enumerate(settings)
    ]
    yield Table(
        f"What settings lose against the best of them, over {len(cases)} cases, {STUDY_TRIALS} splits each",
        ["times the suggested", "accuracy", "log loss", "accuracy, worst", "log loss, worst"],
        rows,
        "Penalty: this times `softmax_suggest_l2`. Stretch: 1 plus this times what the suggested is above 1.",
    )


def times() -> Iterator[Table]:
    """Yield the time of a fit against scikit-learn's multinomial one (lbfgs), no privacy."""
    rng = np.random.default_rng(0)
    rows = []
    for count, n, classes in [(100_000, 20, 10), (20_000, 100, 10)]:
        tell(f"{count:,} rows, {n} features, {classes} classes")
        x = rng.normal(size=(count, n))
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.sqrt(n)) * (1.0 + 1e-12)
        y = (3.0 * x @ rng.normal(size=(n, classes)) + rng.gumbel(size=(count, classes))).argmax(axis=1)
        private = PrivateLogisticRegression(epsilon=1.0, classes=tuple(range(classes)))
        seconds = compare(
            [lambda m=private, x=x, y=y: m.fit(x, y), lambda x=x, y=y: LogisticRegression().fit(x, y)], 3
        )
        rows.append(
            [
                f"{count:,} x {n}, {classes} classes",
                f"{seconds[0]:.3f} s",
                f"{seconds[1]:.3f} s",
                at_most(1.0, seconds[0] / seconds[1]),
                f"{private.release_plan_.gradient_bound:.1e}",
                f"{private.score(x, y):.4f}",
                f"{LogisticRegression().fit(x, y).score(x, y):.4f}",
            ]
        )
    yield Table(
        "`PrivateLogisticRegression(epsilon=1)` with more than two classes against `LogisticRegression()`",
        ["rows x features", "private", "sklearn", "ratio", "gradient bound", "accuracy", "sklearn's"],
        rows,
    )


if __name__ == "__main__":
    write_tables(__file__, measure(__file__, quality, defaults, times))
