"""Tables that a person can read, and bars that say how long it will take."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from dpmarket.progress import StageProgress, told_of_compiling

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Voice:
    """How a command speaks: as JSON or in tables, or not at all, and where to.

    If the command's own output goes to standard output, what it says about it goes to standard error.
    """

    as_json: bool
    quiet: bool
    output: str = ""

    def tell(
        self, title: str, rows: Sequence[Sequence[str]], data: Any, note: str | None = None,
        columns: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Say what was done: rows for people, data for machines."""
        if self.as_json:
            self._print_json(data, aside=self.output == "-")
        self.table(title, columns or [""] * len(rows[0]), rows, note)

    def table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str | None = None
    ) -> None:
        """Show a table to people; the first column is text, the others are numbers.

        Where the terminal is narrow, names break in tables of several columns, and values in tables of two.
        Digests and keys are to be copied: they come below the table, each on a line of its own.
        """
        if self.as_json or self.quiet:
            return
        digests = [row for row in rows if _DIGEST.fullmatch(row[-1])]
        made = Table(box=box.SIMPLE_HEAD, show_header=any(columns))
        for k, name in enumerate(columns):
            breaks = k == 1 if len(columns) == 2 else k == 0
            made.add_column(name, justify="left" if k == 0 else "right", no_wrap=not breaks, overflow="fold")
        plain = [row for row in rows if row not in digests]
        for row in plain:
            made.add_row(*row)
        to_stderr = self.output == "-"
        console = Console(stderr=to_stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
        lines = [f"{name}: {value}" for name, *_, value in digests] + ([] if note is None else [note])
        for part in (title, *([made] if plain else []), *lines):
            console.print(part)

    def list(self, title: str, lines: Sequence[str], data: Any) -> None:
        """Say what was found line by line: for sentences, which columns would cut off."""
        if self.as_json:
            self._print_json(data)
        elif not self.quiet:
            typer.echo("\n".join([title, *(f"  {line}" for line in lines)]))

    def _print_json(self, data: Any, aside: bool = False) -> None:
        from dpmarket.files import to_json

        typer.echo(to_json(data), nl=False, err=aside)

    def remark(self, text: str) -> None:
        """Say something beside the result, to the person at the terminal only."""
        if not self.quiet:
            typer.echo(text, err=True)

    @contextmanager
    def progress(self) -> Iterator[StageProgress]:
        """Give a callback that draws a bar with the time left on the terminal, if there is one."""
        console = Console(stderr=True)
        if self.quiet or not console.is_terminal:
            yield lambda what, share: None
            return
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Bar(*columns, console=console, transient=True) as bar:
            task = bar.add_task("", total=1.0)
            with told_of_compiling(lambda: bar.update(task, description="compiling, once")):
                yield lambda what, share: bar.update(task, description=what, completed=share)


def number(value: float, digits: int = 4) -> str:
    """Format a number with as many significant digits."""
    return f"{value:.{digits}g}"
