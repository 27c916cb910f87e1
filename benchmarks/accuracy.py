"""How good is the private model? Ours, reference learners and diffprivlib, on public data sets.

Every trial splits a set anew into a public part (a fifth: bounds for scaling, and what diffprivlib is tuned
on), a private part to train on (three fifths) and a part to test on (a fifth). All learners get the same rows
of the same trials, and the same promises; ours runs with its defaults. diffprivlib 0.6.6 knows one epsilon:
as a default everybody is trained on at the smallest promise with C = 1; the tuned one has the best C, norm
and, on mixtures, threshold that a grid holds, chosen for each set, level and measure on the public part.

The noise is seeded, so that a run can be interrupted and goes on where it stopped (``out/accuracy.json``); a
comparison of learners is no release. Writes ``docs/reference/accuracy.md``.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.progress import Progress
from sklearn.linear_model import LogisticRegression

from _accuracy_report import report
from _cache import Cache
from _diffprivlib_environment import environment
from _trials import COMMON, LEVELS, SETS, Trial, best_threshold, promises, scores, trial
from dpmarket.datasets import PublicData
from dpmarket.learning import Learner, PrivateLogisticRegression
from dpmarket.learning.reference import (
    LargeEpsilonsOnly,
    OutputPerturbation,
    PersonalisedSampling,
    SmallestEpsilon,
)
from dpmarket.privacy import SeededNoise

ROOT = Path(__file__).parent.parent
OUT = ROOT / "out"
TRIALS, TUNING_TRIALS = 24, 5
# Splits of their own: defaults were chosen with those from 0 and from 1000 on.
NUMBERS = range(2_000, 2_000 + TRIALS)
C_GRID = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
NORM_GRID = (1.0, 2.0, 4.0, 8.0)
CLASSES = (-1.0, 1.0)
SETTINGS = {"recipe": 2, "tuning trials": TUNING_TRIALS, "C": list(C_GRID), "norm": list(NORM_GRID)}


def ours(epsilons: np.ndarray, seed: int) -> Learner:
    return PrivateLogisticRegression(classes=CLASSES, noise_source=SeededNoise(seed))


def sampling(threshold: float, seed: int) -> Learner:
    rng = np.random.default_rng([11, seed])
    return PersonalisedSampling(threshold, CLASSES, SeededNoise(seed), rng.bytes)


LEARNERS: dict[str, Callable[[np.ndarray, int], Learner]] = {
    "dpmarket": ours,
    "smallest epsilon": lambda e, seed: SmallestEpsilon(ours(e, seed)),
    "large epsilons only": lambda e, seed: LargeEpsilonsOnly(ours(e, seed), best_threshold(e)),
    "sampling, largest": lambda e, seed: sampling(float(e.max()), seed),
    "sampling, mean": lambda e, seed: sampling(float(e.mean()), seed),
    "output perturbation": lambda e, seed: OutputPerturbation(None, CLASSES, SeededNoise(seed)),
}


def margins(learner: Learner, part: PublicData) -> np.ndarray:
    odds = np.log(np.clip(learner.predict_proba(part.features), 1e-300, 1.0))
    return part.signs * (odds[:, 1] - odds[:, 0])


def level_promises(level: str, one: Trial) -> np.ndarray:
    return promises(level, len(one.private), np.random.default_rng([13, one.number, LEVELS.index(level)]))


def run_learners(name: str, trials: list[Trial], cache: Cache, advance: Callable[[str], None]) -> None:
    for one in trials:
        key = f"{name}|without privacy|{one.number}"
        if key not in cache:
            plain = LogisticRegression(C=100.0, max_iter=1000).fit(one.private.features, one.private.labels)
            cache.keep(key, scores(margins(plain, one.test)))
        for level, (title, make) in itertools.product(LEVELS, LEARNERS.items()):
            key = f"{name}|{level}|{title}|{one.number}"
            if key not in cache:
                epsilons = level_promises(level, one)
                learner = make(epsilons, one.number)
                learner.fit(one.private.features, one.private.labels, epsilons=epsilons)
                cache.keep(key, scores(margins(learner, one.test)))
            advance(f"{name}, trial {one.number - NUMBERS.start + 1}")


def run_diffprivlib(
    name: str, trials: list[Trial], cache: Cache, advance: Callable[[str], None], python: Path
) -> None:
    """Score the default, tune on the public parts, and score the two best settings."""
    with _worker(python) as ask:
        files = [_records_file(one) for one in trials]

        def result(level: str, k: int, part: str, setting: tuple[float, float, int]) -> tuple[float, float]:
            key = f"{name}|{level}|diffprivlib {part} {setting}|{trials[k].number}"
            if key not in cache:
                epsilons = level_promises(level, trials[k])
                c, norm, threshold = setting
                least = float(epsilons.min()) if threshold == 0 else best_threshold(epsilons)
                job = {"file": files[k], "part": part, "promises": level, "least": least}
                answer = ask(job | {"C": c, "norm": norm, "seed": trials[k].number})
                cache.keep(key, (answer["accuracy"], answer["log_loss"]))
            return cache[key]

        for level in LEVELS:
            thresholds = (0,) if level in COMMON else (0, 1)
            grid = list(itertools.product(C_GRID, NORM_GRID, thresholds))
            tuned = []
            for setting in grid:
                tuned.append([result(level, k, "public", setting) for k in range(TUNING_TRIALS)])
                advance(f"{name}, {level}: diffprivlib, tuning")
            mean = np.array(tuned).mean(axis=1)
            choices = {
                "diffprivlib": (1.0, 1.0, 0),
                "diffprivlib, tuned for accuracy": grid[int(mean[:, 0].argmax())],
                "diffprivlib, tuned for log loss": grid[int(mean[:, 1].argmin())],
            }
            for title, setting in choices.items():
                for k, one in enumerate(trials):
                    cache.keep(f"{name}|{level}|{title}|{one.number}", result(level, k, "test", setting))
                cache.keep(f"{name}|{level}|{title}|setting", setting)
                advance(f"{name}, {level}: {title}")
    cache.write()


def _records_file(one: Trial) -> str:
    path = OUT / "accuracy" / f"{one.number}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = {"train": one.private, "public": one.public, "test": one.test}
    np.savez(
        path,
        **{f"{part}_x": data.features for part, data in parts.items()},
        **{f"{part}_y": data.signs for part, data in parts.items()},
        **{level: level_promises(level, one) for level in LEVELS},
    )
    return str(path)


@contextmanager
def _worker(python: Path) -> Iterator[Callable[[dict], dict]]:
    """Start diffprivlib's process; give a function from a job to its scores."""
    process = subprocess.Popen(
        [str(python), str(Path(__file__).with_name("_diffprivlib_worker.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(job: dict) -> dict:
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise SystemExit("diffprivlib's process ended; its message is above.")
        return json.loads(answer)

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait()


def main() -> None:
    python = environment()
    cache = Cache(OUT / "accuracy.json", SETTINGS)
    steps = len(SETS) * (TRIALS * len(LEVELS) * len(LEARNERS))
    steps += len(SETS) * (11 * len(C_GRID) * len(NORM_GRID) + 3 * len(LEVELS))
    with Progress(disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=steps)
        last = ""

        def advance(text: str) -> None:
            nonlocal last
            bar.update(task, advance=1, description=text)
            if bar.disable and text != last:
                print(f"{bar.tasks[0].completed:6.0f} of {steps}  {text}", flush=True)
            last = text

        for name, load in SETS.items():
            data = load()
            trials = [trial(data, number).scaled() for number in NUMBERS]
            run_learners(name, trials, cache, advance)
            run_diffprivlib(name, trials, cache, advance, python)
    names = (*LEARNERS, "diffprivlib", "diffprivlib, tuned for accuracy", "diffprivlib, tuned for log loss")
    found = {
        (name, level, title): np.array([cache[f"{name}|{level}|{title}|{k}"] for k in NUMBERS])
        for name, level, title in itertools.product(SETS, LEVELS, names)
    }
    ceiling = {name: np.array([cache[f"{name}|without privacy|{k}"] for k in NUMBERS]) for name in SETS}
    chosen = {
        (name, level, title): cache[f"{name}|{level}|{title}|setting"]
        for name, level, title in itertools.product(SETS, LEVELS, names[-2:])
    }
    sizes = {
        name: (len(data), data.n_features, data.source) for name, data in ((n, f()) for n, f in SETS.items())
    }
    report(ROOT / "docs" / "reference" / "accuracy.md", found, ceiling, chosen, sizes)


if __name__ == "__main__":
    main()
