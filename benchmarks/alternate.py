"""Run benchmarks with two source trees in turns, and tell what became faster or slower beyond the spread.

``python benchmarks/alternate.py OLD_SRC NEW_SRC SCRIPT... [--runs 5]`` runs every script in processes of
its own, old and new tree in turns. Compared are the processor time of the whole process and every time
that stands in the script's tables. "slower" and "faster" mean that the ranges of old and new runs do not
even touch.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from _two_trees import run_with, source_tree

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "ns": 1e-9}
WHOLE = "processor time of the whole process"
# Runs a script as if it were called alone, but keeps its results elsewhere.
RUNNER = """\
import runpy, sys
from pathlib import Path
script, folder = sys.argv[1:]
sys.path.insert(0, str(Path(script).parent))
import _results
_results.FOLDER = Path(folder)
sys.argv = [script]
runpy.run_path(script, run_name="__main__")
"""


def times(cell: object) -> float | None:
    """Return the seconds that a cell of a table says, or None."""
    found = re.fullmatch(r"([\d.,]+) (\w+)", cell) if isinstance(cell, str) else None
    if found is None or found[2] not in UNITS:
        return None
    return float(found[1].replace(",", "")) * UNITS[found[2]]


def kept_times(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield the times in the tables that a run kept, by where they stand."""
    for path in sorted(folder.glob("*.json")):
        for table in json.loads(path.read_text(encoding="utf-8"))["tables"]:
            for row in table["rows"]:
                for column, cell in zip(table["columns"], row, strict=True):
                    seconds = times(cell)
                    if seconds is not None:
                        yield f"{table['title']} | {row[0]} | {column}", seconds


def one_run(tree: Path, script: Path) -> dict[str, float]:
    """Return what one run of a script took: its own times, and the processor time of the process."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_with(tree, ["-c", RUNNER, str(script), folder])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {WHOLE: spent, **dict(kept_times(Path(folder)))}


def verdict(old: list[float], new: list[float]) -> str:
    """Say whether the ranges of the runs touch."""
    if min(new) > max(old):
        return "slower"
    return "faster" if max(new) < min(old) else "the same"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=source_tree)
    parser.add_argument("new", type=source_tree)
    parser.add_argument("scripts", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    slower = 0
    for script in given.scripts:
        # The first run of each tree may compile; it is not counted.
        for tree in (given.old, given.new):
            one_run(tree, script)
        runs = [(one_run(given.old, script), one_run(given.new, script)) for _ in range(given.runs)]
        print(f"\n{script.name}: new/old, the spread of single pairs, and the verdict")
        for name in runs[0][0]:
            if not all(name in part for pair in runs for part in pair):
                continue
            old, new = ([pair[side][name] for pair in runs] for side in (0, 1))
            ratios = [b / a for a, b in zip(old, new, strict=True) if a > 0.0]
            if not ratios:
                continue
            word = verdict(old, new)
            slower += word == "slower"
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            print(f"  {median(new) / median(old):5.2f}  {spread:<14} {word:<9} {name}", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
