"""Study of the defaults that cost no privacy: penalty, stretch, row radius, bounds and constant column.

Each is varied around the default, all else kept, over public sets, common promises and mixtures. The table
says how far accuracy and log loss are, on average and at worst, from the best setting for each single case:
what somebody who could tune on the private records without paying for it would gain. Seeded and resumable
(``out/penalty.json``). Writes ``docs/reference/defaults.md``.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from dpmarket.learning.problem import bound_with_constant, suggest_constant
from rich.progress import Progress

from _cache import Cache
from _trials import LARGEST, LEVELS, SETS, Trial, promises, scores, trial
from dpmarket.datasets import logistic
from dpmarket.files import write_bytes
from dpmarket.learning import PrivateLogisticRegression
from dpmarket.privacy import SeededNoise, suggest_l2, suggest_stretch

ROOT = Path(__file__).parent.parent
TRIALS = 6
FEW = {f"logistic, {n} feature{'s' * (n > 1)}": n for n in (1, 3)}


@dataclass(frozen=True)
class Setting:
    """What is varied; the values here are the defaults."""

    penalty: float = 1.0  # times the suggested one, no less than leaves no slack
    stretch: float = 1.0  # times the suggested stretch's excess over 1
    radius: float | None = 1.0
    spread: float | None = 2.0  # None: the pilot's smallest and largest value
    constant: float = 1.0  # times the suggested constant


VARIATIONS = {
    "penalty": (0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    "stretch": (0.0, 0.5, 1.0, 2.0),
    "radius": (0.5, 0.7, 1.0, 1.4, 2.0, None),
    "spread": (1.0, 1.5, 2.0, 3.0, 4.0, None),
    "constant": (0.25, 0.5, 1.0, 2.0, 4.0),
}
TEXTS = {
    "penalty": "Penalty: this times `suggest_l2`, but no less than leaves no slack",
    "stretch": "Stretch: 1 plus this times what the suggested stretch is above 1",
    "radius": "Radius of `PublicScaler`; none shortens no row",
    "spread": "Bounds: this many standard deviations of a public pilot; none: its smallest and largest value",
    "constant": "Constant column: this times the power of two next to `1 / sqrt(features)`",
}


def settings() -> list[Setting]:
    varied = (replace(Setting(), **{name: value}) for name, values in VARIATIONS.items() for value in values)
    return list(dict.fromkeys(varied))


def scaled_for(one: Trial, setting: Setting) -> Trial:
    if setting.spread is None:
        return one.scaled_by_range(setting.radius)
    return one.scaled(setting.spread, setting.radius)


def fit_and_score(scaled: Trial, level: str, setting: Setting) -> tuple[float, float]:
    n = scaled.private.n_features
    constant = suggest_constant(n) * setting.constant
    epsilons = promises(level, len(scaled.private), np.random.default_rng([13, scaled.number]))
    bound = bound_with_constant(constant)
    rate = epsilons.sum() / bound
    l2 = max(setting.penalty * suggest_l2(rate, n + 1, bound), 2.0 * bound / rate) * (1.0 + 1e-5)
    stretch = 1.0 + setting.stretch * (suggest_stretch(rate, l2, n + 1, bound) - 1.0)
    model = PrivateLogisticRegression(
        l2=l2,
        stretch=stretch,
        intercept_scaling=constant,
        classes=(-1.0, 1.0),
        noise_source=SeededNoise(scaled.number),
    ).fit(scaled.private.features, scaled.private.labels, epsilons=epsilons)
    return scores(scaled.test.signs * model.decision_function(scaled.test.features))


def regrets(cache: Cache, names: list[str]) -> dict[Setting, np.ndarray]:
    """Return, per setting, shape (cases, 2): how far it is from the best setting of each case."""
    means = {
        setting: np.array(
            [
                np.mean([cache[key(name, level, k, setting)] for k in range(TRIALS)], axis=0) * (-1.0, 1.0)
                for name, level in itertools.product(names, LEVELS)
            ]
        )
        for setting in settings()
    }
    best = np.min(list(means.values()), axis=0)
    return {setting: values - best for setting, values in means.items()}


def key(name: str, level: str, number: int, setting: Setting) -> str:
    return f"{name}|{level}|{number}|{list(asdict(setting).values())}"


def report(found: dict[Setting, np.ndarray]) -> str:
    cases = len(next(iter(found.values())))
    base = found[Setting()].mean(axis=0)
    lines = [
        "# Study of the defaults",
        "",
        "Written by `benchmarks/penalty.py`; do not edit. [](../explanation/accuracy.md) says how to read",
        "it.",
        "",
        f"Over {cases} cases (sets times promises), {TRIALS} trials each, at most {LARGEST} records of a",
        "set.",
        "Each column says how much worse a setting is than the best of all settings on this page for the",
        "single case: on average, and at worst. With six trials the best of many settings is partly luck, so",
        "that these figures overstate what tuning could gain.",
        "",
        f"**The defaults** lose {base[0]:.4f} accuracy and {base[1]:.4f} log loss on average.",
        "",
    ]
    for name, values in VARIATIONS.items():
        lines += [f"## {TEXTS[name]}", ""]
        lines += ["| setting | accuracy, mean | worst | log loss, mean | worst |", "|---|---|---|---|---|"]
        for value in values:
            loss = found[replace(Setting(), **{name: value})]
            mark = "**" if value == getattr(Setting(), name) else ""
            numbers = (loss[:, 0].mean(), loss[:, 0].max(), loss[:, 1].mean(), loss[:, 1].max())
            text = "none" if value is None else f"{value:g}"
            lines.append(
                f"| {mark}{text}{mark} | " + " | ".join(f"{number:.4f}" for number in numbers) + " |"
            )
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    cache = Cache(ROOT / "out" / "penalty.json", {"recipe": 5, "largest": LARGEST})
    loaders = SETS | {
        name: (lambda n=n: logistic(3_000, n, np.random.default_rng(n), strength=5.0, offset=3.0))
        for name, n in FEW.items()
    }
    names = list(loaders)
    with Progress(disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=len(names) * TRIALS * len(LEVELS) * len(settings()))
        for name, load in loaders.items():
            data = load()
            for number in range(TRIALS):
                one = trial(data, 1_000 + number)  # benchmarks/accuracy.py reports others
                for setting in settings():
                    missing = [level for level in LEVELS if key(name, level, number, setting) not in cache]
                    scaled = scaled_for(one, setting) if missing else one
                    for level in missing:
                        cache.keep(key(name, level, number, setting), fit_and_score(scaled, level, setting))
                    bar.update(task, advance=len(LEVELS), description=name)
            if bar.disable:
                print(name, flush=True)
    cache.write()
    page = report(regrets(cache, names))
    write_bytes(ROOT / "docs" / "reference" / "defaults.md", page.encode())
    print(page)


if __name__ == "__main__":
    main()
