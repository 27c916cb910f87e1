"""Hash many short texts with a secret key, in one pass over their bytes: SipHash-2-4.

The sum of the hashes does not depend on the order of the texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _rotated(value: Any, bits: Any) -> Any:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@njit(cache=True, nogil=True)
def _mixed(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = v2 + v3
    v3 = _rotated(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _rotated(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@njit(cache=True, nogil=True)
def _word(data: Any, position: Any, count: Any) -> Any:
    """Return up to eight bytes as a number, the first one lowest."""
    word = np.uint64(0)
    for k in range(count):
        word |= np.uint64(data[position + np.uint64(k)]) << np.uint64(8 * k)
    return word


@njit(cache=True, nogil=True)
def _last_word(data: Any, position: Any, count: Any) -> Any:
    """Return fewer than eight bytes as :func:`_word` does, all eight at once where they are there."""
    if position + np.uint64(8) <= np.uint64(data.size):
        return _word(data, position, 8) & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))
    return _word(data, position, count)


@njit(cache=True, nogil=True)
def siphash(data: Any, start: Any, end: Any, number: Any, key0: Any, key1: Any) -> Any:
    """Return the hash of bytes ``start`` to ``end`` followed by the eight bytes of a number.

    Parameters
    ----------
    data
        uint8, shape (n,).
    start, end
        Positions in it.
    number
        uint64.
    key0, key1
        uint64: the secret key.
    """
    v0 = key0 ^ np.uint64(0x736F6D6570736575)
    v1 = key1 ^ np.uint64(0x646F72616E646F6D)
    v2 = key0 ^ np.uint64(0x6C7967656E657261)
    v3 = key1 ^ np.uint64(0x7465646279746573)
    length = end - start
    position = np.uint64(start)
    for _ in range(length >> 3):
        word = _word(data, position, 8)
        v3 ^= word
        v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
        v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
        v0 ^= word
        position += np.uint64(8)
    # The number's bytes follow at once: some fill the text's last word, the others are in the last of all.
    rest = length & 7
    word = _last_word(data, position, rest) | (number << np.uint64(8 * rest))
    v3 ^= word
    v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    v0 ^= word
    word = np.uint64((length + 8) & 0xFF) << np.uint64(56)
    if rest:
        word |= number >> np.uint64(64 - 8 * rest)
    v3 ^= word
    v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _mixed(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@njit(cache=True, nogil=True)
def _spread(value: Any) -> Any:
    """Return a number all of whose bits depend on all bits of another (the last steps of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def add_hashes(data: Any, ends: Any, numbers: Any, key: Any, sums: Any) -> None:
    """Add the hashes of texts and the numbers beside them to ``sums``: as they are, and spread anew.

    Parameters
    ----------
    data
        uint8: all texts, one after the other.
    ends
        int64: where each ends in it.
    numbers
        uint64, as many as there are texts.
    key
        uint64, shape (3,): two for the hash, one for the second sum.
    sums
        uint64, shape (2,); changed. Sums are modulo 2**64.
    """
    start = 0
    key0, key1, key2 = key[0], key[1], key[2]
    one = other = np.uint64(0)
    for row in range(len(ends)):
        own = siphash(data, start, ends[row], numbers[row], key0, key1)
        one += own
        other += _spread(own ^ key2)
        start = ends[row]
    sums[0] += one
    sums[1] += other


@njit(cache=True, nogil=True)
def hashes(data: Any, ends: Any, numbers: Any, key0: Any, key1: Any, out: Any) -> None:
    """Write the hash of every text and the number beside it to ``out``."""
    start = 0
    for row in range(len(ends)):
        out[row] = siphash(data, start, ends[row], numbers[row], key0, key1)
        start = ends[row]
