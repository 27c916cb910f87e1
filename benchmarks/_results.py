"""Turn a benchmark's functions into tables: printed at once, and kept for the performance page.

A benchmark is functions that yield tables, and ends with ``measure(__file__, first, second)``. A number that
has an aim stands in its table as ``at_most(...)`` or ``at_least(...)``.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from dpmarket.files import read_json, write_json

FOLDER = Path(__file__).parent.parent / "out" / "benchmarks"


@dataclass(frozen=True)
class Aimed:
    """A measured number as a cell of a table, with the bound that it should keep."""

    text: str
    value: float
    side: Literal["at most", "at least"]
    bound: float

    @property
    def is_met(self) -> bool:
        return self.value <= self.bound if self.side == "at most" else self.value >= self.bound

    @property
    def aim(self) -> str:
        return f"{self.side} {self.bound:g}"


def at_most(bound: float, value: float, form: str = ".2f") -> Aimed:
    """Return a cell whose number should be no more than ``bound``."""
    return Aimed(f"{value:{form}}", value, "at most", bound)


def at_least(bound: float, value: float, form: str = ".2f") -> Aimed:
    """Return a cell whose number should be no less than ``bound``."""
    return Aimed(f"{value:{form}}", value, "at least", bound)


@dataclass(frozen=True)
class Table:
    """What was measured: a title, named columns, rows that start with their own name, and perhaps a note.

    What stands in backticks is code.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Aimed]]
    note: str = ""

    def shown(self) -> list[list[str]]:
        """Return head and rows as text; a column with aims is followed by one that says them."""
        aimed = [any(isinstance(row[k], Aimed) for row in self.rows) for k in range(len(self.columns))]
        head = [
            cell
            for name, has_aims in zip(self.columns, aimed, strict=True)
            for cell in ([name, "aim"] if has_aims else [name])
        ]
        return [head, *(list(_texts(row, aimed)) for row in self.rows)]


def _texts(row: Sequence[str | Aimed], aimed: Sequence[bool]) -> Iterator[str]:
    for cell, has_aims in zip(row, aimed, strict=True):
        if isinstance(cell, Aimed):
            yield from (cell.text, cell.aim + ("" if cell.is_met else ", missed"))
        else:
            yield from (cell, "") if has_aims else (cell,)


@dataclass(frozen=True)
class Result:
    """The tables of one script, and when and on what they were measured."""

    script: str
    date: str
    seconds: float
    processor: str
    cores: int
    versions: dict[str, str]
    tables: Sequence[Table]


def measure(file: str, *parts: Callable[[], Iterator[Table]]) -> list[Table]:
    """Run the parts of a script one after the other; print their tables, and keep them with date and machine.

    What an earlier run kept is replaced only when all parts are done.
    """
    start, tables = time.perf_counter(), []
    script = Path(file).name
    for part in parts:
        tell(f"{script}, {part.__name__.replace('_', ' ')}")
        for table in part():
            print_table(table)
            tables.append(table)
    FOLDER.mkdir(parents=True, exist_ok=True)
    result = Result(
        script=script,
        date=datetime.now(UTC).date().isoformat(),
        seconds=time.perf_counter() - start,
        processor=_processor(),
        cores=os.cpu_count() or 1,
        versions={"Python": platform.python_version()} | {name: version(name) for name in ("numpy", "numba")},
        tables=tables,
    )
    write_json(FOLDER / f"{Path(file).stem}.json", asdict(result))
    return tables


def results() -> dict[str, Result]:
    """Return what was kept, by the name of the script."""
    found = (_result(read_json(path)) for path in sorted(FOLDER.glob("*.json")))
    return {result.script: result for result in found}


def _result(data: dict[str, Any]) -> Result:
    return Result(**data | {"tables": [_table(table) for table in data["tables"]]})


def _table(data: dict[str, Any]) -> Table:
    rows = [[Aimed(**cell) if isinstance(cell, dict) else cell for cell in row] for row in data["rows"]]
    return Table(**data | {"rows": rows})


def print_table(table: Table) -> None:
    """Print aligned columns, the first as text and the others as numbers."""
    lines = [[cell.replace("`", "") for cell in line] for line in table.shown()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print("\n" + table.title.replace("`", ""))
    for line in lines:
        cells = (
            f"{cell:>{w}}" if k else f"{cell:<{w}}"
            for k, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        print("  " + "  ".join(cells).rstrip())
    if table.note:
        print("  " + table.note.replace("`", ""))
    sys.stdout.flush()


def tell(what: str) -> None:
    """Say what is being measured, beside the results."""
    print(f"... {what}", file=sys.stderr, flush=True)


def _processor() -> str:
    """Return the processor's model, as its maker calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(models), "") or platform.processor() or platform.machine()
