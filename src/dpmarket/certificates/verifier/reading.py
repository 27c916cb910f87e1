"""Bytes to plain data: canonical JSON (RFC 8785), so that every changed byte is seen, of known layout.

Files are untrusted: sizes are bounded before anything is built. All numbers are doubles; whole numbers
that a double may not hold are texts.
"""

from __future__ import annotations

import json
import math
import os
import re
from binascii import unhexlify
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from json.encoder import encode_basestring
from typing import Any

from .verdicts import PARTS, Broken

MOST_BODY = 8 << 20
MOST_RECEIPT = 1 << 20
_START, _OPENING, _BETWEEN, _CLOSING = b'{"body":', b'"commitments":[\n"', b'",\n"', b'"]}\n'
_LARGEST, _MOST_KNOTS, _DEEPEST = 1e15, 5_000, 100
_HASH, _WHOLE = re.compile("[0-9a-f]{64}"), re.compile("0|-?[1-9][0-9]{0,98}")
_SHAPES = {
    name: {part.split()[0].rstrip("?"): part.split() for part in parts.split(",")}
    for name, _, parts in (line.partition(":") for line in PARTS)
}
LINE = tuple(_SHAPES["line"])


def read(certificate: Any, *, first_line_only: bool) -> tuple[bytes, bytes | None]:
    """Return a certificate's body as bytes, and what comes after the first line; None: that was not read."""
    if isinstance(certificate, str | os.PathLike):
        with open(certificate, "rb") as file:
            line, rest = file.readline(MOST_BODY + 1), None if first_line_only else file.read()
    else:
        data = bytes(certificate)
        end = data.find(b"\n", 0, MOST_BODY) + 1
        line, rest = data[:end], data[end:] if not first_line_only or len(data) > end else None
    if not line.startswith(_START) or not line.endswith(b",\n") or len(line) > MOST_BODY:
        raise Broken("this is not a certificate: expected its first line to have the body")
    return line[len(_START) : -len(b",\n")], rest


def leaves_of(rest: bytes) -> bytes:
    """Return the commitments, 32 bytes each, from what comes after a certificate's first line."""
    count, left = divmod(len(rest) - len(_OPENING), 68)  # 64 digits each, and four bytes after them
    digits = rest[len(_OPENING) : -len(_CLOSING)].replace(_BETWEEN, b"")
    try:
        leaves = unhexlify(digits)
    except ValueError:
        leaves = b""
    ends = [rest[len(_OPENING) + k :: 68] for k in (64, 67)] == [b'"' * count, b'"' * (count - 1) + b"\n"]
    framed = ends and not left and rest.startswith(_OPENING) and rest.endswith(_CLOSING)
    if not framed or not len(leaves) == 32 * count > 0 or digits != digits.lower():
        raise Broken("the commitments are not written in the one canonical way")
    return leaves


def parsed(data: bytes, kind: str, most: int) -> dict[str, Any]:
    """Return the object of a kind that a canonical JSON text has: the one text of its value."""
    value = loaded(data, kind, most)
    if not is_canonical(value, data):
        raise Broken(f"the {kind} is not written in the one canonical way")
    refuse_misfit(value, kind)
    return value


def is_canonical(value: Any, data: bytes) -> bool:
    """Whether a text is the one of its value."""
    try:
        return canonical(value).encode() == data
    except ValueError:
        return False


def loaded(data: bytes, kind: str, most: int) -> dict[str, Any]:
    """Return the object that a JSON text has, however it is written."""
    if len(data) > most:
        raise Broken(f"the {kind} is larger than any of its kind")
    try:
        value = json.loads(data.decode(), parse_constant=_refuse, parse_int=float)
    except (ValueError, RecursionError):
        raise Broken(f"the {kind} is not JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise Broken(f"the {kind} is not a JSON object")
    return value


def only_line(data: bytes) -> bytes:
    """Return a file's only line, without its end."""
    if not data.endswith(b"\n"):
        raise Broken("expected a file that ends with its only line")
    return data[:-1]


def canonical(value: Any, room: int = _DEEPEST) -> str:
    """Return the canonical JSON of plain data that is not nested too deeply."""
    if room == 0:
        raise ValueError
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        pairs = (f"{encode_basestring(name)}:{canonical(value[name], room - 1)}" for name in names)
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(one, room - 1) for one in value) + "]"
    if isinstance(value, float):
        return number_text(value)
    return {None: "null", True: "true", False: "false"}[value]


