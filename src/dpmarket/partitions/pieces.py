"""Write the rows of a table by the hash of the person, and read those of one part of all people again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from dpmarket.arrays import IntArray
from dpmarket.campaign.ids import tidy_ids
from dpmarket.errors import FileProblem
from dpmarket.files.atomic import PRIVATE
from dpmarket.ledger.manifests import hashes_of

Piece = tuple[str, int, int]
"""Rows of a file of pieces: its name, the first row, and the one after the last."""


@contextmanager
def for_a_while(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a file that only its owner may read, which takes its place in one step; whoever reads sees all.

    It is not flushed to the disk: what is lost with the machine can be made again.

    Raises
    ------
    FileProblem
        It cannot be written.
    """
    temporary = Path(f"{os.fspath(path)}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, PRIVATE)) as file:
            yield file
        os.replace(temporary, path)
    except OSError as problem:
        if isinstance(problem, FileProblem):
            raise
        raise FileProblem(f"cannot write {path}: {problem.strerror or problem}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def parts_of(table: pl.DataFrame, id_column: str, count: int) -> IntArray:
    """Return the number of the partition in which each row's person lies."""
    hashed = hashes_of(tidy_ids(table, id_column), id_column)
    return (hashed % np.uint64(count)).astype(np.int64)


def write_pieces(table: pl.DataFrame, parts: IntArray, count: int, out: str) -> tuple[int, ...]:
    """Write rows by the number of their partition; return where each number's begin, and the end."""
    order = np.argsort(parts, kind="stable")
    with for_a_while(out) as file:
        table[order].write_ipc(file)
    return tuple(np.searchsorted(parts[order], np.arange(count + 1)).tolist())


def read_pieces(pieces: Sequence[Piece]) -> pl.DataFrame:
    """Return rows of several files of pieces, one after the other.

    Raises
    ------
    ValueError
        There are none.
    """
    some = [piece for piece in pieces if piece[2] > piece[1]] or [pieces[0]]
    return pl.concat([pl.scan_ipc(path).slice(first, last - first).collect() for path, first, last in some])
