"""Tables that a person can read, and bars that say how long it will take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from dpmarket.progress import Progress, StageProgress, told_of_compiling

_COMPILING = "compiling, once"


@dataclass(frozen=True)
class Voice:
    """How a command speaks: as JSON or in tables, or not at all, and where to.

    If the command's own output goes to standard output, what it says about it goes to standard error.
    """

    as_json: bool
    quiet: bool
    output: str = ""

    def tell(
        self, title: str, rows: Sequence[Sequence[str]], data: Mapping[str, Any], note: str | None = None
    ) -> None:
        """Say what was done: rows for people, data for machines."""
        from dpmarket.files import to_json

        aside = self.output == "-"
        if self.as_json:
            typer.echo(to_json(data), nl=False, err=aside)
        elif not self.quiet:
            print_table(title, [""] * len(rows[0]), rows, note, aside)

    def list(self, title: str, lines: Sequence[str], data: Mapping[str, Any]) -> None:
        """Say what was found line by line: for sentences, which columns would cut off."""
        from dpmarket.files import to_json

        if self.as_json:
            typer.echo(to_json(data), nl=False)
        elif not self.quiet:
            typer.echo("\n".join([title, *(f"  {line}" for line in lines)]))

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
            with told_of_compiling(lambda: bar.update(task, description=_COMPILING)):
                yield lambda what, share: bar.update(task, description=what, completed=share)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    note: str | None = None,
    to_stderr: bool = False,
) -> None:
    """Print rows under a title; the first column is text, the others are numbers.

    Where the terminal is narrow, names break in tables of several columns, and values in tables of two.
    """
    table = Table(box=box.SIMPLE_HEAD, show_header=any(columns))
    for k, name in enumerate(columns):
        breaks = k == 1 if len(columns) == 2 else k == 0
        table.add_column(name, justify="left" if k == 0 else "right", no_wrap=not breaks, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(stderr=to_stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(title)
    console.print(table)
    if note is not None:
        console.print(note)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show on the terminal, if there is one, that work is under way, and whether it is compiling."""
    with (
        Console(stderr=True).status(what) as status,
        told_of_compiling(lambda: status.update(f"{what}: {_COMPILING}")),
    ):
        yield


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """Show a bar on the terminal, if there is one; gives the callback that moves it."""
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)

        def moved(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, description=what)

        with told_of_compiling(lambda: progress.update(task, description=f"{what}: {_COMPILING}")):
            yield moved


def number(value: float, digits: int = 4) -> str:
    """Format a number with as many significant digits."""
    return f"{value:.{digits}g}"
