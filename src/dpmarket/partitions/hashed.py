"""Divide tables by a stable hash of the person: all rows of one person lie in one partition, known by the id.

A partition's name says which one it is and of how many (``part-00003-of-00100.parquet``), so that whoever
reads it can see for each row whether it belongs there, without a look at another partition.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dpmarket import checks
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import (
    ColumnProblem,
    atomic_path,
    column_names,
    find,
    parquet_bytes,
    read_table,
    table_kind,
)
from dpmarket.files.atomic import PRIVATE
from dpmarket.partitions.engines import as_engine
from dpmarket.partitions.looking import (
    Runner,
    folder_beside,
    partition_paths,
    put_in_place,
    refuse_unusable,
)
from dpmarket.partitions.pieces import Piece, parts_of, read_pieces, write_pieces
from dpmarket.progress import StageProgress

MOST_PARTITIONS = 99_999
_NAME = re.compile(r"part-(\d{5})-of-(\d{5})\Z")


@dataclass(frozen=True)
class Repartitioned:
    """What dividing a table came to.

    Attributes
    ----------
    folder
        With one Parquet file for each partition.
    rows
        How many rows each has.
    """

    folder: Path
    rows: tuple[int, ...]


def repartition(
    paths: Sequence[str | os.PathLike[str]] | str,
    out: str | os.PathLike[str],
    partitions: int,
    *,
    engine: Any = None,
    id_column: str = "id",
    progress: StageProgress = lambda what, share: None,
) -> Repartitioned:
    """Divide the rows of many files by a stable hash of the person.

    Parameters
    ----------
    paths
        .csv or .parquet files with the same columns, or a pattern for their names.
    out
        A folder that does not exist yet. Workers must see the files and this folder's parent.
    partitions
        How many files there will be, from 1 to 99,999. One of them should fit into a worker's memory some
        times over.
    engine
        What runs the tasks: an engine, a Dask client, or None for threads.
    id_column
        The person of a row.
    progress
        Called with what is being done.

    Returns
    -------
    Repartitioned
        Rows are as they were, those of one partition in the order of the files and of the rows in them.

    Raises
    ------
    FileProblem
        ``details`` name every problem by file, line and column. Nothing was written.

    Notes
    -----
    The hash is fixed, so that the same person lies in the same partition in every table that is divided into
    as many. The folder is as private as the files: only its owner may look into it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as place:
    ...     table = pl.DataFrame({"id": ["a", "b", "a"], "x": [1, 2, 3]})
    ...     table.write_parquet(f"{place}/one.parquet")
    ...     done = repartition(f"{place}/one.parquet", f"{place}/parts", 2)
    ...     names = sorted(path.name for path in done.folder.iterdir())
    >>> sum(done.rows), names
    (3, ['part-00000-of-00002.parquet', 'part-00001-of-00002.parquet'])
    """
    checks.whole("partitions", partitions, minimum=1)
    if partitions > MOST_PARTITIONS:
        raise InvalidInput(f"expected at most {MOST_PARTITIONS:,} partitions, got {partitions}.")
    sources = partition_paths(paths) if isinstance(paths, str) else [Path(path) for path in paths]
    target = Path(out)
    refuse_unusable(sources, target)
    runner = Runner(as_engine(engine), progress, expected=2)
    with folder_beside(target) as work:
        pieces = work / "pieces"
        pieces.mkdir(mode=0o700)
        asked = [
            _Division(str(source.absolute()), id_column, partitions, str(pieces.absolute() / f"{k}.arrow"))
            for k, source in enumerate(sources)
        ]
        divided = runner.map("dividing", _divide, asked)
        _refuse(divided)
        finished = work / "finished"
        finished.mkdir(mode=0o700)
        orders = [
            _Join(
                tuple((one.out, *part.span(k)) for one, part in zip(asked, divided, strict=True)),
                str(finished.absolute() / name_of(k, partitions)),
            )
            for k in range(partitions)
        ]
        rows = runner.map("writing", _join, orders)
        put_in_place(finished, target)
    return Repartitioned(target, tuple(rows))


def name_of(number: int, count: int) -> str:
    """Return the name of one of so many partitions.

    Examples
    --------
    >>> name_of(3, 100)
    'part-00003-of-00100.parquet'
    """
    return f"part-{number:05d}-of-{count:05d}.parquet"


def place_in_name(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return which partition of how many a file's name says it is, None if it says nothing.

    Examples
    --------
    >>> place_in_name("data/part-00003-of-00100.parquet"), place_in_name("data/all.parquet")
    ((3, 100), None)
    """
    found = _NAME.match(Path(path).stem)
    return None if found is None else (int(found[1]), int(found[2]))


