"""Canonical JSON by RFC 8785: one text for every value, so that a digest stands for the value itself.

Keys are sorted by UTF-16 code units, nothing is written between tokens, and numbers are doubles in the
shortest form that ECMAScript writes. Whole numbers that a double may not hold are texts.
"""

from __future__ import annotations

import hashlib
import math
from json.encoder import encode_basestring
from typing import Any

from dpmarket.errors import InvalidInput

_MOST_DIGITS = 21  # before ECMAScript writes an exponent
_MOST_ZEROS = 6


def canonical(value: Any) -> bytes:
    """Return the canonical text of plain data, in UTF-8."""
    try:
        return _text(value).encode()
    except UnicodeEncodeError:
        raise InvalidInput("expected texts that can be written in UTF-8; some cannot.") from None


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON asks for escapes of controls only; ECMAScript writes the same ones.
        return encode_basestring(value)
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_text(name)}:{_text(value[name])}" for name in names) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_text, value)) + "]"
    raise InvalidInput(f"expected plain data for canonical JSON, got {type(value).__name__}.")


def number_text(value: float) -> str:
    """Return a number as ECMAScript writes it."""
    number = float(value)
    if not math.isfinite(number) or number != value:
        raise InvalidInput("expected numbers that a double holds: write larger whole numbers as texts.")
    if number == 0.0:
        return "0"
    short = repr(number)
    if "e" not in short:
        return short.removesuffix(".0")
    mantissa, _, power = short.lstrip("-").partition("e")
    digits = mantissa.replace(".", "")
    sign, before = "-" * (number < 0.0), int(power) + 1  # digits before the point
    if len(digits) <= before <= _MOST_DIGITS:
        return sign + digits.ljust(before, "0")
    if -_MOST_ZEROS < before <= 0:
        return f"{sign}0.{'0' * -before}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if before > 0 else '-'}{abs(before - 1)}"
