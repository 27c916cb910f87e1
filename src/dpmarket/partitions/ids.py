"""Find out, partition by partition, whether any seller stands in two of them; and in which one stands.

Every partition writes the hashes of its ids, sorted. The same range of all these lists is then looked at by
one task, whatever the partitions are. Equal hashes are no proof: the ids themselves are compared then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dpmarket.arrays import IntArray
from dpmarket.files import bytes_of_texts
from dpmarket.ledger.kernels import hashes

Hashes = npt.NDArray[np.uint64]
# Public and fixed: the same id lies in the same place wherever and whenever it is asked for.
_KEYS = (np.uint64(0x9AE16A3B2F90404F), np.uint64(0xC3A5C85C97CB3127))
_MOST_TOLD = 10_000


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


@dataclass(frozen=True)
class Range:
    """One of ``count`` equal ranges of hashes, and the lists to look into."""

    lists: tuple[str, ...]
    number: int
    count: int


def repeated_hashes(asked: Range) -> list[int]:
    """Return hashes within a range that the lists hold more than once, ten thousand at most."""
    width = (1 << 64) // asked.count
    low = asked.number * width
    is_last = asked.number + 1 == asked.count
    parts = []
    for name in asked.lists:
        known: Any = np.load(name, mmap_mode="r")
        start = np.searchsorted(known, np.uint64(low))
        end = known.size if is_last else np.searchsorted(known, np.uint64(low + width))
        parts.append(np.array(known[start:end]))
    together = np.sort(np.concatenate(parts))
    again = np.unique(together[1:][together[1:] == together[:-1]])
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
    found = []
    for number, name in enumerate(lists):
        known: Any = np.load(name, mmap_mode="r")
        place = int(np.searchsorted(known, own))
        if place < known.size and known[place] == own:
            found.append(number)
    return found
