"""Find out, partition by partition, whether any seller stands in two of them; and in which one stands.

Every partition writes the hashes of its ids, grouped by their first byte. The same groups of all these lists
are then looked at by one task, whatever the partitions are. Equal hashes are no proof: the ids themselves are
compared then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dpmarket.arrays import IntArray
from dpmarket.files import atomic_path, bytes_of_texts
from dpmarket.files.atomic import PRIVATE
from dpmarket.ledger.kernels import hashes
from dpmarket.partitions import kernels

Hashes = npt.NDArray[np.uint64]
# Public and fixed: the same id lies in the same place wherever and whenever it is asked for.
_KEYS = (np.uint64(0x9AE16A3B2F90404F), np.uint64(0xC3A5C85C97CB3127))
_MOST_TOLD = 10_000
_ROWS_IN_RANGE = 1 << 22


def hashes_of(table: pl.DataFrame, id_column: str) -> Hashes:
    """Return a stable hash of every id.

    Examples
    --------
    >>> one = hashes_of(pl.DataFrame({"id": ["a", "b"]}), "id")
    >>> bool(one[1] == hashes_of(pl.DataFrame({"id": ["b"]}), "id")[0])
    True
    """
    out = np.empty(table.height, dtype=np.uint64)
    first = 0
    for data, ends in bytes_of_texts(table, id_column):
        part = slice(first, first + ends.size)
        hashes(data, ends, np.zeros(ends.size, dtype=np.uint64), *_KEYS, out[part])
        first += ends.size
    return out


def repeated_among(values: Hashes) -> Hashes:
    """Return the hashes that stand there more than once.

    Examples
    --------
    >>> repeated_among(np.array([7, 1, 7, 7], dtype=np.uint64)).tolist()
    [7]
    """
    repeated = np.zeros(values.size, dtype=bool)
    table = np.full(1 << max(2 * values.size - 1, 1).bit_length(), -1, dtype=np.int64)
    kernels.mark_repeated(values, table, repeated)
    return np.unique(values[repeated])


def write_hashes(path: str, values: Hashes) -> None:
    """Write a list of hashes, grouped, after the places where groups begin."""
    found = np.empty(257 + values.size, dtype=np.uint64)
    starts = found[:257].view(np.int64)
    kernels.grouped(values, starts, found[257:])
    with atomic_path(path, mode=PRIVATE) as temporary, temporary.open("wb") as file:
        np.save(file, found)


def _groups(name: str | Path, first: int, last: int) -> Hashes:
    known: Any = np.load(name, mmap_mode="r")
    starts = np.array(known[:257]).view(np.int64)
    return np.array(known[257 + starts[first] : 257 + starts[last]])


@dataclass(frozen=True)
class Range:
    """Groups of hashes from ``first`` to before ``last``, and the lists to look into."""

    lists: tuple[str, ...]
    first: int
    last: int


def ranges_of(lists: tuple[str, ...], sellers: int) -> list[Range]:
    """Return all groups in ranges, each of a size that one task can hold."""
    count = min(1 + sellers // _ROWS_IN_RANGE, 256)
    ends = [256 * k // count for k in range(count + 1)]
    return [Range(lists, first, last) for first, last in pairwise(ends)]


def repeated_hashes(asked: Range) -> list[int]:
    """Return hashes within a range that the lists hold more than once, ten thousand at most."""
    parts = [_groups(name, asked.first, asked.last) for name in asked.lists]
    again = repeated_among(np.concatenate(parts))
    return [int(value) for value in again[:_MOST_TOLD]]


def rows_with(table: pl.DataFrame, id_column: str, wanted: Sequence[int]) -> list[tuple[int, bytes]]:
    """Return the rows whose id has one of these hashes, with a digest of the id itself."""
    asked = np.array(sorted(wanted), dtype=np.uint64)
    rows: IntArray = np.flatnonzero(np.isin(hashes_of(table, id_column), asked))
    ids = table.get_column(id_column).gather(rows).to_list()
    digests = [hashlib.sha256(str(one).encode()).digest() for one in ids]
    return list(zip(rows.tolist(), digests, strict=True))


def lists_with(lists: Sequence[Path], seller: str) -> list[int]:
    """Return the numbers of the lists that hold the hash of an id: all but seldom one or none."""
    own = hashes_of(pl.DataFrame({"id": [seller]}), "id")[0]
    group = int(own >> np.uint64(56))
    return [number for number, name in enumerate(lists) if own in _groups(name, group, group + 1)]
