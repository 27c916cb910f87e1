"""Run an experiment into a folder: compute its table or take it up again, and draw its figure."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpmarket.figures import Figure, save
from dpmarket.paper.experiments.table import (
    ResultTable,
    has_result,
    plain_value,
    read_result,
    table_from_rows,
    write_result,
)
from dpmarket.planning.rows import Row, compute_rows
from dpmarket.progress import Progress

TABLES, FIGURES = "tables", "figures"


@dataclass(frozen=True)
class Work:
    """How to compute: in how many processes, where to keep finished rows, whom to tell.

    Parameters
    ----------
    processes
        How many work at a time.
    keep_in
        A .json file of finished rows, taken up again after a stop; None keeps nothing.
    progress
        Called with the numbers of rows done and of all.
    """

    processes: int = 1
    keep_in: Path | None = None
    progress: Progress | None = None

    def table(
        self, name: str, compute: Callable[[Any], Row | list[Row]], tasks: list[Any], config: Any
    ) -> ResultTable:
        """Return the table of ``compute(task)`` for every task; a task may give several rows."""
        configuration = plain(config)
        found = compute_rows(
            _Wrapped(compute),
            tasks,
            {"name": name, "configuration": configuration},
            self.processes,
            self.keep_in,
            self.progress,
        )
        rows = [row for group in found for row in group["rows"]]
        return table_from_rows(name, rows, configuration)


@dataclass(frozen=True)
class Experiment:
    """One table of the paper's evidence, and its picture.

    Attributes
    ----------
    name
        As ``dpmarket reproduce`` knows it, and the stem of its files.
    title
        What it shows, in one line.
    full, quick
        Frozen settings: those of the published results, and small ones for tests.
    compute
        Settings and a way to work in, table out.
    draw
        Table in, figure out.
    """

    name: str
    title: str
    full: Any
    quick: Any
    compute: Callable[[Any, Work], ResultTable]
    draw: Callable[[ResultTable], Figure]


def run_experiment(
    experiment: Experiment,
    config: Any,
    folder: str | os.PathLike[str],
    processes: int = 1,
    progress: Progress | None = None,
) -> ResultTable:
    """Write the experiment's table and figure into a folder, and return the table.

    A table that is already there with the same settings is not computed again; a run that was stopped goes
    on after the last finished row. The figure is always drawn from the table as it was read back.

    Parameters
    ----------
    experiment
        What to run.
    config
        Its ``full`` or ``quick`` settings, or others of the same type.
    folder
        Made if it does not exist. Gets tables/NAME.csv and .json, figures/NAME.svg and .png.
    processes
        How many work at a time.
    progress
        Called with the numbers of rows done and of all.
    """
    place, pictures = Path(folder) / TABLES, Path(folder) / FIGURES
    place.mkdir(parents=True, exist_ok=True)
    pictures.mkdir(exist_ok=True)
    if not has_result(place, experiment.name, plain(config)):
        settings = json.dumps(plain(config), sort_keys=True).encode()
        partial = place / f".{experiment.name}-{hashlib.sha256(settings).hexdigest()[:8]}.rows.json"
        write_result(experiment.compute(config, Work(processes, partial, progress)), place)
        partial.unlink(missing_ok=True)
    table = read_result(place, experiment.name)
    figure = experiment.draw(table)
    for ending in ("svg", "png"):
        save(figure, pictures / f"{experiment.name}.{ending}", overwrite=True)
    return table


def plain(config: Any) -> dict[str, Any]:
    """Return settings as data that JSON gives back unchanged, the same on every machine.

    Numbers have twelve digits: powers differ between processors in their last bits.
    """
    return {name: plain_value(value) for name, value in asdict(config).items()}


@dataclass(frozen=True)
class _Wrapped:
    """A row or several, as one row of plain data; a class so that other processes can be sent it."""

    compute: Callable[[Any], Row | list[Row]]

    def __call__(self, task: Any) -> Row:
        found = self.compute(task)
        return {"rows": found if isinstance(found, list) else [found]}
