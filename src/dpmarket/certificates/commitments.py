r"""Salted commitments to sellers' lines, and a binary Merkle tree with short proofs of membership (RFC 9162).

A line's commitment is a leaf of the tree,

.. math:: \mathrm{SHA256}(\mathtt{00} \,\|\, \text{salt} \,\|\, \text{epsilon, payment, used, weight}
          \,\|\, \text{withdrew} \,\|\, \text{part} \,\|\, \text{group} \,\|\, \text{rules} \,\|\, \text{id}),

with 32 random bytes of salt for every line, so that nobody can try out lines; four big-endian doubles; one
byte that is 1 for sellers who withdrew; part and group in two bytes each; the digest of the rules that the
seller agreed to (zeros if there are none); and the id in UTF-8. Leaves are sorted, so that their order says
nothing about sellers. A node is the hash of a byte 1 and its two children.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from dpmarket.arrays import BoolArray, FloatArray, IntArray, read_only
from dpmarket.errors import EntropyUnavailable, InvalidInput

SALT = 32
VALUES = ("epsilon", "payment", "used", "weight")
_HASH = 32
_BLOCK = 4_096
_HEAD = np.dtype(
    [
        ("zero", "u1"),  # of a leaf: nodes begin with 1
        ("salt", f"V{SALT}"),
        ("values", ">f8", len(VALUES)),
        ("withdrew", "u1"),
        ("part", ">u2"),
        ("group", ">u2"),
        ("rules", f"V{_HASH}"),
    ]
)


@dataclass(frozen=True, eq=False, repr=False)
class Lines:
    """What is certified about each seller, and the salts that hide it. Confidential.

    Attributes
    ----------
    ids
        Texts, all different.
    values
        Epsilon, payment in minor units, epsilon used and weight of each, shape (sellers, 4).
    withdrew
        Which sellers were quoted this and left, shape (sellers,).
    parts, groups
        By which prices each was quoted, shape (sellers,).
    rules
        Digest of the rules that each agreed to, in hexadecimal digits; None for sellers who agreed to none.
    salts
        32 bytes for each, one after the other.
    """

    ids: Sequence[str]
    values: FloatArray
    withdrew: BoolArray
    parts: IntArray
    groups: IntArray
    rules: Sequence[str | None]
    salts: bytes

    def __len__(self) -> int:
        return len(self.ids)

    def line(self, k: int) -> dict[str, object]:
        """Return line ``k`` as plain data, without its salt."""
        return {
            "id": self.ids[k],
            **dict(zip(VALUES, self.values[k].tolist(), strict=True)),
            "withdrew": bool(self.withdrew[k]),
            "part": int(self.parts[k]),
            "group": int(self.groups[k]),
            "rules": self.rules[k],
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
    """Sorted leaves and the levels above them.

    Attributes
    ----------
    levels
        Hashes of every level, 32 bytes each, one after the other: leaves first, the root last. A node without
        a sibling moves up as it is.
    places
        Place of each line among the sorted leaves.
    """

    levels: tuple[bytes, ...]
    places: IntArray

    @property
    def leaves(self) -> bytes:
        """The sorted leaves, 32 bytes each."""
        return self.levels[0]

    @property
    def root(self) -> str:
        """The hash that stands for all lines, in hexadecimal digits."""
        return self.levels[-1].hex()

    def path(self, place: int) -> list[str]:
        """Return the siblings from a leaf to the root: an inclusion proof of RFC 9162, section 2.1.3."""
        found = []
        for level in self.levels[:-1]:
            sibling = _HASH * (place ^ 1)
            if sibling < len(level):
                found.append(level[sibling : sibling + _HASH].hex())
            place //= 2
        return found


def commit(lines: Lines) -> Tree:
    """Return the tree of the lines' commitments."""
    leaves = np.frombuffer(b"".join(_leaves(lines)), dtype=f"V{_HASH}")
    order = _increasing(leaves)
    places = np.empty(len(lines), dtype=np.int64)
    places[order] = np.arange(len(lines))
    levels = [leaves[order].tobytes()]
    while len(levels[-1]) > _HASH:
        levels.append(_next_level(levels[-1]))
    return Tree(tuple(levels), read_only(places))


def _increasing(leaves: npt.NDArray[np.void]) -> IntArray:
    """Return the order that sorts hashes as big-endian numbers: by eight bytes, by all where these tie."""
    words = leaves.view(">u8").reshape(-1, _HASH // 8)
    keys = words[:, 0].astype(np.uint64)
    order = np.argsort(keys)
    first = keys[order]
    return np.lexsort(words.T[::-1]) if bool((first[1:] == first[:-1]).any()) else order


def _leaves(lines: Lines) -> Iterator[bytes]:
    """Yield the commitments of a few thousand lines at a time."""
    salts = np.frombuffer(lines.salts, dtype=f"V{SALT}")
    agreed = {text: bytes(_HASH) if text is None else bytes.fromhex(text) for text in set(lines.rules)}
    for start in range(0, len(lines), _BLOCK):
        block = slice(start, start + _BLOCK)
        heads = np.zeros(salts[block].size, dtype=_HEAD)
        heads["salt"], heads["values"] = salts[block], lines.values[block]
        heads["withdrew"], heads["part"] = lines.withdrew[block], lines.parts[block]
        heads["group"] = lines.groups[block]
        one = list(agreed.values())  # nearly always all agreed to the same
        digests = one[0] if len(one) == 1 else b"".join(map(agreed.__getitem__, lines.rules[block]))
        heads["rules"] = np.frombuffer(digests, dtype=f"V{_HASH}")
        states = zip(heads.view(f"V{_HEAD.itemsize}").tolist(), _encoded(lines.ids[block]), strict=True)
        yield b"".join([sha256(head + name).digest() for head, name in states])


def _encoded(names: Sequence[str]) -> list[bytes]:
    try:
        return [name.encode() for name in names]
    except UnicodeEncodeError:
        raise InvalidInput("expected ids that can be written in UTF-8; some cannot.") from None


def _next_level(level: bytes) -> bytes:
    even = len(level) - len(level) % (2 * _HASH)
    node = sha256(b"\x01").copy
    found = []
    for (pair,) in struct.iter_unpack(f"{2 * _HASH}s", level[:even]):
        state = node()
        state.update(pair)
        found.append(state.digest())
    found.append(level[even:])
    return b"".join(found)
