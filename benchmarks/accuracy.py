"""How good private models are: accuracy on public sets, against other learners and against version 0.2.

Every trial splits a set anew: a public part gives bounds for scaling, private records are trained on, others
test. All learners see the same rows, splits and epsilons, and run with their defaults. Figures of version 0.2
and of diffprivlib 0.6.6 on the same splits are stored in ``accuracy_0_2.json``. The noise is seeded; a
comparison of learners is no release. Needs the extra ``real-data``; takes minutes. Parts can be run alone:
``python benchmarks/accuracy.py regression``. Writes ``docs/tables/accuracy.md``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression

from _classes import SETS as CLASS_SETS
from _classes import scores as class_scores
from _classes import split
from _markdown import write_tables
from _public_sets import census, unemployment_benefits
from _results import FOLDER, Table, print_table, tell
from _trials import COMMON, LEVELS, LOG_UNIFORM, SETS, best_threshold, promises, scores, trial
from dpmarket import datasets
from dpmarket.files import read_json, write_json
from dpmarket.learning import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PublicEncoder,
    PublicScaler,
)
from dpmarket.privacy import SeededNoise

sys.path.insert(0, str(Path(__file__).parent.parent / "paper"))
from learners import LargeEpsilonsOnly, OutputPerturbation, PersonalisedSampling

BEFORE = json.loads(Path(__file__).with_name("accuracy_0_2.json").read_text(encoding="utf-8"))
NUMBERS = range(2_000, 2_012)  # splits of their own: defaults were chosen with those from 0 and 1000 on
SPLITS, FEW = 8, 4
SHOWN = ("0.1", "1", LOG_UNIFORM)
STORED = FOLDER / "accuracy"
DELTA = 1e-5
SIGNS = (-1.0, 1.0)


def ours(seed: int, **settings: object) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(SIGNS, noise_source=SeededNoise(seed), **settings)


def sampled(threshold: float, seed: int) -> PersonalisedSampling:
    return PersonalisedSampling(threshold, SIGNS, SeededNoise(seed), np.random.default_rng([11, seed]).bytes)


LEARNERS: dict[str, Callable] = {
    "dpmarket": lambda e, seed: ours(seed),
    "best threshold": lambda e, seed: LargeEpsilonsOnly(ours(seed), best_threshold(e)),
    "smallest epsilon": lambda e, seed: LargeEpsilonsOnly(ours(seed)),
    "sampling": lambda e, seed: sampled(float(e.max()), seed),
    "output perturbation": lambda e, seed: OutputPerturbation(SIGNS, SeededNoise(seed)),
}


def two_classes() -> Iterator[Table]:
    rows, worse = [], []
    for name, load in SETS.items():
        trials = [trial(load(), number).scaled() for number in NUMBERS]
        for level in SHOWN:
            tell(f"{name}, {level}")
            found: dict[str, list] = {title: [] for title in LEARNERS}
            for one in trials:
                rng = np.random.default_rng([13, one.number, LEVELS.index(level)])
                epsilons = promises(level, len(one.private), rng)
                for title, make in LEARNERS.items():
                    # With one epsilon for all, thresholds and sampling are dpmarket itself.
                    if level in COMMON and title not in ("dpmarket", "output perturbation"):
                        continue
                    learner = make(epsilons, one.number).fit(
                        one.private.features, one.private.labels, epsilons
                    )
                    odds = np.log(np.clip(learner.predict_proba(one.test.features), 1e-300, 1.0))
                    found[title].append(scores(one.test.signs * (odds[:, 1] - odds[:, 0])))
            stored = BEFORE["two classes"][f"{name}, {level}"]
            before = [stored[measure]["dpmarket"] for measure in ("accuracy", "log loss")]
            other = [f"{stored['accuracy'][title][0]:.3f}" for title in ("diffprivlib", "diffprivlib, tuned")]
            worse += _worse(f"{name}, {level}", np.array(found["dpmarket"]), before)
            cells = [_mean(np.array(values)[:, 0]) if values else "" for values in found.values()]
            losses = [_mean(np.array(found[title])[:, 1]) for title in ("dpmarket", "output perturbation")]
            rows.append([f"{name}, {level}", *cells, *other, *losses])
    yield Table(
        "Accuracy, two classes",
        [
            *("set, epsilons", *LEARNERS, "diffprivlib", "diffprivlib, tuned"),
            *("log loss", "log loss, output perturbation"),
        ],
        rows,
        f"Means of {len(NUMBERS)} splits, standard errors in units of the last digit. {_said(worse)} Tuned: "
        "the best of 28 settings (56 on mixtures), chosen on public records.",
    )


def more_classes() -> Iterator[Table]:
    rows, worse = [], []
    for name, load in CLASS_SETS.items():
        data = load()
        for level in ("1", "3"):
            tell(f"{name}, {level}")
            found = []
            for number in range(SPLITS):
                one = split(data, number)
                epsilons = promises(level, len(one.train), np.random.default_rng([13, number]))
                for delta in (None, min(DELTA, 0.1 / len(epsilons))):
                    model = PrivateLogisticRegression(
                        tuple(range(data.count)), delta=delta, noise_source=SeededNoise(number)
                    ).fit(one.train, one.train_labels, epsilons=epsilons)
                    found.append(class_scores(model.predict_proba(one.test), one.test_labels))
            array = np.array(found).reshape(SPLITS, 2, 2)
            before = BEFORE["classes"][f"{name}, {level}"]
            error = array[:, 0].std(axis=0, ddof=1) / np.sqrt(SPLITS)
            stored = [(before["accuracy"], error[0]), (before["log loss"], error[1])]
            worse += _worse(f"{name}, {level}", array[:, 0], stored)
            rows.append(
                [
                    f"{name} ({data.count} classes), {level}",
                    *(_mean(array[:, k, 0]) for k in (0, 1)),
                    f"{before['diffprivlib']:.3f}",
                    *(_mean(array[:, k, 1]) for k in (0, 1)),
                ]
            )
    yield Table(
        "More than two classes",
        [
            *("set, epsilon", "accuracy", "with a delta", "diffprivlib"),
            *("log loss", "log loss with a delta"),
        ],
        rows,
        f"Means of {SPLITS} splits. {_said(worse)} diffprivlib has the best of three penalties, chosen on "
        "the test records. Delta: 1e-5, or a tenth of one divided by the number of people.",
    )


def categories() -> Iterator[Table]:
    tables = {
        "unemployment benefits": unemployment_benefits(),
        "census, drawn anew": census(30_000, np.random.default_rng(11)),
    }
    rows = []
    for name, table in tables.items():
        for epsilon in (0.1, 1.0):
            tell(f"{name}, {epsilon:g}")
            found = []
            for number in range(FEW):
                rng = np.random.default_rng([7, number])
                public, rest = table.split(0.2, rng)
                private, test = rest.split(0.75, rng)
                encoder = PublicEncoder.from_public(public.frame).fit(private.frame)
                x, other = encoder.transform(private.frame), encoder.transform(test.frame)
                settings = [{"noise_norm": encoder.noise_norm()}, {}]
                models = [ours(number, epsilon=epsilon, **one).fit(x, private.signs) for one in settings]
                right = [float((model.predict(other) == test.signs).mean()) for model in models]
                right.append(max(float((test.signs == sign).mean()) for sign in SIGNS))
                found.append(right)
            array = np.array(found)
            rows.append([f"{name}, {epsilon:g}", *map(_mean, array.T)])
    yield Table(
        "Accuracy on tables with categories",
        ["table, epsilon", "norm of the encoder", "Euclidean norm", "commoner label"],
        rows,
        f"Means of {FEW} splits; the same rows with both norms.",
    )


def with_a_delta() -> Iterator[Table]:
    def sets() -> Iterator[tuple[str, Callable]]:
        yield "logistic, 101 coefficients, 1", lambda number: generated(number, 1.0)
        for name, load, levels in (
            ("breast cancer (30 numbers)", SETS["breast cancer"], (0.3, 1.0, 3.0)),
            ("odd digits (61 numbers)", datasets.odd_digits, (1.0,)),
        ):
            data = load()
            for level in levels:
                yield f"{name}, {level:g}", lambda k, data=data, level=level: trial_rows(data, k, level)

    rows = []
    for name, make in sets():
        tell(name)
        found = []
        for number in range(FEW):
            train, labels, test, wanted, epsilons = make(number)
            delta = min(DELTA, 0.1 / len(labels))
            models = [ours(number, delta=one).fit(train, labels, epsilons=epsilons) for one in (None, delta)]
            found.append([scores(wanted * model.decision_function(test)) for model in models])
        array = np.array(found)
        rows.append(
            [
                name,
                *(_mean(1.0 - array[:, k, 0]) for k in (0, 1)),
                *(_mean(array[:, k, 1]) for k in (0, 1)),
            ]
        )
    yield Table(
        "Test error with a delta of 1e-5",
        [
            "set, epsilon",
            "without a delta",
            "descent",
            "log loss without",
            "log loss, descent",
        ],
        rows,
        f"Means of {FEW} splits or generated sets; with 101 coefficients epsilons are 0.3, 1 or 3 times it.",
    )


def generated(number: int, base: float) -> tuple:
    rng = np.random.default_rng([5, number])
    data = datasets.logistic(8_000, 100, rng)
    x = PublicScaler(data.low, data.high).fit_transform(data.features)
    epsilons = base * rng.choice([0.3, 1.0, 3.0], 4_000)
    return x[:4_000], data.signs[:4_000], x[4_000:], data.signs[4_000:], epsilons


def trial_rows(data: datasets.PublicData, number: int, epsilon: float) -> tuple:
    one = trial(data, number).scaled()
    parts = one.private.features, one.private.signs, one.test.features, one.test.signs
    return *parts, np.full(len(one.private), epsilon)


def regression() -> Iterator[Table]:
    features, labels = load_diabetes(return_X_y=True)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5_000, 10))
    sets = {
        "diabetes (442 records, 10 features)": (features, labels),
        "linear (5,000 records, 10 features)": (x, x @ rng.normal(size=10) + 2.0 * rng.normal(size=5_000)),
    }
    rows = []
    for name, (x, y) in sets.items():
        for epsilon in (0.3, 1.0, 3.0):
            tell(f"{name}, {epsilon:g}")
            found = []
            for number in range(2 * SPLITS):
                order = np.random.default_rng([19, number]).permutation(len(y))
                test, train = np.split(order, [len(y) // 4])
                centre, spread = x.mean(axis=0), x.std(axis=0)
                rows_of = PublicScaler(centre - 2.0 * spread, centre + 2.0 * spread, 1.5).fit(x).transform
                private = PrivateLinearRegression(
                    float(y.mean()), float(y.std()), epsilon=epsilon, noise_source=SeededNoise(number)
                ).fit(rows_of(x[train]), y[train])
                plain = LinearRegression().fit(x[train], y[train])
                found.append([private.score(rows_of(x[test]), y[test]), plain.score(x[test], y[test])])
            rows.append([f"{name}, {epsilon:g}", *map(_mean, np.array(found).T)])
    yield Table(
        "R squared of regressions",
        ["set, epsilon", "dpmarket", "least squares, no privacy"],
        rows,
        f"Means of {2 * SPLITS} splits; bounds, centre and scale are the whole set's, taken as public.",
    )


def public_part_alone() -> Iterator[Table]:
    rows = []
    for name, load in SETS.items():
        found = []
        for number in NUMBERS:
            one = trial(load(), number).scaled()
            models = [
                LogisticRegression(C=100.0, max_iter=1000).fit(part.features, part.labels)
                for part in (one.public, one.private)
            ]
            right = [float((model.predict(one.test.features) == one.test.labels).mean()) for model in models]
            found.append([*right, max(float((one.test.signs == sign).mean()) for sign in SIGNS)])
        rows.append([name, *map(_mean, np.array(found).T)])
    yield Table(
        "Accuracy without private records, and without privacy",
        ["set", "public fifth alone", "private part, no privacy", "commoner label"],
        rows,
    )


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():.3f}({1000 * values.std(ddof=1) / np.sqrt(len(values)):.0f})"


def _worse(name: str, found: np.ndarray, before: list) -> list[str]:
    """Return the measures in which accuracy or log loss fell behind by more than two standard errors."""
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    signs = {"accuracy": -1.0, "log loss": 1.0}
    return [
        f"{name}, {measure}"
        for (measure, sign), mean, error, (old, old_error) in zip(
            signs.items(), found.mean(axis=0), errors, before, strict=True
        )
        if sign * (mean - old) > 2.0 * np.hypot(error, old_error) + 0.0005
    ]


def _said(worse: list[str]) -> str:
    behind = f"behind in {', '.join(worse)}" if worse else "behind nowhere"
    return f"Against version 0.2, accuracy and log loss, by more than two standard errors: {behind}."


PARTS = (two_classes, more_classes, categories, with_a_delta, regression, public_part_alone)


def main() -> None:
    """Run the parts named on the command line, or all; write every part that was ever run."""
    STORED.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        if part.__name__ in (sys.argv[1:] or [one.__name__ for one in PARTS]):
            tables = list(part())
            for table in tables:
                print_table(table)
            write_json(STORED / f"{part.__name__}.json", [asdict(table) for table in tables])
    found = [STORED / f"{part.__name__}.json" for part in PARTS]
    write_tables(__file__, [Table(**table) for path in found if path.is_file() for table in read_json(path)])


if __name__ == "__main__":
    main()
