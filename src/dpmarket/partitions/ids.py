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
from dpmarket.ledger.manifests import GROUPS, Hashes, groups_in, hashes_of
from dpmarket.partitions import kernels
from dpmarket.partitions.pieces import for_a_while

_MOST_TOLD = 10_000
_ROWS_IN_RANGE = 1 << 20


def grouped_hashes(values: Hashes) -> Hashes:
    """Return hashes by their first byte, after the places where the groups begin."""
    found = np.empty(GROUPS + 1 + values.size, dtype=np.uint64)
    kernels.grouped(values, found[: GROUPS + 1].view(np.int64), found[GROUPS + 1 :])
    return found


def repeated_among(known: Hashes) -> Hashes:
    """Return the hashes that stand more than once in what :func:`grouped_hashes` gave.

    Examples
    --------
    >>> repeated_among(grouped_hashes(np.array([7, 1, 7, 7], dtype=np.uint64))).tolist()
    [7]
    """
    starts, values = known[: GROUPS + 1].view(np.int64), known[GROUPS + 1 :]
    repeated = np.zeros(values.size, dtype=bool)
    largest = int(np.diff(starts).max())
    table = np.empty(1 << max(2 * largest - 1, 1).bit_length(), dtype=np.int64)
    kernels.mark_repeated(values, starts, table, repeated)
    return np.unique(values[repeated])


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
    parts = [groups_in(name, asked.first, asked.last) for name in asked.lists]
    again = repeated_among(grouped_hashes(np.concatenate(parts)))
    return [int(value) for value in again[:_MOST_TOLD]]


def rows_with(table: pl.DataFrame, id_column: str, wanted: Sequence[int]) -> list[tuple[int, bytes]]:
    """Return the rows whose id has one of these hashes, with a digest of the id itself."""
    asked = np.array(sorted(wanted), dtype=np.uint64)
    rows: IntArray = np.flatnonzero(np.isin(hashes_of(table, id_column), asked))
    ids = table.get_column(id_column).gather(rows).to_list()
    digests = [hashlib.sha256(str(one).encode()).digest() for one in ids]
    return list(zip(rows.tolist(), digests, strict=True))
