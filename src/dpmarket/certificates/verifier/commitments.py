"""Check commitments: from a line to its leaf, from a leaf to the root.

A leaf is the SHA-256 of a prefix, the salt, the line's numbers as big-endian doubles, whether
the seller withdrew and how many quotes the line adds up, and the id. Eight neighbours are hashed into a node;
the root covers the number of lines.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .constants import LARGEST_NUMBER, MOST_QUOTES
from .layout import VALUES, Body
from .reading import hash_of
from .verdicts import FAILS, NOT_MADE, Broken, Check, judged

_ARITY = 8
_LINE = b"dpmarket-line-2"


def leaf_of(line: Mapping[str, Any], salt: str) -> bytes:
    """Return the commitment to a line, whose numbers must be finite and at least 0."""
    numbers = [line[value] for value in VALUES]
    if not all(0.0 <= number <= LARGEST_NUMBER for number in numbers):
        raise Broken("a line's numbers must be at least 0, and not beyond all bounds")
    if not 1 <= line["quotes"] <= MOST_QUOTES:
        raise Broken("a line adds up at least one quote, and not beyond all bounds")
    return hashed_line(hash_of(salt), numbers, state_of(line["withdrew"], line["quotes"]), line["id"])


def state_of(withdrew: object, quotes: int) -> bytes:
    """Return whether a line's seller withdrew, and how many quotes it adds up, as bytes."""
    return (b"w" if withdrew else b"k") + quotes.to_bytes(4, "big")


def hashed_line(salt: bytes, numbers: Sequence[float], state: bytes, name: str | int) -> bytes:
    """Return the hash of a line that was checked before."""
    kind = b"t" + name.encode() if isinstance(name, str) else b"n%d" % name
    return hashlib.sha256(_LINE + salt + struct.pack(">4d", *numbers) + state + kind).digest()


def commitments_check(body: Body, leaves: bytes | None) -> Check:
    """Check that the commitments are as many as sellers, in order, and lead to the root."""
    name = "commitments"
    if leaves is None:
        return Check(name, NOT_MADE, "only the first line was read; the receipt's path leads to the root")
    count = len(leaves) // 32
    if count != body.totals.sellers:
        return Check(name, FAILS, "not one commitment for each seller")
    first = np.frombuffer(leaves, dtype=">u8")[::4].astype(np.uint64)
    tied = np.flatnonzero(first[1:] == first[:-1])  # as good as never: then all bytes are compared
    ordered = bool((first[1:] >= first[:-1]).all())
    if not ordered or any(leaves[32 * k : 32 * k + 32] >= leaves[32 * k + 32 : 32 * k + 64] for k in tied):
        return Check(name, FAILS, "not in increasing order, all different")
    level = leaves
    while len(level) > 32:
        level = b"".join([_node(level[k : k + 32 * _ARITY]) for k in range(0, len(level), 32 * _ARITY)])
    return judged(
        name, _root(level, count) == body.root, f"{count} lead to the root", "do not lead to the root"
    )


def climbs(body: Body, leaf: bytes, position: int, path: Sequence[Any]) -> bool:
    """Whether the path leads from this commitment at this position to the certificate's root."""
    count = body.totals.sellers
    if not 0 <= position < count:
        return False
    node, width, place = leaf, count, position
    for siblings in path:
        if not isinstance(siblings, list):
            return False
        first = place - place % _ARITY
        group = [hash_of(digits) for digits in siblings]
        if width <= 1 or len(group) + 1 != min(_ARITY, width - first):
            return False
        group.insert(place - first, node)
        node = _node(b"".join(group))
        place, width = place // _ARITY, -(-width // _ARITY)
    return width == 1 and bool(_root(node, count) == body.root)


def _node(group: bytes) -> bytes:
    return hashlib.sha256(b"dpmarket-node-1" + group).digest()


def _root(node: bytes, count: int) -> str:
    return hashlib.sha256(b"dpmarket-root-1" + count.to_bytes(8, "big") + node).hexdigest()
