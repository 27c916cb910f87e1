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
from typing import Any

import numpy as np
import numpy.typing as npt

from dpmarket import checks
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
        *((name, ">f8") for name in VALUES),
        ("withdrew", "u1"),
        ("part", ">u2"),
        ("group", ">u2"),
        ("rules", f"V{_HASH}"),
    ]
)


@dataclass(frozen=True, eq=False, repr=False)
class Sellers:
    """Everybody a mechanism decided about, column by column; confidential."""

    ids: Sequence[str]  # all different: those that were hashed into parts, if sellers were split
    epsilons: FloatArray  # what each was quoted, as the payments
    payments: FloatArray | IntArray  # whole minor units
    used: FloatArray  # epsilon that the release used of each; 0 for sellers without a record in it
    weights: FloatArray  # of training, whole weights of a descent, or what statistics spent
    withdrew: BoolArray | None = None  # who left after the quote and before the release: nothing is owed
    parts: IntArray | None = None  # by which of the market's ``prices`` each was quoted; None: the first
    groups: IntArray | None = None  # and by which of its ``groups``

    def __post_init__(self) -> None:
        if set(map(type, self.ids)) != {str}:
            raise InvalidInput("expected ids to be texts, at least one.")
        if len(set(self.ids)) < len(self.ids):
            raise InvalidInput("expected ids that are all different.")
        for name in ("epsilons", "payments", "used", "weights"):
            values = checks.non_negative_vector(name, getattr(self, name))
            object.__setattr__(self, name, values)
        for name, kind in (("withdrew", np.bool_), ("parts", np.int64), ("groups", np.int64)):
            given = getattr(self, name)
            found = np.zeros(len(self)) if given is None else np.asarray(given)
            object.__setattr__(self, name, found.astype(kind))
        if any(values.shape != (len(self),) for values in self.columns().values()):
            raise InvalidInput(f"expected values of {len(self)} sellers, got another number.")
        if not bool((self.payments == np.floor(self.payments)).all()):
            raise InvalidInput("expected payments in whole minor units.")

    def __len__(self) -> int:
        return len(self.ids)

    def columns(self) -> dict[str, Any]:
        """Return the parts of everybody's lines by name, as arrays, without ids."""
        values = (self.epsilons, self.payments, self.used, self.weights)
        places = {"withdrew": self.withdrew, "part": self.parts, "group": self.groups}
        return dict(zip(VALUES, values, strict=True)) | places


def fresh_salts(lines: int) -> bytes:
    """Return secret random salts for this many lines, from the operating system."""
    try:
        return os.urandom(SALT * lines)
    except (NotImplementedError, OSError):
        raise EntropyUnavailable("the operating system gave no random bits for the salts.") from None


@dataclass(frozen=True, eq=False)
class Tree:
    """Sorted leaves and the levels above them; a node without a sibling moves up as it is."""

    levels: tuple[bytes, ...]  # hashes of 32 bytes, one after the other: leaves first, the root last
    places: IntArray  # of each line among the sorted leaves

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


def commit(lines: Sellers, rules: str | None, salts: bytes) -> Tree:
    """Return the tree of the lines' commitments; ``rules`` is the digest that everybody agreed to."""
    leaves = np.frombuffer(b"".join(_leaves(lines, rules, salts)), dtype=f"V{_HASH}")
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


def _leaves(lines: Sellers, rules: str | None, salts: bytes) -> Iterator[bytes]:
    """Yield the commitments of a few thousand lines at a time."""
    columns = lines.columns() | {"salt": np.frombuffer(salts, dtype=f"V{SALT}")}
    agreed = np.void(bytes(_HASH) if rules is None else bytes.fromhex(rules))
    for start in range(0, len(lines), _BLOCK):
        ids = lines.ids[start : start + _BLOCK]
        heads = np.zeros(len(ids), dtype=_HEAD)
        heads["rules"] = agreed
        for name, values in columns.items():
            heads[name] = values[start : start + _BLOCK]
        states = zip(heads.view(f"V{_HEAD.itemsize}").tolist(), _encoded(ids), strict=True)
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
