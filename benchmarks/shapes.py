"""Noise shaped like the rows on tables with categories: its defaults, and what it gains.

First the defaults that cost no privacy (penalty, stretch, length of the numbers, constant) are varied on some
tables; then, on other tables and other splits, the defaults are compared with what a buyer had to do by hand:
one-hot columns scaled by ``PublicScaler`` and noise of the Euclidean norm, with two baselines that use no
private record. Every split has a public fifth, which gives all declarations, three private fifths and a fifth
to test on. Seeded and resumable (``out/shapes.json``). Writes ``docs/reference/shapes.md``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from dpmarket.learning.geometry import geometry_of
from sklearn.linear_model import LogisticRegression

from _cache import Cache
from _trials import scores
from dpmarket import datasets
from dpmarket.datasets import PublicData, PublicTable, standard_bounds
from dpmarket.files import write_bytes
from dpmarket.learning import PrivateLogisticRegression, PublicEncoder, PublicScaler
from dpmarket.privacy import SeededNoise, suggest_stretch

ROOT = Path(__file__).parent.parent
LARGEST = 20_000  # records taken of a table in the study
STUDY_SPLITS, SPLITS = range(1_000, 1_004), range(3_000, 3_008)
STUDY_LEVELS, LEVELS = (0.1, 0.3, 1.0, 10.0), (0.1, 1.0, 10.0)


def _census(seed: int, records: int) -> Callable[[], PublicTable]:
    return lambda: datasets.census(records, np.random.default_rng(seed))


STUDIED: dict[str, Callable[[], PublicTable]] = {
    "free light chain": datasets.free_light_chain,
    "young workers": datasets.young_workers,
    "wives at work": datasets.wives_at_work,
    "batters": datasets.batters,
    "census, drawn": _census(5, 12_000),
}
COMPARED: dict[str, Callable[[], PublicTable]] = {
    "diamonds": datasets.diamonds,
    "unemployment benefits": datasets.unemployment_benefits,
    "football": datasets.football,
    "census, drawn anew": _census(11, 30_000),
}


@dataclass(frozen=True)
class Setting:
    """What is varied; the values here are the defaults."""

    penalty: float = 1.0  # times the suggested one, no less than leaves no slack
    stretch: float = 1.0  # times the suggested stretch's excess over 1
    radius: float = 1.0
    constant: float = 1.0  # times the suggested constant


VARIATIONS = {
    "penalty": (0.25, 0.5, 1.0, 2.0, 4.0),
    "stretch": (0.0, 0.5, 1.0, 2.0, 4.0),
    "radius": (0.5, 1.0, 1.5, 2.0, 3.0),
    "constant": (0.5, 1.0, 2.0),
}
TEXTS = {
    "penalty": "Penalty: this times `suggest_l2`, but no less than leaves no slack",
    "stretch": "Stretch: 1 plus this times what the suggested stretch is above 1",
    "radius": "Length of a row's numbers, `radius` of `PublicEncoder`",
    "constant": "Constant column: this times the suggested one",
}


@dataclass(frozen=True)
class Split:
    """A public fifth, three private ones, and one to test on."""

    public: PublicTable
    private: PublicTable
    test: PublicTable
    number: int


def split(table: PublicTable, number: int) -> Split:
    rng = np.random.default_rng([7, number])
    public, rest = table.split(0.2, rng)
    return Split(public, *rest.split(0.75, rng), number)


def some(table: PublicTable) -> PublicTable:
    return table.take(np.sort(np.random.default_rng(0).permutation(len(table))[:LARGEST]))


def shaped(one: Split, epsilon: float, setting: Setting) -> tuple[float, float]:
    """Return the scores of the defaults, or of a setting that differs from them."""
    encoder = PublicEncoder.from_public(one.public.frame, radius=setting.radius).fit(one.private.frame)
    options: dict[str, float] = {}
    if replace(setting, radius=1.0) != Setting():
        rows = len(one.private)
        plain = geometry_of(len(encoder.get_feature_names_out()), None, encoder.noise_shape_, wanted=True)
        shape = replace(plain, constant=plain.constant * setting.constant)
        total = epsilon * rows
        least = 2.0 * (shape.euclidean_bound or shape.row_bound) ** 2 / total
        l2 = max(setting.penalty * shape.suggested_l2(np.array([total])), least) * (1.0 + 1e-5)
        suggested = suggest_stretch(
            total / shape.row_bound, l2, shape.n_coefficients, shape.row_bound,
            shape.euclidean_bound, shape.joint_columns,
        )  # fmt: skip
        options = {
            "l2": l2,
            "stretch": 1.0 + setting.stretch * (suggested - 1.0),
            "intercept_scaling": shape.constant,
        }
    return fitted(
        one, encoder.transform(one.private.frame), encoder.transform(one.test.frame), epsilon, options
    )


def fitted(one: Split, train: object, test: object, epsilon: float, options: dict) -> tuple[float, float]:
    model = PrivateLogisticRegression(
        epsilon=epsilon, classes=(-1.0, 1.0), noise_source=SeededNoise(one.number), **options
    ).fit(train, one.private.signs)
    return scores(one.test.signs * model.decision_function(test))


def columns_by_hand(one: Split) -> dict[str, np.ndarray]:
    """Return public, private and test records as a buyer encodes them: one column per level seen, numbers."""
    parts = {"public": one.public, "private": one.private, "test": one.test}
    found: dict[str, list[np.ndarray]] = {part: [] for part in parts}
    for name in one.public.frame.columns:
        column = one.public.frame[name]
        if column.dtype == pl.String:
            levels = column.drop_nulls().unique().sort().to_list()
            for part, table in parts.items():
                texts = table.frame[name].fill_null("").to_numpy()
                found[part].extend((texts == level).astype(np.float64) for level in levels)
        else:
            mean = float(column.mean())
            for part, table in parts.items():
                found[part].append(table.frame[name].cast(pl.Float64).fill_null(mean).to_numpy())
    return {part: np.column_stack(values) for part, values in found.items()}


def by_hand(one: Split, epsilon: float) -> tuple[float, float]:
    """Return the scores of the Euclidean default, with bounds from the public part."""
    parts = columns_by_hand(one)
    public = parts["public"]
    data = PublicData(
        public, one.public.signs, (-1.0, 1.0), public.min(0) - 1e-9, public.max(0) + 1e-9, "", ""
    )
    scaler = PublicScaler(*standard_bounds(data)).fit(public)
    return fitted(one, scaler.transform(parts["private"]), scaler.transform(parts["test"]), epsilon, {})


def pilot_alone(one: Split) -> tuple[float, float]:
    """Return the scores of an ordinary model of the public part: no private record is used."""
    encoder = PublicEncoder.from_public(one.public.frame).fit(one.public.frame)
    model = LogisticRegression(C=100.0, max_iter=2000).fit(
        encoder.transform(one.public.frame), one.public.signs
    )
    margins = np.clip(model.decision_function(encoder.transform(one.test.frame)), -30.0, 30.0)
    return scores(one.test.signs * margins)


def commoner_label(one: Split) -> tuple[float, float]:
    """Return the scores of always guessing the commoner label of the public part, with its share."""
    share = float((one.public.signs > 0.0).mean())
    odds = np.log(share / (1.0 - share)) or 1e-12  # a guess, where both are equally common
    return scores(one.test.signs * odds)


WAYS: dict[str, Callable[[Split], tuple[float, float]]] = {
    **{f"shaped|{level}": lambda one, e=level: shaped(one, e, Setting()) for level in LEVELS},
    **{f"by hand|{level}": lambda one, e=level: by_hand(one, e) for level in LEVELS},
    "pilot alone": pilot_alone,
    "commoner label": commoner_label,
}


def settings() -> list[Setting]:
    varied = (replace(Setting(), **{name: value}) for name, values in VARIATIONS.items() for value in values)
    return list(dict.fromkeys(varied))


def study(cache: Cache) -> dict[Setting, np.ndarray]:
    """Return, per setting, shape (cases, 2): how far it is from the best setting of each case."""
    for name, load in STUDIED.items():
        table = some(load())
        for number in STUDY_SPLITS:
            one = split(table, number)
            for setting, level in itertools.product(settings(), STUDY_LEVELS):
                key = study_key(name, level, number, setting)
                if key not in cache:
                    cache.keep(key, shaped(one, level, setting))
        print("studied", name, flush=True)
    means = {
        setting: np.array(
            [
                np.mean([cache[study_key(name, level, k, setting)] for k in STUDY_SPLITS], axis=0)
                * (-1.0, 1.0)
                for name, level in itertools.product(STUDIED, STUDY_LEVELS)
            ]
        )
        for setting in settings()
    }
    best = np.min(list(means.values()), axis=0)
    return {setting: values - best for setting, values in means.items()}


def study_key(name: str, level: float, number: int, setting: Setting) -> str:
    return f"study|{name}|{level}|{number}|{list(asdict(setting).values())}"


def compare(cache: Cache) -> dict[str, dict]:
    """Return, per table, what is public about it and the scores of every way, shape (splits, 2)."""
    found = {}
    for name, load in COMPARED.items():
        table = load()
        names = PublicEncoder.from_public(table.frame).get_feature_names_out()
        entry: dict = {"records": len(table), "columns": len(names), "source": table.source}
        entry["zeros and ones"] = sum("=" in name for name in names)
        for number in SPLITS:
            one = split(table, number)
            for way, run in WAYS.items():
                key = f"compare|{name}|{way}|{number}"
                if key not in cache:
                    cache.keep(key, run(one))
                entry.setdefault(way, []).append(cache[key])
        found[name] = entry
        print("compared", name, flush=True)
    return found


def report(regrets: dict[Setting, np.ndarray], compared: dict[str, dict]) -> str:
    lines = [
        "# Noise shaped like the rows: study and comparison",
        "",
        "Written by `benchmarks/shapes.py`; do not edit. [](../explanation/noise-shapes.md) says what it is",
        "about.",
        "",
        "## What it gains",
        "",
        f"Means over {len(SPLITS)} splits and their standard errors in units of the last digit, on tables",
        "and splits that no default was chosen on. *By hand*: one column of 0 and 1 per level,",
        "`PublicScaler` with bounds from the public fifth, noise of the Euclidean norm. *Gain*: shaped noise",
        "less that, split by split. *Public part alone*: an ordinary model of the public fifth; no private",
        "record is used.",
        "",
        *_what_holds(compared),
    ]
    for name, entry in compared.items():
        lines += [
            f"### {name}",
            "",
            f"{entry['records']} records, {entry['columns']} columns after encoding, "
            f"{entry['zeros and ones']} of them of 0 and 1, from {entry['source']}.",
            "",
            "| accuracy at | shaped | by hand | gain | log loss, shaped | by hand |",
            "|---|---|---|---|---|---|",
        ]
        for level in LEVELS:
            ours, hand = (np.array(entry[f"{way}|{level}"]) for way in ("shaped", "by hand"))
            gain = ours[:, 0] - hand[:, 0]
            lines.append(
                f"| {level:g} | {_mean(ours[:, 0])} | {_mean(hand[:, 0])} | {_mean(gain)} | "
                f"{_mean(ours[:, 1])} | {_mean(hand[:, 1])} |"
            )
        pilot, common = (np.array(entry[way]) for way in ("pilot alone", "commoner label"))
        lines += [
            f"| public part alone | {_mean(pilot[:, 0])} | | | {_mean(pilot[:, 1])} | |",
            f"| always the commoner label | {_mean(common[:, 0])} | | | {_mean(common[:, 1])} | |",
            "",
        ]
        beaten = [f"{level:g}" for level in LEVELS if _behind(entry[f"shaped|{level}"], pilot)]
        if beaten:
            lines += [f"The public part alone is better here at epsilon {', '.join(beaten)}.", ""]
        beaten = [f"{level:g}" for level in LEVELS if _behind(entry[f"shaped|{level}"], common)]
        if beaten:
            lines += [f"The commoner label is more accurate here at epsilon {', '.join(beaten)}.", ""]
    cases = len(next(iter(regrets.values())))
    lines += [
        "## Defaults",
        "",
        f"Over {cases} cases (tables times promises, none of them above), {len(STUDY_SPLITS)} splits each:",
        "how much worse a setting is than the best of this page for the single case, on average and at",
        "worst.",
        "",
    ]
    for name, values in VARIATIONS.items():
        lines += [f"### {TEXTS[name]}", ""]
        lines += ["| setting | accuracy, mean | worst | log loss, mean | worst |", "|---|---|---|---|---|"]
        for value in values:
            loss = regrets[replace(Setting(), **{name: value})]
            mark = "**" if value == getattr(Setting(), name) else ""
            numbers = (loss[:, 0].mean(), loss[:, 0].max(), loss[:, 1].mean(), loss[:, 1].max())
            lines.append(f"| {mark}{value:g}{mark} | " + " | ".join(f"{x:.4f}" for x in numbers) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _gain(entry: dict, level: float) -> np.ndarray:
    """Return what shaped noise gains in accuracy, split by split."""
    ours, hand = (np.array(entry[f"{way}|{level}"])[:, 0] for way in ("shaped", "by hand"))
    return ours - hand


def _what_holds(compared: dict[str, dict]) -> list[str]:
    """Return the two claims with the tables on which they hold: three points gained, nothing lost."""
    wide = {name: entry for name, entry in compared.items() if entry["zeros and ones"] >= 50}
    gains = {name: _gain(entry, LEVELS[0]) for name, entry in wide.items()}
    reached = [f"{name} {_mean(gain)}" for name, gain in gains.items() if gain.mean() >= 0.03]
    missed = [f"{name} {_mean(gain)}" for name, gain in gains.items() if gain.mean() < 0.03]
    lost = []
    for (name, entry), level in itertools.product(compared.items(), LEVELS):
        gain = _gain(entry, level)
        if gain.mean() < -2.0 * gain.std(ddof=1) / np.sqrt(gain.size):
            lost.append(f"{name} at {level:g}: {_mean(gain)}")
    tables = f"of the {len(wide)} tables with at least 50 columns of 0 and 1, at epsilon {LEVELS[0]:g}"
    return [
        "- Three points of accuracy or more are gained on "
        f"**{len(reached)}** {tables}: {'; '.join(reached) or 'none'}.",
        f"- Less on the others: {'; '.join(missed) or 'none'}.",
        "- Lost beyond two standard errors, at any promise of this page: "
        f"**{len(lost)} of {len(compared) * len(LEVELS)}** cases{': ' if lost else ''}{'; '.join(lost)}.",
        "",
    ]


def _mean(values: np.ndarray) -> str:
    error = round(1000.0 * float(values.std(ddof=1)) / np.sqrt(values.size))
    return f"{values.mean():.3f}({error})"


def _behind(ours: object, other: np.ndarray) -> bool:
    return float(np.array(ours)[:, 0].mean()) < float(other[:, 0].mean())


def main() -> None:
    cache = Cache(ROOT / "out" / "shapes.json", {"recipe": 3, "largest": LARGEST})
    regrets = study(cache)
    cache.write()
    page = report(regrets, compare(cache))
    cache.write()
    write_bytes(ROOT / "docs" / "reference" / "shapes.md", page.encode())
    print(page)


if __name__ == "__main__":
    main()
