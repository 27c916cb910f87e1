"""Turn the kept results of all benchmarks into ``docs/performance.md``, which has no number from elsewhere.

``make bench`` runs it last. Results of scripts that were not run again stay on the page with their own date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from _markdown import escaped, markdown_rows, markdown_table
from _results import Aimed, Result, results
from dpmarket.files import write_bytes

SCRIPTS = Path(__file__).parent
PAGE = SCRIPTS.parent / "docs" / "performance.md"
# Scripts that measure quality, not speed, and the page with their results; None: this one.
QUALITY = {
    "accuracy.py": "reference/accuracy.md",
    "audit_diffprivlib.py": None,
    "budgets.py": "explanation/schedules.md",
    "faults.py": "explanation/reliability.md",
    "intervals.py": "explanation/intervals.md",
    "personal_prices.py": "explanation/allocation.md",
    "private_statistics.py": "explanation/statistics.md",
}
# Scripts that compare two source trees: for those who change the code, with no page of their own.
TOOLS = ("alternate.py", "quoting_trees.py")
INTRODUCTION = """\
# Performance

Written by `make bench` from what the scripts in `benchmarks/` measured; do not edit.

Seconds say little about another machine. Each script therefore times a peer in the same run: a sort, a pass
over the array, another library. A **ratio** is our time divided by the peer's unless the table says
otherwise, and an aim is a bound on such a ratio, or on memory. Of several runs the shortest counts: it is the
one that the machine disturbed least. Each section says when it was measured, and on what.
"""


def scripts() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(path.name for path in SCRIPTS.glob("[a-z]*.py") if path.name not in TOOLS)


def performance_page(found: Mapping[str, Result], before: str = "") -> str:
    """Return the page as Markdown, with the scripts that have not been run named as such.

    What ``before``, the page as it was, says of scripts without results stays, with its date.
    """
    speed = [name for name in scripts() if name not in QUALITY]
    lines = [INTRODUCTION, "## Aims", ""]
    aims = markdown_rows(
        ["measured by", "measurement", "worst of its rows", "aim", "met"],
        [row for name in speed if name in found for row in _aims(found[name])],
    )
    old = [line for line in before.splitlines() if line.startswith("| [`")]
    kept = [line for line in old if line.split("`")[1] in set(speed) - set(found)]
    lines += [*aims[:2], *sorted([*aims[2:], *kept], key=lambda line: line.split("`")[1])]
    for name in speed:
        lines += _section(name, found.get(name), before)
    lines += ["", "## Not about speed", ""]
    lines += markdown_rows(
        ["script", "what it measures", "where the result is"],
        [
            [f"`{name}`", _summary(name), "below" if page is None else f"[]({page})"]
            for name, page in QUALITY.items()
        ],
    )
    for name, page in QUALITY.items():
        if page is None:
            lines += _section(name, found.get(name), before)
    return "\n".join(lines) + "\n"


def _section(name: str, result: Result | None, before: str = "") -> list[str]:
    lines = ["", f"({_target(name)})=", f"## `{name}`", "", _description(name), ""]
    if result is None:
        section = re.search(rf"^## `{name}`\n(.*?)(?=\n+\(performance-|\n+## |\Z)", before, re.S | re.M)
        measured = section and re.search(r"^Measured on .*", section[1], re.S | re.M)
        if measured:
            return [*lines, measured[0].rstrip("\n")]
        return [*lines, f"Not measured yet: run `python benchmarks/{name}`."]
    versions = ", ".join(f"{library} {number}" for library, number in result.versions.items())
    machine = f"{result.processor}, {result.cores} cores; {versions}"
    lines += [f"Measured on {result.date} in {result.seconds:,.0f} s: {escaped(machine)}.", ""]
    for table in result.tables:
        lines += markdown_table(table)
    return lines[:-1]


def _aims(result: Result) -> Iterator[list[str]]:
    """Yield a row for every aim of a script: the worst number that was measured under it."""
    for table in result.tables:
        for k, column in enumerate(table.columns):
            cells = [(row[k], row[0]) for row in table.rows if isinstance(row[k], Aimed)]
            for aim in dict.fromkeys(cell.aim for cell, _ in cells):
                worst, name = _worst([pair for pair in cells if pair[0].aim == aim])
                yield [
                    f"[`{result.script}`](#{_target(result.script)})",
                    f"{escaped(table.title)}: {escaped(column)}",
                    f"{worst.text} ({escaped(str(name))})",
                    aim,
                    "yes" if worst.is_met else "**no**",
                ]


def _worst(cells: Sequence[tuple[Aimed, str]]) -> tuple[Aimed, str]:
    sign = 1.0 if cells[0][0].side == "at most" else -1.0
    return max(cells, key=lambda pair: sign * pair[0].value)


def _target(name: str) -> str:
    return f"performance-{name.removesuffix('.py').replace('_', '-')}"


def _description(name: str) -> str:
    """Return what a script says about itself."""
    text = ast.get_docstring(ast.parse((SCRIPTS / name).read_text(encoding="utf-8")))
    return (text or "").replace("``", "`")


def _summary(name: str) -> str:
    return _description(name).partition("\n\n")[0].replace("\n", " ").replace("|", r"\|")


def main() -> None:
    found = results()
    text = performance_page(found, PAGE.read_text(encoding="utf-8") if PAGE.exists() else "")
    write_bytes(PAGE, text.encode())
    unmeasured = "Not measured yet: run `python benchmarks/"
    missing = [name for name in scripts() if f"{unmeasured}{name}`" in text]
    print(f"Written: docs/{PAGE.name}" + (f"; not measured yet: {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
