"""Turn the kept results of all benchmarks into ``docs/performance.md``, which has no number from elsewhere.

``make bench`` runs it last. Results of scripts that were not run again stay on the page with their own date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from _markdown import escaped, markdown_table
from _results import Result, results
from dpmarket.files import write_bytes

SCRIPTS = Path(__file__).parent
PAGE = SCRIPTS.parent / "docs" / "performance.md"
# Scripts that measure quality, not speed, and the page with their results.
QUALITY = {
    "accuracy.py": "reference/accuracy.md",
    "budgets.py": "appendix.md#budgets",
    "faults.py": "explanation/outcomes.md",
    "forecast.py": "appendix.md#forecasts",
    "intervals.py": "appendix.md#intervals",
    "personal_prices.py": "explanation/allocation.md",
    "private_statistics.py": "appendix.md#private-statistics",
    "quotas.py": "appendix.md#quotas",
    "torch_models.py": "how-to/torch-models.md",
}
INTRODUCTION = """\
---
nosearch: true
---

# Performance

Written by `make bench` from what the scripts in `benchmarks/` measured; do not edit.

Each script times a peer in the same run: a sort, a pass over the array, another library. A **ratio** is our
time divided by the peer's unless the table says otherwise; an aim bounds it, or memory, and one that is not
met is marked *missed*. Of several runs the shortest counts."""


def scripts() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(path.name for path in SCRIPTS.glob("[a-z]*.py"))


def performance_page(found: Mapping[str, Result], before: str = "") -> str:
    """Return the page as Markdown, with the scripts that have not been run named as such.

    What ``before``, the page as it was, says of scripts without results stays, with its date.
    """
    lines = [INTRODUCTION]
    for name in scripts():
        if name not in QUALITY:
            lines += _section(name, found.get(name), before)
    lines += ["", "## Not about speed", ""]
    lines += [f"- `{name}`: []({page})" for name, page in QUALITY.items()]
    return "\n".join(lines) + "\n"


def _section(name: str, result: Result | None, before: str = "") -> list[str]:
    lines = ["", f"## `{name}`", "", _summary(name), ""]
    if result is None:
        section = re.search(rf"^## `{name}`\n(.*?)(?=\n+## |\Z)", before, re.S | re.M)
        measured = section and re.search(r"^Measured on .*", section[1], re.S | re.M)
        if measured:
            return [*lines, measured[0].rstrip("\n")]
        return [*lines, f"Not measured yet: run `python benchmarks/{name}`."]
    machine = f"{result.processor}, {result.cores} cores"
    lines += [f"Measured on {result.date} in {result.seconds:,.0f} s: {escaped(machine)}.", ""]
    for table in result.tables:
        lines += markdown_table(table)
    return lines[:-1]


def _summary(name: str) -> str:
    """Return the first paragraph of what a script says about itself."""
    text = ast.get_docstring(ast.parse((SCRIPTS / name).read_text(encoding="utf-8"))) or ""
    return text.replace("``", "`").partition("\n\n")[0].replace("\n", " ").replace("|", r"\|")


def main() -> None:
    found = results()
    text = performance_page(found, PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
    write_bytes(PAGE, text.encode())
    unmeasured = "Not measured yet: run `python benchmarks/"
    missing = [name for name in scripts() if f"{unmeasured}{name}`" in text]
    print(f"Written: docs/{PAGE.name}" + (f"; not measured yet: {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
