"""Read and write JSON, and read TOML."""

from __future__ import annotations

import json
import os
from typing import Any

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files.atomic import read_bytes, write_bytes
from dpmarket.files.bounded import LARGEST_JSON, LARGEST_TOML, parse_json, parse_toml


def to_json(data: object) -> str:
    """Write plain data as JSON text: floats so that they read back to the same bits, no NaN.

    Raises
    ------
    InvalidInput
        NaN or infinity in the data.

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


def write_json(target: str | os.PathLike[str], data: object, *, overwrite: bool = True) -> None:
    """Write plain data to a JSON file, atomically; ``-`` is the standard output."""
    write_bytes(target, to_json(data).encode(), overwrite=overwrite)


def read_json(source: str | os.PathLike[str], most: int = LARGEST_JSON) -> Any:
    """Read a JSON file, in UTF-8; ``-`` is the standard input.

    Parameters
    ----------
    source
        The file.
    most
        How many bytes it may have.
    """
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
