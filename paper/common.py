"""What the scripts share: the command line, kept tables, two processes, and one look for all figures.

A script has its settings on top, a function that yields rows, and a function that draws their table. Its
table is kept beside it as NAME.csv, whose first line holds the settings, and its figure as NAME.svg. Calling
it again with the same settings only draws; ``--again`` computes, ``--quick`` tries small settings in a minute
and writes into ``out/paper``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

Row = dict[str, Any]
PROCESSES = 2
QUICK = Path(__file__).parent.parent / "out" / "paper"
COLOURS = ("#1b6ca8", "#c8553d", "#3c8d5a", "#8a5fa8", "#b8860b", "#5f6b73")
MARKERS = ("o", "s", "^", "D", "v", "x")
LOOK = {
    "svg.hashsalt": "dpmarket", "svg.fonttype": "none", "font.size": 9.0, "axes.grid": True,
    "grid.color": "#dddddd", "axes.spines.top": False, "axes.spines.right": False, "lines.markersize": 3.5,
    "legend.frameon": True, "legend.edgecolor": "none", "legend.framealpha": 0.7, "legend.fontsize": 8.0,
    "lines.linewidth": 1.4, "figure.constrained_layout.use": True,
    "axes.prop_cycle": cycler(linestyle=["-", "--"]) * cycler(color=COLOURS),
}  # fmt: skip


def main(
    file: str,
    settings: dict[str, Any],
    quick: dict[str, Any],
    compute: Callable[[SimpleNamespace], Iterable[Row]],
    draw: Callable[[pl.DataFrame], Figure],
) -> None:
    """Compute a script's table, unless it is kept already, and draw it."""
    parser = argparse.ArgumentParser(description="Compute and draw one figure or claim of the paper.")
    parser.add_argument("--quick", action="store_true", help="small settings, written into out/paper")
    parser.add_argument("--again", action="store_true", help="compute even if the table is kept")
    chosen = parser.parse_args()
    mpl.use("Agg")
    mpl.rcParams.update(LOOK)  # here, not on import: tests load scripts beside other figures
    source = Path(file)
    folder = QUICK if chosen.quick else source.parent
    folder.mkdir(parents=True, exist_ok=True)
    used = settings | quick if chosen.quick else settings
    path = folder / f"{source.stem}.csv"
    if chosen.again or chosen.quick or not is_kept(path, used):
        start = time.perf_counter()
        write(path, used, list(compute(SimpleNamespace(**used))))
        print(f"{source.stem}: {time.perf_counter() - start:.0f} s", flush=True)
    draw(read(path)).savefig(folder / f"{source.stem}.svg", metadata={"Date": None, "Creator": None})


def write(path: Path, settings: dict[str, Any], rows: list[Row]) -> None:
    """Write settings and rows, numbers to ten digits: the last ones differ between processors."""
    table = pl.DataFrame(rows, infer_schema_length=None)
    texts = pl.selectors.float().map_elements(lambda value: f"{value:.10g}", return_dtype=pl.String)
    whole = path.with_suffix(".part")
    whole.write_text(_settings_line(settings) + table.with_columns(texts).write_csv(quote_style="necessary"))
    whole.replace(path)


def read(path: Path) -> pl.DataFrame:
    """Return a kept table."""
    return pl.read_csv(path, comment_prefix="#", infer_schema_length=None)


def is_kept(path: Path, settings: dict[str, Any]) -> bool:
    """Whether a table was made with these settings."""
    return path.exists() and path.read_text().startswith(_settings_line(settings))


def _settings_line(settings: dict[str, Any]) -> str:
    return "# " + json.dumps(settings, ensure_ascii=False) + "\n"


def in_parallel(function: Callable[..., list[Row]], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    """Yield the rows that a function gives for each task, in their order, computed by two processes."""
    with ProcessPoolExecutor(PROCESSES, initializer=threadpool_limits, initargs=(1,)) as pool:
        for future in [pool.submit(function, *task) for task in tasks]:
            yield from future.result()


def mean_and_error(values: object) -> tuple[float, float]:
    """Return the mean of independent values and its standard error."""
    array = np.asarray(values, dtype=float)
    return float(array.mean()), float(array.std(ddof=1) / math.sqrt(array.size)) if array.size > 1 else 0.0


def figure(*, rows: int = 1, columns: int = 1, width: float = 3.6) -> tuple[Figure, list[Axes]]:
    """Return an empty figure and its axes, row by row."""
    drawn = Figure(figsize=(width * columns, 2.7 * rows))
    return drawn, list(np.ravel(drawn.subplots(rows, columns, squeeze=False)))


def lines(ax: Axes, table: pl.DataFrame, x: str, y: str, by: str | None = None, error: str = "") -> None:
    """Draw one line for each value of a column, with a band of two standard errors where there are any."""
    groups = [(("",), table)] if by is None else table.group_by(by, maintain_order=True)
    for (name, part), colour, marker in zip(groups, cycle(COLOURS), cycle(MARKERS), strict=False):
        part = part.drop_nulls([x, y])
        ax.plot(part[x], part[y], label=str(name[0]), color=colour, marker=marker)
        if error:
            low, high = part[y] - 2 * part[error], part[y] + 2 * part[error]
            ax.fill_between(part[x], low, high, color=colour, alpha=0.18, linewidth=0)


def label(ax: Axes, title: str, x: str, y: str, *, log: str = "", legend: bool = True) -> None:
    """Write title and axes; ``log`` names the axes that are logarithmic."""
    ax.set(title=title, xlabel=x, ylabel=y)
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
    if legend:
        ax.legend()
