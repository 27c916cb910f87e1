"""Turn bytes into plain data: one canonical text for every value, so that every changed byte is seen.

Whoever wrote a file may wish the reader harm. So sizes, depth and numbers are bounded before anything is
built.
"""

from __future__ import annotations

import json
import os
import re
from binascii import unhexlify
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from .verdicts import Broken

MOST_BODY = 8 << 20
MOST_RECEIPT = 1 << 20
_MOST_LINE = 4 << 10  # bytes of the openings for one seller
_DEPTH = 24
_CONTAINERS = 10_000
_DIGITS = 40
_HASH = re.compile("[0-9a-f]{64}")
# A whole text, closed or not, or what opens a list or an object: nothing is ever looked at twice.
_TEXT_OR_OPENING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]', re.DOTALL)
_QUOTE = ord(b'"')
_START, _OPENING, _BETWEEN, _CLOSING = b'{"body":', b'"commitments":[\n"', b'",\n"', b'"]}\n'


@dataclass(frozen=True)
class File:
    """A certificate's body as bytes, and what comes after the first line; None where that was not read."""

    body: bytes
    rest: bytes | None


def read(certificate: Any, *, first_line_only: bool) -> File:
    """Read a certificate: a path, bytes, or anything with ``bytes(certificate)``.

    Raises
    ------
    Broken
        If the first line holds no body, or is longer than any body.
    OSError
        If a path cannot be read.
    """
    if isinstance(certificate, str | os.PathLike):
        with open(certificate, "rb") as file:
            return _from_file(file, first_line_only=first_line_only)
    data = bytes(certificate)
    end = data.find(b"\n", 0, MOST_BODY) + 1
    rest = data[end:] if not first_line_only or len(data) > end else None
    return File(_body(data[:end]), rest)


def leaves_of(rest: bytes) -> bytes:
    """Return the commitments, 32 bytes each, from what comes after a certificate's first line.

    Raises
    ------
    Broken
        If they are not whole, or not written in the one way.
    """
    # After the opening every commitment takes 68 bytes: 64 digits and four more, which the last closes with.
    count, left = divmod(len(rest) - len(_OPENING), 68)
    if not rest.startswith(_OPENING) or count < 1 or left:
        raise Broken("the commitments are not whole")
    rows = np.frombuffer(rest, dtype=[("digits", "V64"), ("after", "V4")], offset=len(_OPENING))
    digits = rows["digits"].tobytes()
    framed = rows["after"].tobytes() == _BETWEEN * (count - 1) + _CLOSING
    if not framed or any(capital in digits for capital in b"ABCDEF"):
        raise Broken("the commitments are not written in the one canonical way")
    try:
        return unhexlify(digits)
    except ValueError:
        raise Broken("the commitments are not written in the one canonical way") from None


def parsed(data: bytes, what: str, most: int) -> dict[str, Any]:
    """Return the object that canonical JSON text holds.

    Raises
    ------
    Broken
        If it is longer, deeper or in more parts than such a text can be, or not the one text of its value.
    """
    if len(data) > most or _has_many_containers(data):
        raise Broken(f"{what} is larger than any of its kind")
    try:
        value = json.loads(data.decode(), parse_constant=_refuse, parse_int=_whole)
        if not isinstance(value, dict) or _deeper_than(value, _DEPTH):
            raise Broken(f"{what} is not an object of few levels")
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        same = text.encode() == data
    except (ValueError, RecursionError):
        raise Broken(f"{what} is not JSON in UTF-8") from None
    if not same:
        raise Broken(f"{what} is not written in the one canonical way")
    return value


def most_openings(sellers: int) -> int:
    """Return how many bytes the openings of so many sellers may have."""
    return MOST_RECEIPT + _MOST_LINE * sellers


def only_line(data: bytes) -> bytes:
    """Return a file's only line, without its end."""
    if not data.endswith(b"\n"):
        raise Broken("expected a file that ends with its only line")
    return data[:-1]


def hash_of(digits: Any) -> bytes:
    """Return 32 bytes from 64 hexadecimal digits, and from no other text."""
    if not isinstance(digits, str) or not _HASH.fullmatch(digits):
        raise Broken("expected 64 hexadecimal digits for every salt and every hash")
    return bytes.fromhex(digits)


def _from_file(file: BinaryIO, *, first_line_only: bool) -> File:
    body = _body(file.readline(MOST_BODY + 1))
    return File(body, None if first_line_only else file.read())


def _body(line: bytes) -> bytes:
    if not line.startswith(_START) or not line.endswith(b",\n") or len(line) > MOST_BODY:
        raise Broken("this is not a certificate: expected its first line to hold the body")
    return line[len(_START) : -len(b",\n")]


def _has_many_containers(data: bytes) -> bool:
    """Whether more lists and objects open than any of our files has; what stands in texts opens none."""
    if data.count(b"[") + data.count(b"{") <= _CONTAINERS:
        return False
    openings = (found for found in _TEXT_OR_OPENING.finditer(data) if data[found.start()] != _QUOTE)
    return any(True for _ in islice(openings, _CONTAINERS, None))


def _deeper_than(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [inner for part in parts for inner in part if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError
    return int(digits)


def _refuse(constant: str) -> None:
    raise ValueError(constant)