def places_of_people(sources: Sequence[Path]) -> list[tuple[int, int]]:
    """Return each file's place among partitions by person: all of them, each once; one file needs no name.

    Raises
    ------
    FileProblem
        Files that are no such partitions, or some of them are missing.
    """
    if len(sources) == 1 and place_in_name(sources[0]) is None:
        return [(0, 1)]
    places = [place_in_name(source) for source in sources]
    found = [place for place in places if place is not None]
    counts = {count for _, count in found}
    whole = len(found) == len(places) and len(counts) == 1
    if not whole or sorted(number for number, _ in found) != list(range(max(counts))):
        raise FileProblem(
            "expected partitions by person, all of them (part-00000-of-00002.parquet and so on), as "
            "'dpmarket repartition' writes them."
        )
    return found


def misplaced(table: pl.DataFrame, id_column: str, place: tuple[int, int]) -> list[ColumnProblem]:
    """Find rows of people who belong into another partition."""
    number, count = place
    if count == 1:
        return []
    words = "a person of another partition (divide the data anew: dpmarket repartition)"
    return find(id_column, words, parts_of(table, id_column, count) != number)


@dataclass(frozen=True)
class _Division:
    source: str
    id_column: str
    count: int
    out: str


@dataclass(frozen=True)
class _Divided:
    problems: tuple[str, ...]
    starts: tuple[int, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()

    def span(self, number: int) -> tuple[int, int]:
        return self.starts[number], self.starts[number + 1]


@dataclass(frozen=True)
class _Join:
    pieces: tuple[Piece, ...]
    out: str


def _divide(asked: _Division) -> _Divided:
    """Read a file and write its rows by partition."""
    try:
        # Cells of a .csv file stay the texts that they are.
        texts = column_names(asked.source) if table_kind(asked.source) == ".csv" else [asked.id_column]
        table = read_table(asked.source, None, texts)
        if asked.id_column not in table.columns:
            return _Divided((f"{asked.source}: expected a column {asked.id_column!r}.",))
    except FileProblem as problem:
        return _Divided((str(problem),))
    empty = (table.get_column(asked.id_column).fill_null("") == "").to_numpy()
    problems = find(asked.id_column, "no person's id", empty)
    if problems:
        said = (problem.sentence(table, asked.source) for problem in problems)
        return _Divided(tuple(f"{asked.source}: {sentence}" for sentence in said))
    parts = parts_of(table, asked.id_column, asked.count)
    columns = tuple((name, str(kind)) for name, kind in table.schema.items())
    return _Divided((), write_pieces(table, parts, asked.count, asked.out), columns)


def _join(order: _Join) -> int:
    """Write one partition; return how many rows it has."""
    table = read_pieces(order.pieces)
    with atomic_path(order.out, mode=PRIVATE) as temporary:
        temporary.write_bytes(parquet_bytes(table))
    return table.height


def _refuse(divided: Sequence[_Divided]) -> None:
    problems = [sentence for part in divided for sentence in part.problems]
    if problems:
        bad = sum(1 for part in divided if part.problems)
        raise FileProblem(f"cannot use {bad} of {len(divided)} files; nothing was written.", problems)
    if len({part.columns for part in divided}) > 1:
        raise FileProblem("expected files with the same columns, in the same order and of the same kinds.")
