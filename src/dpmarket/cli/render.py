"""Tables that a person can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str | None = None
) -> None:
    """Print rows under a title; the first column is text, the others are numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_header=any(columns))
    for k, name in enumerate(columns):
        table.add_column(name, justify="left" if k == 0 else "right", no_wrap=k > 0)
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(title)
    console.print(table)
    if note is not None:
        console.print(note)


def busy(what: str) -> AbstractContextManager[object]:
    """Show on the terminal, if there is one, that work is under way."""
    return Console(stderr=True).status(f"{what} (a first run compiles for about half a minute)")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on the terminal, if there is one; gives the callback that moves it."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def number(value: float, digits: int = 4) -> str:
    """Format a number with as many significant digits."""
    return f"{value:.{digits}g}"
