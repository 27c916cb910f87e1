"""Keep a round's quotes outside of the ledger, in partitions of which it knows the digests.

The ledger then keeps a manifest: the folder, and every partition's name, number of rows and digest. Quotes
are read from the partitions, whose digests are checked first. Beside each lies a list of the hashes of its
sellers' ids, grouped by their first byte, by which one seller's partition is found.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dpmarket.errors import FileProblem
from dpmarket.files import bytes_of_texts, table_from_bytes
from dpmarket.ledger.kernels import are_plain, hashes

Hashes = npt.NDArray[np.uint64]
GROUPS = 256
_SCHEMA = "dpmarket.manifest/1"
_KEPT = "dpmarket.kept/1"
# Public and fixed: the same id lies in the same place wherever and whenever it is asked for.
_KEYS = (np.uint64(0x9AE16A3B2F90404F), np.uint64(0xC3A5C85C97CB3127))


@dataclass(frozen=True)
class Manifest:
    """Where the quotes of a round are.

    Attributes
    ----------
    folder
        The folder of the partitions.
    names, rows, digests
        Of each: its file's name there, how many sellers are in it, and the SHA-256 of its bytes.
    """

    folder: str
    names: tuple[str, ...]
    rows: tuple[int, ...]
    digests: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Return what the ledger keeps."""
        return json.dumps({"schema": _SCHEMA, **vars(self)}, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Manifest | None:
        """Return the manifest that a ledger kept; None where it kept quotes themselves."""
        if not content.startswith(b"{"):
            return None
        data = json.loads(content)
        names, rows, digests = (tuple(data[key]) for key in ("names", "rows", "digests"))
        return cls(data["folder"], names, rows, digests)

    def quotes(self, sellers: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the quotes of all partitions, or of those in which some sellers may be.

        Raises
        ------
        FileProblem
            A partition is missing, or not as it was entered.
        """
        return self.tables(self.numbers_with(sellers))

    def numbers_with(self, sellers: Sequence[str] | None) -> Sequence[int]:
        """Return the numbers of the partitions in which some sellers may be, of one at least; None: of all.

        Raises
        ------
        FileProblem
            A list of hashes is missing.
        """
        if sellers is None:
            return range(len(self.names))
        lists = [Path(self.folder) / "hashes" / f"{Path(name).stem}.npy" for name in self.names]
        counts = how_many_in(lists, sellers)
        return [number for number, count in enumerate(counts) if count] or [0]

    def tables(self, numbers: Sequence[int]) -> pl.DataFrame:
        """Return the rows of some partitions, one after the other; refuses as :meth:`quotes` does."""
        return pl.concat([self._partition(Path(self.folder), number) for number in numbers])

    def _partition(self, folder: Path, number: int) -> pl.DataFrame:
        path = folder / self.names[number]
        try:
            content = path.read_bytes()
        except OSError as problem:
            raise FileProblem(
                f"cannot read the partition {path} of a round's quotes: {problem.strerror or problem}."
            ) from None
        if hashlib.sha256(content).hexdigest() != self.digests[number]:
            raise FileProblem(f"cannot use the partition {path}: it is not as it was entered.")
        return pl.read_parquet(io.BytesIO(content))


def kept_bytes(manifest: Manifest, withdrawn: Sequence[str]) -> bytes:
    """Return what stands for the quotes of all who have not withdrawn, without copying them."""
    content = {"schema": _KEPT, "manifest": vars(manifest), "withdrawn": list(withdrawn)}
    return json.dumps(content, sort_keys=True).encode()


def kept_from_bytes(content: bytes, sellers: Sequence[str] | None = None) -> pl.DataFrame:
    """Return the quotes that :func:`kept_bytes` stands for, or those of a table's own bytes.

    Parameters
    ----------
    content
        What was kept.
    sellers
        If only some are asked for, partitions without them are not looked at.

    Raises
    ------
    FileProblem
        A partition is missing, or the bytes are damaged.
    """
    if not content.startswith(b"{"):
        return table_from_bytes(content)
    data = json.loads(content)
    manifest = Manifest.from_bytes(json.dumps(data["manifest"]).encode())
    assert manifest is not None
    quotes = manifest.quotes(sellers)
    return quotes.filter(~quotes.to_series(0).is_in(data["withdrawn"]))


def hashes_of(table: pl.DataFrame, id_column: str) -> Hashes:
    """Return a stable hash of every id.

    Examples
    --------
    >>> one = hashes_of(pl.DataFrame({"id": ["a", "b"]}), "id")
    >>> bool(one[1] == hashes_of(pl.DataFrame({"id": ["b"]}), "id")[0])
    True
    """
    return hashes_and_look(table, id_column)[0]


def hashes_and_look(table: pl.DataFrame, id_column: str) -> tuple[Hashes, bool]:
    """Return a stable hash of every id, and whether all are plain: printable ASCII, no blank at an end."""
    out = np.empty(table.height, dtype=np.uint64)
    first, plain = 0, True
    for data, ends in bytes_of_texts(table, id_column):
        part = slice(first, first + ends.size)
        hashes(data, ends, np.zeros(ends.size, dtype=np.uint64), *_KEYS, out[part])
        plain = plain and are_plain(data, ends)
        first += ends.size
    return out, plain


def groups_in(path: str | Path, first: int, last: int) -> Hashes:
    """Return the hashes of a list whose first byte is at least ``first`` and below ``last``."""
    known: Any = np.load(path, mmap_mode="r")
    starts = np.array(known[: GROUPS + 1]).view(np.int64)
    return np.array(known[GROUPS + 1 + starts[first] : GROUPS + 1 + starts[last]])


def how_many_in(lists: Sequence[str | Path], sellers: Sequence[str]) -> list[int]:
    """Return how many of these ids each list holds, by their hashes.

    Raises
    ------
    FileProblem
        A list is missing.
    """
    own = hashes_of(pl.DataFrame({"id": list(sellers)}, schema={"id": pl.String}), "id")
    groups = np.unique(own >> np.uint64(56)).tolist()
    found = []
    for path in lists if groups else ():
        try:
            there = np.concatenate([groups_in(path, group, group + 1) for group in groups])
        except (OSError, ValueError):
            raise FileProblem(f"cannot read the list {path} of the sellers in a partition.") from None
        found.append(int(np.isin(own, there).sum()))
    return found or [0] * len(lists)
