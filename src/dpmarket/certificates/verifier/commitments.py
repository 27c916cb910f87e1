"""Check commitments: from a line to its leaf, from a leaf to the root of a binary Merkle tree (RFC 9162).

A leaf is the SHA-256 of a byte 0, the salt, the line's numbers as big-endian doubles, whether the seller
withdrew (one byte), part and group (two bytes each), the digest of the agreed rules (zeros: none), and the
id. A node is that of a byte 1 and its two children; a node without a sibling moves up as it is.
"""

from __future__ import annotations

import hashlib
import operator
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from .layout import VALUES, is_whole
from .market import LARGEST
from .reading import hash_of
from .verdicts import FAILS, SKIPPED, Broken, Check, judged


def leaf_of(line: Mapping[str, Any], salt: str) -> bytes:
    """Return the commitment to a line, whose numbers must be finite and at least 0."""
    numbers = [line[value] for value in VALUES]
    places = [line["part"], line["group"]]
    if not all(0.0 <= number <= LARGEST for number in numbers):
        raise Broken("a line's numbers must be at least 0, and not beyond all bounds")
    if not all(is_whole(place, 0, 2**16 - 1) for place in places):
        raise Broken("a line's part and group must be whole numbers")
    state = struct.pack(">4dBHH", *numbers, line["withdrew"], *map(int, places))
    rules = bytes(32) if line["rules"] is None else hash_of(line["rules"])
    return hashlib.sha256(b"\x00" + hash_of(salt) + state + rules + line["id"].encode()).digest()


def commitments_check(body: Mapping[str, Any], leaves: bytes | None) -> Check:
    """Check that the commitments are as many as sellers, in order, and lead to the root."""
    name = "commitments"
    if leaves is None:
        return Check(name, SKIPPED, "only the first line was read; the receipt's path leads to the root")
    count = len(leaves) // 32
    if count != body["totals"]["sellers"]:
        return Check(name, FAILS, "not one commitment for each seller")
    rows = [row for (row,) in struct.iter_unpack("32s", leaves)]
    if any(map(operator.ge, rows, rows[1:])):
        return Check(name, FAILS, "not in increasing order, all different")
    level, node = leaves, hashlib.sha256(b"\x01").copy
    while len(level) > 32:
        even, found = len(level) - len(level) % 64, []
        for (pair,) in struct.iter_unpack("64s", level[:even]):
            state = node()
            state.update(pair)
            found.append(state.digest())
        level = b"".join(found) + level[even:]
    return judged(name, level.hex() == body["root"], f"{count} lead to the root", "do not lead to the root")


def climbs(body: Mapping[str, Any], leaf: bytes, index: float, path: Sequence[str]) -> bool:
    """Whether an inclusion proof leads from this leaf at this index to the certificate's root."""
    size = body["totals"]["sellers"]
    if not is_whole(index, 0, int(size) - 1):
        return False
    place, last, node, siblings = int(index), int(size) - 1, leaf, list(path)
    while last > 0:
        if place % 2 == 1 or place < last:  # else the node has no sibling
            if not siblings:
                return False
            other = hash_of(siblings.pop(0))
            pair = other + node if place % 2 else node + other
            node = hashlib.sha256(b"\x01" + pair).digest()
        place, last = place // 2, last // 2
    return not siblings and node.hex() == body["root"]
