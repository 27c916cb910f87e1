"""JSON and TOML: written as plain data, and read from untrusted text without taking much time or memory."""

import json
import os
import re
import tomllib
from typing import Any

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files.atomic import read_bytes, write_bytes

LARGEST_JSON = 1 << 30  # bytes of a JSON file: results of a market with millions of sellers are of that size
LARGEST_TOML = 1 << 18  # bytes of a TOML file: a market's rules are some hundred lines
_DEPTH = 64
_CONTAINERS = 1_000_000
_DIGITS = 300
# Keys of many parts take quadratic time; Python bounds the digits of decimal numbers only.
# Nothing begins after a backslash: from every quote within a text the rest of it would be searched.
_PART = r"""(?<![\w\\-])(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*')[ \t]*\.[ \t]*"""
_MONSTERS = {
    re.compile(rf"(?:{_PART}){{16}}", re.ASCII): "a key of more than 16 parts",
    re.compile(rf"\b0[xob]\w{{{_DIGITS}}}", re.ASCII): f"a number of more than {_DIGITS} digits",
}


def parse_json(data: bytes | str) -> Any:
    """Return what JSON text in UTF-8 says; refuses what is no JSON or asks for too much, and quotes nothing.

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
        raise _too_deep() from None
    if brackets > _DEPTH:
        _refuse_deep(value)
    return value


def parse_toml(data: bytes) -> dict[str, Any]:
    """Return what TOML text in UTF-8 says; refuses what is no TOML or asks for too much.

    >>> parse_toml(b".".join([b"a"] * 50_000) + b" = 1")
    Traceback (most recent call last):
        ...
    dpmarket.errors.InvalidInput: a key of more than 16 parts at line 1.
    """
    if len(data) > LARGEST_TOML:
        raise InvalidInput(f"larger than {LARGEST_TOML >> 10} kB.")
    text = _text(data)
    for form, words in _MONSTERS.items():
        if found := form.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise InvalidInput(f"{words} at line {line}.")
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidInput(f"{problem}.") from None
    except RecursionError:
        raise _too_deep() from None
    except (ValueError, OverflowError):
        raise InvalidInput("a date or number that cannot be.") from None
    _refuse_deep(value)
    return value


def to_json(data: object) -> str:
    """Write plain data as JSON text: floats so that they read back to the same bits; NaN is refused."""
    try:
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        raise InvalidInput("expected finite numbers, got NaN or infinity, which JSON lacks.") from None


def write_json(target: str | os.PathLike[str], data: object, *, overwrite: bool = True) -> None:
    """Write plain data to a JSON file, atomically; ``-`` is the standard output."""
    write_bytes(target, to_json(data).encode(), overwrite=overwrite)


def read_json(source: str | os.PathLike[str], most: int = LARGEST_JSON) -> Any:
    """Read a JSON file of at most so many bytes, in UTF-8; ``-`` is the standard input."""
    try:
        return parse_json(read_bytes(source, most))
    except InvalidInput as problem:
        raise FileProblem(f"cannot understand {source} as JSON: {problem}") from None


def read_toml(source: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file, in UTF-8; ``-`` is the standard input."""
    try:
        return parse_toml(read_bytes(source, LARGEST_TOML))
    except InvalidInput as problem:
        raise FileProblem(f"cannot understand {source} as TOML: {problem}") from None


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


def _too_deep() -> InvalidInput:
    return InvalidInput(f"nested more than {_DEPTH} levels deep.")


def _refuse_deep(value: Any) -> None:
    level = [value]
    for _ in range(_DEPTH):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [inner for part in parts for inner in part if isinstance(inner, dict | list)]
        if not level:
            return
    raise _too_deep()
