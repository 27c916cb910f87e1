"""Compute the rows of a table: several at a time, kept as they come, taken up again after a stop.

A row is a function of its task alone, seeds included, so that the table does not depend on how many processes
made it or how often it was interrupted.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

from dpmarket import checks
from dpmarket.errors import FileProblem
from dpmarket.files import read_json, write_json
from dpmarket.progress import Progress

Row = dict[str, Any]
Task = TypeVar("Task")

SCHEMA = "dpmarket.rows/2"


def compute_rows(
    compute: Callable[[Task], Row],
    tasks: Sequence[Task],
    description: object,
    processes: int = 1,
    keep_in: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Return ``compute(task)`` for every task, in order.

    Parameters
    ----------
    compute
        A module-level function from a task to a row of plain data.
    tasks
        What to compute; may be sent to other processes.
    description
        Plain data that says what the table is; a file with another description is refused.
    processes
        How many work at a time; 1 works in this process.
    keep_in
        A .json file that is rewritten, atomically, after every row. Rows that it already has are not computed
        again.
    progress
        Called with the numbers of rows done and of all.

    Raises
    ------
    FileProblem
        If the file belongs to another table, or cannot be read or written.
    """
    processes = checks.whole("processes", processes, minimum=1)
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
    rows = {} if keep_in is None else _kept(Path(keep_in), digest)

    def finished(index: int, row: Row) -> None:
        rows[index] = row
        if keep_in is not None:
            kept = {str(k): rows[k] for k in sorted(rows)}
            write_json(keep_in, {"schema": SCHEMA, "table": digest, "rows": kept})
        if progress is not None:
            progress(len(rows), len(tasks))

    missing = [index for index in range(len(tasks)) if index not in rows]
    if processes == 1 or len(missing) < 2:
        for index in missing:
            finished(index, compute(tasks[index]))
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(processes, len(missing)), context) as pool:
            running = {pool.submit(compute, tasks[index]): index for index in missing}
            try:
                for future in as_completed(running):
                    finished(running[future], future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return [rows[index] for index in range(len(tasks))]


def _kept(path: Path, digest: str) -> dict[int, Row]:
    if not path.exists():
        return {}
    data = read_json(path)
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("rows"), dict):
        raise FileProblem(f"expected rows of a table in {path}, found something else; name another file.")
    if data.get("table") != digest:
        raise FileProblem(f"{path} holds rows of a table with other settings; name another file.")
    return {int(index): row for index, row in data["rows"].items()}
