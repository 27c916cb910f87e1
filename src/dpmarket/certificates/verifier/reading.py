"""Bytes to plain data: canonical JSON by RFC 8785, so that every changed byte is seen.

Files come from strangers: sizes are bounded before anything is built. All numbers are doubles; whole numbers
that a double may not hold are texts.
"""

from __future__ import annotations

import json
import math
import os
import re
from binascii import unhexlify
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, BinaryIO

from .verdicts import Broken

MOST_BODY = 8 << 20
MOST_RECEIPT = 1 << 20
_MOST_LINE = 4 << 10  # bytes of the openings for one seller
_CONTAINERS = 100_000
_HASH = re.compile("[0-9a-f]{64}")
# A whole text, closed or not, or what opens a list or an object: no byte is read twice.
_TEXT_OR_OPENING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]', re.DOTALL)
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
        If the first line has no body, or is longer than any body.
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
    framed = all(
        rest[len(_OPENING) + 64 + k :: 68] == _BETWEEN[k : k + 1] * (count - 1) + _CLOSING[k : k + 1]
        for k in range(4)
    )
    digits = rest[len(_OPENING) : -len(_CLOSING)].replace(_BETWEEN, b"")
    if not framed or any(capital in digits for capital in b"ABCDEF"):
        raise Broken("the commitments are not written in the one canonical way")
    try:
        return unhexlify(digits)
    except ValueError:
        raise Broken("the commitments are not written in the one canonical way") from None


def parsed(data: bytes, what: str, most: int) -> dict[str, Any]:
    """Return the object that a canonical JSON text has.

    Raises
    ------
    Broken
        If it is longer, deeper or in more parts than such a text can be, or not the one text of its value.
    """
    value = loaded(data, what, most)
    try:
        same = canonical(value).encode() == data
    except (ValueError, RecursionError):
        same = False
    if not same:
        raise Broken(f"{what} is not written in the one canonical way")
    return value


def loaded(data: bytes, what: str, most: int) -> dict[str, Any]:
    """Return the object that a JSON text has, however it is written."""
    if len(data) > most or _has_many_containers(data):
        raise Broken(f"{what} is larger than any of its kind")
    try:
        value = json.loads(data.decode(), parse_constant=_refuse, parse_int=float)
    except (ValueError, RecursionError):
        raise Broken(f"{what} is not JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise Broken(f"{what} is not a JSON object")
    return value


def most_openings(sellers: int) -> int:
    """Return how many bytes the openings of so many sellers may have."""
    return MOST_BODY + _MOST_LINE * sellers


def only_line(data: bytes) -> bytes:
    """Return a file's only line, without its end."""
    if not data.endswith(b"\n"):
        raise Broken("expected a file that ends with its only line")
    return data[:-1]


def hash_of(digits: Any) -> bytes:
    """Return 32 bytes from 64 hexadecimal digits, and from no other text."""
    if not is_hash(digits):
        raise Broken("expected 64 hexadecimal digits for every salt and every hash")
    return bytes.fromhex(digits)


def is_hash(digits: Any) -> bool:
    """Whether this is a text of 64 hexadecimal digits."""
    return isinstance(digits, str) and _HASH.fullmatch(digits) is not None


def _from_file(file: BinaryIO, *, first_line_only: bool) -> File:
    body = _body(file.readline(MOST_BODY + 1))
    return File(body, None if first_line_only else file.read())


def _body(line: bytes) -> bytes:
    if not line.startswith(_START) or not line.endswith(b",\n") or len(line) > MOST_BODY:
        raise Broken("this is not a certificate: expected its first line to have the body")
    return line[len(_START) : -len(b",\n")]


def _has_many_containers(data: bytes) -> bool:
    """Whether more lists and objects open than any of our files has; brackets in texts open none."""
    if data.count(b"[") + data.count(b"{") <= _CONTAINERS:
        return False
    openings = (found for found in _TEXT_OR_OPENING.finditer(data) if data[found.start()] != ord(b'"'))
    return any(True for _ in islice(openings, _CONTAINERS, None))


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def canonical(value: Any) -> str:
    """Return the canonical JSON of plain data."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{encode_basestring(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return number_text(value)
    return {None: "null", True: "true", False: "false"}[value]


def number_text(value: float) -> str:
    """Return a number as ECMAScript writes it: plain digits from 1e-6 to 1e21, an exponent beyond."""
    if not math.isfinite(value):
        raise ValueError
    if value == 0.0:
        return "0"
    short = repr(value)
    if "e" not in short:
        return short.removesuffix(".0")
    digits, _, power = short.replace(".", "").lstrip("-").partition("e")
    sign, point = "-" * (value < 0.0), int(power) + 1
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"
