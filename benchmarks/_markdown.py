"""Turn tables into Markdown, and into files that pages of the documentation include."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from _results import Table
from dpmarket.files import write_bytes

FOLDER = Path(__file__).parent.parent / "docs" / "tables"


def write_tables(file: str, tables: Iterable[Table]) -> None:
    """Write a script's tables to ``docs/tables``, for a page that includes them."""
    script = Path(file)
    lines = [f"<!-- written by benchmarks/{script.name}: do not edit -->", ""]
    for table in tables:
        lines += markdown_table(table)
    target = FOLDER / f"{script.stem.replace('_', '-')}.md"
    write_bytes(target, "\n".join(lines).encode())
    print(f"Written: docs/tables/{target.name}")


def markdown_table(table: Table) -> list[str]:
    """Return the lines of a table with its title and its note, and an empty line after it."""
    head, *rows = ([escaped(cell) for cell in line] for line in table.shown())
    marks = ["---", *["---:"] * (len(head) - 1)]
    lines = [f"| {' | '.join(line)} |" for line in (head, marks, *rows)]
    note = [escaped(table.note), ""] if table.note else []
    return [f"**{escaped(table.title)}**", "", *lines, "", *note]


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, in a cell too; what stands in backticks stays code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_\[\]<>$~])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts).replace("|", r"\|")
