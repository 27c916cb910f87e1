"""Turn the scores of benchmarks/accuracy.py into a page of the documentation, and check what must hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from _trials import COMMON, LEVELS, SETS
from dpmarket.files import write_bytes

OURS = "dpmarket"
MEASURES = ("accuracy", "log loss")
_HEADS = {
    "smallest epsilon": "smallest<br>epsilon",
    "large epsilons only": "large<br>epsilons only",
    "sampling, largest": "sampling,<br>largest",
    "sampling, mean": "sampling,<br>mean",
    "output perturbation": "output<br>perturbation",
    "diffprivlib": "diffprivlib",
}
DEFAULTS = tuple(_HEADS)
# With one promise for all these do exactly what dpmarket does, up to the rounding of released numbers.
SAME_AT_COMMON = ("smallest epsilon", "large epsilons only", "sampling, largest", "sampling, mean")
TUNED = ("diffprivlib, tuned for accuracy", "diffprivlib, tuned for log loss")

Scores = Mapping[tuple[str, str, str], np.ndarray]


@dataclass(frozen=True)
class Gap:
    """How far ours is ahead of another learner in one measure, in one case; below 0: behind."""

    name: str
    level: str
    other: str
    measure: str
    mean: float
    standard_error: float

    @property
    def behind(self) -> bool:
        return self.mean < -2.0 * self.standard_error

    def __str__(self) -> str:
        return (
            f"{self.name}, {self.level}, {self.measure}: {-self.mean:.4f} behind {self.other} "
            f"(standard error {self.standard_error:.4f})"
        )


def gaps(found: Scores, other: str, measure: int) -> Iterator[Gap]:
    """Compare trial by trial: all learners saw the same splits, so that only differences count."""
    for name in SETS:
        for level in LEVELS:
            difference = found[name, level, OURS][:, measure] - found[name, level, other][:, measure]
            ahead = difference if measure == 0 else -difference
            error = ahead.std(ddof=1) / np.sqrt(len(ahead))
            yield Gap(name, level, other, MEASURES[measure], float(ahead.mean()), float(error))


def checks(found: Scores) -> list[tuple[str, int, list[Gap]]]:
    """Return each thing that must hold, in how many comparisons, and where it does not."""
    defaults = [
        gap
        for other in DEFAULTS
        for measure in (0, 1)
        for gap in gaps(found, other, measure)
        if gap.level not in COMMON or other not in SAME_AT_COMMON
    ]
    tuned = [gap for measure, other in enumerate(TUNED) for gap in gaps(found, other, measure)]
    harder = [gap for gap in defaults if gap.level not in COMMON or float(gap.level) <= 1.0]
    return [
        (
            "not below any competitor's default by more than two standard errors",
            len(defaults),
            [gap for gap in defaults if gap.behind],
        ),
        (
            "above every competitor's default on mixtures and at epsilon <= 1",
            len(harder),
            [gap for gap in harder if gap.mean <= 0.0],
        ),
        (
            "within two standard errors of diffprivlib's best-tuned setting, or above it",
            len(tuned),
            [gap for gap in tuned if gap.behind],
        ),
    ]


def report(
    path: Path,
    found: Scores,
    ceiling: Mapping[str, np.ndarray],
    chosen: Mapping[tuple[str, str, str], tuple[float, float, int]],
    sizes: Mapping[str, tuple[int, int, str]],
) -> None:
    """Write the page; print what must hold and where it does not."""
    trials = len(next(iter(found.values())))
    lines = [
        "# Accuracy of the private model",
        "",
        "Written by `benchmarks/accuracy.py`; do not edit. [](../explanation/accuracy.md) says how to read",
        "it.",
        "",
        f"Means over {trials} trials, each with another split and other noise, and their standard errors in",
        "units of the last digit. Columns: dpmarket with its defaults; the reference learners; diffprivlib",
        "0.6.6 with its defaults and with the best setting of a grid for that set, level and measure.",
        "",
        "## What holds",
        "",
    ]
    for title, count, misses in checks(found):
        print(f"\ndpmarket is {title}: {count - len(misses)} of {count} comparisons")
        lines += [f"- dpmarket is {title}: **{count - len(misses)} of {count}** comparisons."]
        for gap in sorted(misses, key=lambda gap: gap.mean):
            print(f"  not: {gap}")
            lines += [f"  - not: {gap}"]
    lines += [
        "",
        "Differences are taken trial by trial, on equal splits. Where two learners are equally good, chance",
        "puts one in forty comparisons beyond two standard errors on either side. With one promise for all,",
        "the first four reference learners are dpmarket by another name, and are not compared.",
        "",
    ]
    for name in SETS:
        records, features, source = sizes[name]
        plain = _means(ceiling[name])
        lines += [
            f"## {name}",
            "",
            f"{records} records, {features} features, from {source}. Without privacy: accuracy",
            f"{plain[0]}, log loss {plain[1]}.",
            "",
        ]
        for measure, title in enumerate(MEASURES):
            lines += [*_table(found, name, measure, title), ""]
        lines += ["Tuned settings of diffprivlib (C, norm, and whom it trains on):", ""]
        lines += [f"- {level}: {_settings(chosen, name, level)}" for level in LEVELS] + [""]
    write_bytes(path, ("\n".join(lines).rstrip() + "\n").encode())
    print(f"\nWritten: {path.name}")


def _table(found: Scores, name: str, measure: int, title: str) -> list[str]:
    others = [*DEFAULTS, TUNED[measure]]
    heads = ["dpmarket", *(_HEADS.get(other, "diffprivlib,<br>tuned") for other in others)]
    rows = [f"| {title} at | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for level in LEVELS:
        cells = [_means(found[name, level, other])[measure] for other in (OURS, *others)]
        rows.append(f"| {level} | " + " | ".join(cells) + " |")
    return rows


def _means(scores: np.ndarray) -> tuple[str, ...]:
    means, errors = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return tuple(f"{mean:.3f}({1000 * error:.0f})" for mean, error in zip(means, errors, strict=True))


def _settings(chosen: Mapping[tuple[str, str, str], tuple[float, float, int]], name: str, level: str) -> str:
    texts = []
    for title in TUNED:
        c, norm, threshold = chosen[name, level, title]
        whom = "best threshold" if threshold else "everybody"
        texts.append(f"{title.removeprefix('diffprivlib, tuned for ')} C = {c:g}, norm {norm:g}, {whom}")
    return "; ".join(texts)
