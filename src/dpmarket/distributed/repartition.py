"""Files by person: all rows of one person into one file, by the engine's own shuffle."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import dask.dataframe as dd

from dpmarket.campaign.file_parts import many_files, part_name
from dpmarket.distributed.cluster import connected
from dpmarket.errors import FileProblem
from dpmarket.files import refuse_existing


def repartition(
    pattern: str | os.PathLike[str], folder: str | os.PathLike[str], column: str, *, files: int = 0,
    where: str = "local",
) -> int:  # fmt: skip
    """Write the rows of many Parquet files into a new folder, all rows of one person into one file.

    The files, such as ``reports/*.parquet`` or a folder of them, become ``part-00000.parquet`` and so on, as
    many as there are or as asked for; ``column`` has the ids. Return how many files were written.
    """
    sources = many_files(pattern)
    refuse_existing(folder)
    count, target = files or len(sources), Path(folder).absolute()
    with connected(where):
        table: Any = dd.read_parquet([str(one) for one in sources], dtype_backend="pyarrow")
        if column not in table.columns:
            raise FileProblem(f"column {column!r} not found in {sources[0]}.")
        shuffled = table.shuffle(on=column, npartitions=count)
        # Rows arrive in any order: sorted, the same files come out each time.
        ordered = shuffled.map_partitions(_sorted, column=column, meta=table._meta)
        aside = tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent)
        try:
            ordered.to_parquet(aside, write_index=False, name_function=part_name)
            os.rename(aside, target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    return count


def _sorted(frame: Any, column: str) -> Any:
    others = [name for name in frame.columns if name != column]
    return frame.sort_values([column, *others], kind="stable")
