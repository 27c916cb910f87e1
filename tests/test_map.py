"""The map from the paper to the code has every label, and names only what exists."""

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LABELS = (Path(__file__).parent / "paper_labels.txt").read_text().splitlines()
PAGE = (ROOT / "docs/paper.md").read_text()
ROWS = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", PAGE.split("## From label to code")[1], re.M)
NAMES = sorted({name for row in ROWS for name in re.findall(r"`(dpmarket\.[\w.]+)`", row[-1])})
PRINTED = r"(Section|Algorithm|Definition|Proposition|Theorem|Lemma|Assumption|Eq\.|Fig\.|after Eq\.) \S+"


def _resolve(name):
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(name)


def test_every_label_of_the_paper_has_a_row_and_no_row_has_another_label():
    assert len(LABELS) == 57
    assert sorted(label for label, _, _ in ROWS) == sorted(LABELS)
    assert [printed for _, printed, _ in ROWS if not re.fullmatch(PRINTED, printed)] == []


def test_every_name_in_the_map_exists_and_is_no_module():
    assert len(NAMES) > 15
    assert [name for name in NAMES if not callable(_resolve(name))] == []
