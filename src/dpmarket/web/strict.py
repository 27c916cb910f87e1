"""Refuse bodies that are JSON to some readers only: doubled keys, NaN, UTF-16, depth, endless numbers.

What is refused is named by a word; nothing of the body is quoted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_DEPTH = 24
_DIGITS = 40
# A string, or the beginning of one that does not end: what is passed over is never looked at again.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


class NotStrict(Exception):
    """A body that is not strict JSON; ``kind`` says why in a word or two."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def parse_strictly(body: bytes) -> Any:
    r"""Return what strict JSON in UTF-8 says.

    Raises
    ------
    NotStrict
        Anything else: other encodings, a byte order mark, doubled keys, NaN and infinities, numbers that a
        double cannot hold or of many digits, half characters, deep nesting.

    Examples
    --------
    >>> parse_strictly(b'{"cost": 2.5}')
    {'cost': 2.5}
    >>> for body in (b'{"a": 1, "a": 2}', b"[NaN]", b"[1e999]", b'"\\ud800"', b"[" * 1000, b"\xff\xfe1\x00"):
    ...     try:
    ...         parse_strictly(body)
    ...     except NotStrict as problem:
    ...         print(problem.kind)
    duplicate key
    not json
    number too large
    not text
    too deep
    not utf-8
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise NotStrict("not utf-8") from None
    if _depth(text) > _DEPTH:
        raise NotStrict("too deep")
    try:
        value = json.loads(
            text, parse_int=_whole, parse_float=_number, parse_constant=_constant, object_pairs_hook=_object
        )
    except (json.JSONDecodeError, RecursionError):
        raise NotStrict("not json") from None
    _refuse_half_characters(value)
    return value


def _depth(text: str) -> int:
    """Return how deep brackets are nested, outside of strings; in time that grows with the text only."""
    if text.count("[") + text.count("{") <= _DEPTH:
        return 0
    letters = np.frombuffer(_STRING.sub("", text).encode(), dtype=np.uint8)
    opening = (letters == ord("[")) | (letters == ord("{"))
    closing = (letters == ord("]")) | (letters == ord("}"))
    steps = opening.astype(np.int32) - closing.astype(np.int32)
    return int(np.cumsum(steps).max(initial=0))


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise NotStrict("number too large")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if math.isinf(value) or len(digits) > 10 * _DIGITS:
        raise NotStrict("number too large")
    return value


def _constant(_: str) -> None:
    raise NotStrict("not json")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise NotStrict("duplicate key")
    return made


def _refuse_half_characters(value: Any) -> None:
    """Refuse texts that cannot be written as UTF-8, or hold what a database takes for a text's end."""
    level = [value]
    while level:
        part = level.pop()
        if isinstance(part, str):
            try:
                part.encode()
            except UnicodeEncodeError:
                raise NotStrict("not text") from None
            if "\0" in part:
                raise NotStrict("not text")
        elif isinstance(part, dict):
            level += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            level += part
