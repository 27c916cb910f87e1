r"""Turn sellers' lines into salted commitments, and those into a tree with short proofs of membership.

A line is (id, promise, payment, spent epsilon, weight). Its commitment is

.. math:: \mathrm{SHA256}(\text{"dpmarket-line-1"} \,\|\, \text{salt} \,\|\, \text{four big-endian doubles}
          \,\|\, \text{kind of id} \,\|\, \text{id in UTF-8}),

with 32 random bytes of salt for every line, so that nobody can try out lines. Commitments are sorted, which
gives them an order that says nothing about the sellers. Eight neighbours at a time are hashed into a node of
the next level (prefix "dpmarket-node-1") until one is left; the root is the hash of "dpmarket-root-1", the
number of lines as eight big-endian bytes, and that last node.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmarket.arrays import FloatArray, IntArray, read_only
from dpmarket.errors import EntropyUnavailable, InvalidInput

SALT = 32
ARITY = 8
_LEAF, _NODE, _ROOT = b"dpmarket-line-1", b"dpmarket-node-1", b"dpmarket-root-1"
_HASH = 32
_BLOCK = 65_536
VALUES = ("promise", "payment", "spent", "weight")


@dataclass(frozen=True, eq=False, repr=False)
class Lines:
    """What is certified about each seller, and the salts that hide it. Confidential.

    Attributes
    ----------
    ids
        Texts or whole numbers, all different, shape (sellers,).
    values
        Promise, payment, spent epsilon and weight of each, shape (sellers, 4).
    salts
        32 bytes for each, one after the other.
    """

    ids: npt.NDArray[Any]
    values: FloatArray
    salts: bytes

    def __post_init__(self) -> None:
        if self.ids.dtype.kind not in "iuU" or self.ids.ndim != 1:
            raise InvalidInput("expected ids to be a vector of texts or whole numbers.")
        sellers = self.ids.size
        if self.values.shape != (sellers, len(VALUES)) or len(self.salts) != SALT * sellers:
            raise InvalidInput(f"expected four values and {SALT} bytes of salt for each of {sellers} ids.")
        read_only(self.ids)
        read_only(self.values)

    def __len__(self) -> int:
        return int(self.ids.size)

    def line(self, k: int) -> dict[str, Any]:
        """Return line ``k`` as plain data, without its salt."""
        values = dict(zip(VALUES, self.values[k].tolist(), strict=True))
        return {"id": self.ids[k].item(), **values}

    def salt(self, k: int) -> str:
        """Return the salt of line ``k`` in hexadecimal digits."""
        return self.salts[SALT * k : SALT * (k + 1)].hex()


def fresh_salts(lines: int) -> bytes:
    """Return secret random salts for this many lines, from the operating system."""
    try:
        return os.urandom(SALT * lines)
    except (NotImplementedError, OSError):
        raise EntropyUnavailable("the operating system gave no random bits for the salts.") from None


@dataclass(frozen=True, eq=False)
class Tree:
    """Sorted commitments and the levels above them.

    Attributes
    ----------
    levels
        Hashes of every level, 32 bytes each, one after the other: commitments first, one node last.
    positions
        Place of each line among the sorted commitments.
    """

    levels: tuple[bytes, ...]
    positions: IntArray

    @property
    def leaves(self) -> bytes:
        """The sorted commitments, 32 bytes each."""
        return self.levels[0]

    @property
    def root(self) -> bytes:
        """The hash that stands for all lines and their number."""
        count = len(self.leaves) // _HASH
        return hashlib.sha256(_ROOT + count.to_bytes(8, "big") + self.levels[-1]).digest()

    def path(self, position: int) -> list[list[str]]:
        """Return, level by level, the other members of the group of the node above ``position``."""
        steps = []
        for level in self.levels[:-1]:
            first = position - position % ARITY
            group = range(first, min(first + ARITY, len(level) // _HASH))
            steps.append([level[_HASH * k : _HASH * (k + 1)].hex() for k in group if k != position])
            position //= ARITY
        return steps


def commit(lines: Lines) -> Tree:
    """Return the tree of the lines' commitments."""
    leaves = np.frombuffer(_leaves(lines), dtype=np.uint8).reshape(-1, _HASH)
    order = _increasing(leaves)
    positions = np.empty(len(lines), dtype=np.int64)
    positions[order] = np.arange(len(lines))
    levels = [leaves[order].tobytes()]
    while len(levels[-1]) > _HASH:
        levels.append(_next_level(levels[-1]))
    return Tree(tuple(levels), read_only(positions))


def _increasing(leaves: npt.NDArray[np.uint8]) -> IntArray:
    """Return the order that sorts hashes as big-endian numbers: by eight bytes, by all where these tie."""
    words = leaves.view(">u8").astype(np.uint64)
    order = np.argsort(words[:, 0])
    first = words[order, 0]
    return np.lexsort(words.T[::-1]) if bool((first[1:] == first[:-1]).any()) else order


def _leaves(lines: Lines) -> bytes:
    blocks = [_leaves_of(lines, k, min(k + _BLOCK, len(lines))) for k in range(0, len(lines), _BLOCK)]
    return b"".join(blocks)


def _leaves_of(lines: Lines, start: int, stop: int) -> bytes:
    """Return the commitments of some lines: their bytes side by side in a matrix, a hash for every row."""
    names, kind = _encoded(lines.ids[start:stop])
    lengths = np.char.str_len(names)
    fixed = SALT + 8 * len(VALUES) + 1
    rows = np.empty((stop - start, fixed + names.dtype.itemsize), dtype=np.uint8)
    salts = np.frombuffer(lines.salts, dtype=np.uint8).reshape(-1, SALT)[start:stop]
    packed = lines.values[start:stop].astype(">f8").view(np.uint8)
    rows[:, :SALT] = salts
    rows[:, SALT : fixed - 1] = packed
    rows[:, fixed - 1] = kind
    rows[:, fixed:] = names.view(np.uint8).reshape(stop - start, -1)
    starts = np.arange(stop - start) * rows.shape[1]
    return _hashes(_LEAF, rows.reshape(-1).data, starts.tolist(), (starts + fixed + lengths).tolist())


def _hashes(prefix: bytes, data: memoryview | bytes, starts: Iterable[int], ends: Iterable[int]) -> bytes:
    """Return the hashes of the prefix with each stretch of the data, one after the other."""
    begun = hashlib.sha256(prefix)  # copying a begun hash is faster than beginning one
    found = []
    for start, end in zip(starts, ends, strict=True):
        hashing = begun.copy()
        hashing.update(data[start:end])
        found.append(hashing.digest())
    return b"".join(found)


def _encoded(ids: npt.NDArray[Any]) -> tuple[npt.NDArray[np.bytes_], int]:
    """Return ids as bytes, and a letter that tells the number 1 from the text "1"."""
    if ids.dtype.kind != "U":
        return ids.astype(np.bytes_), ord("n")
    try:
        return np.char.encode(ids, "utf-8"), ord("t")
    except UnicodeEncodeError:
        raise InvalidInput("expected ids that can be written in UTF-8; some cannot.") from None


def _next_level(level: bytes) -> bytes:
    step = ARITY * _HASH
    starts = range(0, len(level), step)
    return _hashes(_NODE, level, starts, (start + step for start in starts))
