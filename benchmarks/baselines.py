"""Add to the accuracy page what needs no private record: the public part alone, and the commoner label.

On the same splits as ``benchmarks/accuracy.py``, which writes the page. Each set's tables get two rows more,
and a sentence where such a baseline is better than the private model. Running it again replaces them.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from _trials import SETS, Trial, scores, trial
from accuracy import NUMBERS
from dpmarket.files import write_bytes

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "accuracy.md"
ALONE, COMMONER = "public part alone", "always the commoner label"
MEASURES = ("accuracy", "log loss")


def public_part_alone(one: Trial) -> tuple[float, float]:
    """Return the scores of an ordinary model of the public part."""
    scaled = one.scaled()
    model = LogisticRegression(C=100.0, max_iter=1000).fit(scaled.public.features, scaled.public.labels)
    margins = np.clip(model.decision_function(scaled.test.features), -30.0, 30.0)
    return scores(scaled.test.signs * margins)


def commoner_label(one: Trial) -> tuple[float, float]:
    """Return the scores of guessing the public part's commoner label, with its share, for everybody."""
    share = float((one.public.signs > 0.0).mean())
    odds = np.log(share / (1.0 - share)) or 1e-12  # a guess, where both are equally common
    return scores(one.test.signs * odds)


def amended(page: str, name: str, baselines: dict[str, np.ndarray]) -> str:
    """Return the page with the baselines of one set in its two tables, and what they beat."""
    head, section = re.split(rf"(?m)^## {re.escape(name)}$", page, maxsplit=1)
    section, *rest = re.split(r"(?m)^(?=## )", section, maxsplit=1)
    section = re.sub(rf"(?m)^(\| ({ALONE}|{COMMONER}) \|.*|\*\*Without private records\*\*.*)\n", "", section)
    for column, measure in enumerate(MEASURES):
        table = re.search(rf"(?m)^\| {measure} at \|.*\n(?:\|.*\n)+", section)
        if table is None:
            raise SystemExit(f"expected a table of {measure} of {name} on the page.")
        rows = table.group().splitlines()
        empty = " | ".join([""] * (rows[0].count("|") - 2))
        added = [f"| {title} | {_mean(values[:, column])}{empty} |" for title, values in baselines.items()]
        said = _better(
            rows, measure, {title: values[:, column].mean() for title, values in baselines.items()}
        )
        section = section.replace(table.group(), "\n".join([*rows, *added]) + "\n" + said)
    return f"{head}## {name}{section}" + "".join(rest)


def _better(rows: list[str], measure: str, means: dict[str, float]) -> str:
    sentences = []
    for title, mean in means.items():
        levels = []
        for row in rows[2:]:
            level, ours = (cell.strip() for cell in row.split("|")[1:3])
            value = float(ours.split("(")[0])
            if (value < mean) == (measure == "accuracy") and value != mean:
                levels.append(level)
        if levels:
            sentences.append(f"{title} is better in {measure} than dpmarket at {', '.join(levels)}")
    return f"\n**Without private records**: {'; '.join(sentences)}.\n" if sentences else ""


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():.3f}({round(1000.0 * float(values.std(ddof=1)) / np.sqrt(values.size))})"


def main() -> None:
    page = PAGE.read_text()
    for name, load in SETS.items():
        data = load()
        trials = [trial(data, number) for number in NUMBERS]
        found = {
            ALONE: np.array([public_part_alone(one) for one in trials]),
            COMMONER: np.array([commoner_label(one) for one in trials]),
        }
        page = amended(page, name, found)
        print(
            name,
            {title: values.mean(axis=0).round(3).tolist() for title, values in found.items()},
            flush=True,
        )
    write_bytes(PAGE, re.sub(r"\n{3,}", "\n\n", page).encode())


if __name__ == "__main__":
    main()
