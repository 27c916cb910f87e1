"""Find out, partition by partition, whether any seller stands in two of them.

Every partition writes the hashes of its ids, grouped by their first byte. The same groups of all these lists
are then looked at by one task, whatever the partitions are. Equal hashes are no proof: the ids themselves are
compared then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from dpmarket.arrays import IntArray
from dpmarket.ledger.manifests import GROUPS, Hashes, hashes_of
from dpmarket.partitions import kernels
from dpmarket.partitions.pieces import for_a_while

_MOST_TOLD = 10_000
_ROWS_IN_RANGE = 1 << 20


def grouped_hashes(values: Hashes) -> Hashes:
    """Return hashes by their first byte, after the places where the groups begin."""
    found = np.empty(GROUPS + 1 + values.size, dtype=np.uint64)
    kernels.grouped(values, found[: GROUPS + 1].view(np.int64), found[GROUPS + 1 :])
    return found


def repeated_among(lists: Sequence[Hashes], first: int = 0, last: int = GROUPS) -> Hashes:
    """Return hashes of a range of groups that stand more than once in what :func:`grouped_hashes` gave.

    Ten thousand at most are found, none missed if there are fewer.

    Examples
    --------
    >>> lists = [grouped_hashes(np.array(some, dtype=np.uint64)) for some in ([7, 1, 7], [2, 1])]
    >>> repeated_among(lists[:1]).tolist(), repeated_among(lists).tolist()
    ([7], [1, 7])
    """
    starts = np.array([known[first : last + 1].view(np.int64) for known in lists])
    parts = [
        known[GROUPS + 1 + bounds[0] : GROUPS + 1 + bounds[-1]]
        for known, bounds in zip(lists, starts.tolist(), strict=True)
    ]
    values = np.concatenate(parts) if len(parts) > 1 else parts[0]
    starts -= starts[:, :1]
    starts[1:] += np.cumsum(starts[:-1, -1])[:, None]
    largest = int(np.diff(starts).sum(axis=0).max())
    table = np.empty(1 << max(2 * largest - 1, 1).bit_length(), dtype=np.uint64)
    found = np.empty(_MOST_TOLD, dtype=np.uint64)
    return np.unique(found[: kernels.repeated_in(values, starts, table, found)])


def write_hashes(path: str, known: Hashes) -> None:
    """Write what :func:`grouped_hashes` gave."""
    with for_a_while(path) as file:
        np.save(file, known)


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
    lists = [np.load(name, mmap_mode="r") for name in asked.lists]
    again: list[int] = repeated_among(lists, asked.first, asked.last).tolist()
    return again


def rows_with(table: pl.DataFrame, id_column: str, wanted: Sequence[int]) -> list[tuple[int, bytes]]:
    """Return the rows whose id has one of these hashes, with a digest of the id itself."""
    asked = np.array(sorted(wanted), dtype=np.uint64)
    rows: IntArray = np.flatnonzero(np.isin(hashes_of(table, id_column), asked))
    ids = table.get_column(id_column).gather(rows).to_list()
    digests = [hashlib.sha256(str(one).encode()).digest() for one in ids]
    return list(zip(rows.tolist(), digests, strict=True))
