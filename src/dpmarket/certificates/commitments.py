r"""Turn sellers' lines into salted commitments, and those into a tree with short proofs of membership.

A line is (id, promise, payment, spent epsilon, weight, whether the seller withdrew, how many quotes it adds
up). Its commitment is

.. math:: \mathrm{SHA256}(\text{"dpmarket-line-2"} \,\|\, \text{salt} \,\|\, \text{four big-endian doubles}
          \,\|\, \text{"w" or "k"} \,\|\, \text{quotes in four bytes} \,\|\, \text{kind of id}
          \,\|\, \text{id in UTF-8}),

with 32 random bytes of salt for every line, so that nobody can try out lines. Commitments are sorted, which
gives them an order that says nothing about the sellers. Eight neighbours at a time are hashed into a node of
the next level (prefix "dpmarket-node-1") until one is left; the root is the hash of "dpmarket-root-1", the
number of lines as eight big-endian bytes, and that last node.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmarket.arrays import BoolArray, FloatArray, IntArray, read_only
from dpmarket.errors import EntropyUnavailable, InvalidInput

SALT = 32
ARITY = 8
_LINE, _NODE, _ROOT = b"dpmarket-line-2", b"dpmarket-node-1", b"dpmarket-root-1"
_HASH = 32
_BLOCK = 4_096
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
    withdrew
        Who was quoted this and left, shape (sellers,).
    quotes
        How many quotes each line adds up, shape (sellers,).
    """

    ids: npt.NDArray[Any]
    values: FloatArray
    salts: bytes
    withdrew: BoolArray
    quotes: IntArray

    def __post_init__(self) -> None:
        if self.ids.dtype.kind not in "iuU" or self.ids.ndim != 1:
            raise InvalidInput("expected ids to be a vector of texts or whole numbers.")
        sellers = self.ids.size
        if self.values.shape != (sellers, len(VALUES)) or len(self.salts) != SALT * sellers:
            raise InvalidInput(f"expected four values and {SALT} bytes of salt for each of {sellers} ids.")
        if self.withdrew.shape != (sellers,) or self.withdrew.dtype != np.bool_:
            raise InvalidInput(f"expected true or false for each of {sellers} ids.")
        counted = (self.quotes >= 1) & (self.quotes < 2**31)
        if self.quotes.shape != (sellers,) or not bool(counted.all()):
            raise InvalidInput(f"expected at least one quote for each of {sellers} ids.")
        for array in (self.ids, self.values, self.withdrew, self.quotes):
            read_only(array)

    def __len__(self) -> int:
        return int(self.ids.size)

    def line(self, k: int) -> dict[str, Any]:
        """Return line ``k`` as plain data, without its salt."""
        values = dict(zip(VALUES, self.values[k].tolist(), strict=True))
        return {
            "id": self.ids[k].item(),
            **values,
            "withdrew": bool(self.withdrew[k]),
            "quotes": int(self.quotes[k]),
        }

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
        return sha256(_ROOT + count.to_bytes(8, "big") + self.levels[-1]).digest()

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
    leaves = np.frombuffer(_leaves(lines), dtype=f"V{_HASH}")
    order = _increasing(leaves)
    positions = np.empty(len(lines), dtype=np.int64)
    positions[order] = np.arange(len(lines))
    levels = [leaves[order].tobytes()]
    while len(levels[-1]) > _HASH:
        levels.append(_next_level(levels[-1]))
    return Tree(tuple(levels), read_only(positions))


def _increasing(leaves: npt.NDArray[np.void]) -> IntArray:
    """Return the order that sorts hashes as big-endian numbers: by eight bytes, by all where these tie."""
    words = leaves.view(">u8").reshape(-1, _HASH // 8)
    keys = words[:, 0].astype(np.uint64)
    order = np.argsort(keys)
    first = keys[order]
    return np.lexsort(words.T[::-1]) if bool((first[1:] == first[:-1]).any()) else order


def _leaves(lines: Lines) -> bytes:
    """Return the commitments. Blocks are short, so that what is hashed is still in the processor's cache."""
    layout = np.dtype(
        [
            ("prefix", f"V{len(_LINE)}"),
            ("salt", f"V{SALT}"),
            ("values", ">f8", len(VALUES)),
            ("state", "V1"),
            ("quotes", ">u4"),
        ]
    )
    salts = np.frombuffer(lines.salts, dtype=f"V{SALT}")
    found: list[bytes] = []
    for start in range(0, len(lines), _BLOCK):
        block = slice(start, start + _BLOCK)
        heads = np.empty(salts[block].size, dtype=layout)
        heads["prefix"], heads["salt"], heads["values"] = _LINE, salts[block], lines.values[block]
        heads["state"] = np.array([b"k", b"w"], dtype="V1")[lines.withdrew[block].astype(np.int64)]
        heads["quotes"] = lines.quotes[block]
        texts = zip(heads.view(f"V{layout.itemsize}").tolist(), _encoded(lines.ids[block]), strict=True)
        found.append(b"".join([sha256(head + name).digest() for head, name in texts]))
    return b"".join(found)


def _encoded(ids: npt.NDArray[Any]) -> list[bytes]:
    """Return ids as bytes after a letter that tells the number 1 from the text "1"."""
    if ids.dtype.kind != "U":
        return [b"n%d" % number for number in ids.tolist()]
    try:
        return [b"t" + text.encode() for text in ids.tolist()]
    except UnicodeEncodeError:
        raise InvalidInput("expected ids that can be written in UTF-8; some cannot.") from None


def _next_level(level: bytes) -> bytes:
    step = ARITY * _HASH
    return b"".join([sha256(_NODE + level[k : k + step]).digest() for k in range(0, len(level), step)])