def number_text(value: float) -> str:
    """Return a number as ECMAScript writes it: plain digits from 1e-6 to 1e21, an exponent beyond."""
    if not math.isfinite(value):
        raise ValueError
    short = repr(value)
    if value == 0.0 or "e" not in short:
        return "0" if value == 0.0 else short.removesuffix(".0")
    digits, _, power = short.replace(".", "").lstrip("-").partition("e")
    sign, point = "-" * (value < 0.0), int(power) + 1
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def refuse_misfit(value: Any, kind: str) -> None:
    """Refuse what is not of a kind of the notation, and name the innermost part that is not."""
    place = _misfit(kind)(value)
    if place is not None:
        where = f"at {place.lstrip('.')} " if place else ""
        raise Broken(f"the {kind} does not have {where}the parts, of the types, that this program knows")


@cache
def _misfit(kind: str) -> Callable[[Any], str | None]:
    """Return what finds the innermost place at which a value is not of a type; None: the value fits."""
    if kind.endswith("?"):
        inner = _misfit(kind[:-1])
        return lambda value: None if value is None else inner(value)
    if kind[0] in "[{<":
        return lambda value: _misfit_of_many(value, kind[0], _misfit(kind[1:-1]))
    if "|" in kind:
        options = [_misfit(one) for one in kind.split("|")]
        return lambda value: _deepest([option(value) for option in options])
    if kind in _SHAPES:
        return lambda value: _misfit_of_object(value, _SHAPES[kind])
    fits = _test(kind)
    return lambda value: None if fits(value) else ""


def _deepest(places: Sequence[str | None]) -> str | None:
    return None if None in places else max(filter(None, places), key=len, default="")


def _misfit_of_many(value: Any, bracket: str, inner: Callable[[Any], str | None]) -> str | None:
    if type(value) is not (dict if bracket == "<" else list):
        return ""
    pairs: Any = value.items() if type(value) is dict else enumerate(value)
    for name, one in pairs:
        place = inner(one)
        if place is not None:
            return f".{name}{place}"
    return "" if bracket == "{" and len(set(map(canonical, value))) < len(value) else None


def _misfit_of_object(value: Any, shape: dict[str, list[str]]) -> str | None:
    if type(value) is not dict or not value.keys() <= shape.keys():
        return ""
    for name, (written, kind) in shape.items():
        place = _misfit(kind)(value[name]) if name in value else None if written != name else ""
        if place is not None:
            return f".{name}{place}"
    return None


def _test(kind: str) -> Callable[[Any], bool]:
    """Return the test of a type that has no parts."""
    if kind[0] == "'":
        return lambda value: type(value) is str and value == kind[1:-1].replace("_", " ")
    if ".." in kind:
        low, high = (2.0 ** int(end[2:]) if end[:2] == "2^" else float(end) for end in kind.split(".."))
        any_number = kind[:2] != "2^"
        return lambda value: (
            type(value) is float and low <= value <= high and (any_number or math.frexp(value)[0] == 0.5)
        )
    if ":" in kind:
        least, most = map(float, kind.split(":"))
        return lambda value: type(value) is float and least <= value <= most and value.is_integer()
    return _TESTS[kind]


def _rises(value: Any) -> bool:
    numbers = type(value) is list and len(value) >= 2 and all(type(number) is float for number in value)
    return numbers and all(low < high for low, high in pairwise(value))


_TESTS: dict[str, Callable[[Any], bool]] = {
    "number": lambda value: type(value) is float,
    "positive": lambda value: type(value) is float and 1e-300 <= value <= 1e100,
    "portion": lambda value: type(value) is float and 0.0 < value < 1.0,
    "text": lambda value: type(value) is str,
    "truth": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "hash": lambda value: type(value) is str and _HASH.fullmatch(value) is not None,
    "whole": lambda value: type(value) is str and _WHOLE.fullmatch(value) is not None,
    "pair": lambda value: type(value) is list and [type(one) for one in value] == [float, float],
    "rising": _rises,
    "knots": lambda value: (
        _rises(value) and value[0] >= 0.0 and value[-1] <= _LARGEST and len(value) <= _MOST_KNOTS
    ),
}


def _refuse(constant: str) -> None:
    raise ValueError(constant)
