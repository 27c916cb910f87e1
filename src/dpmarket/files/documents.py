"""Read and write JSON, and read TOML."""

from __future__ import annotations

import json
import os
import tomllib
from typing import Any

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files.atomic import read_bytes, write_bytes


def to_json(data: object) -> str:
    """Write plain data as JSON text: floats so that they read back to the same bits, no NaN.

    Raises
    ------
    InvalidInput : NaN or infinity in the data.

    Examples
    --------
    >>> print(to_json({"epsilon": 0.1}), end="")
    {
      "epsilon": 0.1
    }
    """
    try:
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        raise InvalidInput("expected finite numbers, got NaN or infinity, which JSON lacks.") from None


def write_json(target: str | os.PathLike[str], data: object, overwrite: bool = True) -> None:
    """Write plain data to a JSON file, atomically; ``-`` is the standard output.

    Raises
    ------
    InvalidInput : NaN or infinity in the data.
    FileProblem : the file cannot be written, or exists and may not be overwritten.
    """
    write_bytes(target, to_json(data).encode(), overwrite)


def read_json(source: str | os.PathLike[str]) -> Any:
    """Read a JSON file, in UTF-8; ``-`` is the standard input.

    Raises
    ------
    FileProblem : no such file, or no JSON: the message says where, and quotes nothing.
    """
    try:
        return json.loads(_text(source))
    except json.JSONDecodeError as problem:
        raise FileProblem(
            f"cannot understand {source} as JSON: {problem.msg} at line {problem.lineno}, "
            f"column {problem.colno}."
        ) from None


def read_toml(source: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file, in UTF-8; ``-`` is the standard input.

    Raises
    ------
    FileProblem : no such file, or no TOML; the message says where.
    """
    try:
        return tomllib.loads(_text(source))
    except tomllib.TOMLDecodeError as problem:
        raise FileProblem(f"cannot understand {source} as TOML: {problem}.") from None


def _text(source: str | os.PathLike[str]) -> str:
    try:
        return read_bytes(source).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileProblem(f"cannot read {source}: expected text in UTF-8.") from None
