"""Turn untrusted JSON or TOML into plain data, or refuse it before it takes time or memory.

Both are text, and small texts can stand for much work: brackets within brackets, keys of fifty thousand
parts, numbers of a hundred thousand digits. What no honest file needs is refused while it is still text.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from dpmarket.errors import InvalidInput

LARGEST_JSON = 1 << 30
"""Bytes of a JSON file: results of a market with millions of sellers are of that size."""
LARGEST_TOML = 1 << 18
"""Bytes of a TOML file: a market's rules are some hundred lines."""
_DEPTH = 64
_CONTAINERS = 1_000_000
_DIGITS = 300
_PARTS = 16
_WORD = 200
# Strings and comments are passed over whole; brackets, separators, dots and words are looked at.
_TOML = re.compile(
    r'"""|\'\'\'|"(?:[^"\\\n]|\\[^\n])*"|\'[^\'\n]*\'|\#[^\n]*|[\[\]{}=,\n.]|[^\s\[\]{}=,.#"\']+'
)


def parse_json(data: bytes | str) -> Any:
    """Return what JSON text in UTF-8 says.

    Raises
    ------
    InvalidInput
        If it is no JSON, or is nested deeper, has longer numbers or more parts than any file needs. The
        message quotes nothing.

    Examples
    --------
    >>> parse_json(b'{"epsilon": 0.5}')
    {'epsilon': 0.5}
    >>> parse_json(b"[" * 100_000)
    Traceback (most recent call last):
        ...
    dpmarket.errors.InvalidInput: nested more than 64 levels deep.
    """
    text = _text(data) if isinstance(data, bytes) else data
    brackets = text.count("[") + text.count("{")
    if brackets > _CONTAINERS:
        raise InvalidInput(f"more than {_CONTAINERS:,} lists and objects.")
    try:
        value = json.loads(text, parse_int=_whole, parse_constant=_refuse)
    except json.JSONDecodeError as problem:
        raise InvalidInput(f"{problem.msg} at line {problem.lineno}, column {problem.colno}.") from None
    except RecursionError:
        raise InvalidInput(f"nested more than {_DEPTH} levels deep.") from None
    if brackets > _DEPTH and _deeper_than(value, _DEPTH):
        raise InvalidInput(f"nested more than {_DEPTH} levels deep.")
    return value


def parse_toml(data: bytes) -> dict[str, Any]:
    r"""Return what TOML text in UTF-8 says.

    Raises
    ------
    InvalidInput
        If it is no TOML, or is longer, nested deeper, has longer words or keys of more parts than any file
        needs.

    Examples
    --------
    >>> parse_toml(b"[objective]\nbudget = 500.0")
    {'objective': {'budget': 500.0}}
    >>> parse_toml(b".".join([b"a"] * 50_000) + b" = 1")
    Traceback (most recent call last):
        ...
    dpmarket.errors.InvalidInput: a key of more than 16 parts at line 1.
    """
    if len(data) > LARGEST_TOML:
        raise InvalidInput(f"larger than {LARGEST_TOML >> 10} kB.")
    text = _text(data)
    _refuse_monsters(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidInput(f"{problem}.") from None
    except (ValueError, OverflowError, RecursionError):  # a date or number that cannot be
        raise InvalidInput("a value that cannot be.") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput("expected text in UTF-8.") from None


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise InvalidInput(f"a number of more than {_DIGITS} digits.")
    return int(digits)


def _refuse(constant: str) -> None:
    raise InvalidInput("NaN or infinity, which JSON lacks.")


def _deeper_than(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [inner for part in parts for inner in part if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _refuse_monsters(text: str) -> None:
    """Refuse deep nesting, keys of many parts and long words, reading every character once."""
    place, depth, dots, line = 0, 0, 0, 1
    while found := _TOML.search(text, place):
        token, place = found.group(), found.end()
        if token in ('"""', "'''"):
            end = text.find(token, place)
            line += text.count("\n", place, end if end >= 0 else len(text))
            place = end + 3 if end >= 0 else len(text)
        elif token == ".":
            dots += 1
        elif token in "[{":
            depth, dots = depth + 1, 0
        elif token in "]},=\n":
            depth, dots = depth - (token in "]}"), 0
            line += token == "\n"
        elif len(token) > _WORD and token[0] not in "\"'#":
            raise InvalidInput(f"a word or number of more than {_WORD} characters at line {line}.")
        if dots >= _PARTS:
            raise InvalidInput(f"a key of more than {_PARTS} parts at line {line}.")
        if depth > _DEPTH:
            raise InvalidInput(f"nested more than {_DEPTH} levels deep at line {line}.")
