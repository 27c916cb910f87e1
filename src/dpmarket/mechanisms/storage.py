"""Files of outcomes: written and read back to the last bit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import parse_json, private_bytes, read_json, read_parquet, to_json, write_parquet
from dpmarket.mechanisms.outcome import Outcome

_COLUMNS = ("seller_ids", "epsilons", "payments", "payment_errors", "planned_weights")
_KEY = "dpmarket"


def write_outcome(target: str | os.PathLike[str], outcome: Outcome, *, overwrite: bool = True) -> None:
    """Write an outcome to a .json or .parquet file that only its owner can read, atomically.

    Only an :class:`Outcome`: what was chosen by looking at the records, a ``JointOutcome``, is refused, so
    that no file with such promises can be taken for one whose promises are kept.

    Parameters
    ----------
    target
        Where to; the ending decides: ``.json`` or ``.parquet``.
    outcome
        What a mechanism decided.
    overwrite
        Whether a file of this name is replaced; without it, it is refused.

    Raises
    ------
    InvalidInput
        Not an :class:`Outcome`.
    FileProblem
        Another ending, a file that is there already, or one that cannot be written. No half-written file is
        left.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import PostedPrice
    >>> outcome = PostedPrice(Uniform(1, 5), epsilon=0.5, price=3.0).run([1.5, 3.0, 4.9])
    >>> with TemporaryDirectory() as folder:
    ...     write_outcome(f"{folder}/outcome.parquet", outcome)
    ...     read_outcome(f"{folder}/outcome.parquet").payments.tolist()
    [1.5, 1.5, 0.0]
    """
    if not isinstance(outcome, Outcome):
        raise InvalidInput(f"expected an Outcome, got {type(outcome).__name__}.")
    if _kind(target) == ".json":
        private_bytes(target, to_json(outcome.to_dict()).encode(), overwrite=overwrite)
        return
    table = pl.DataFrame({name: getattr(outcome, name) for name in _COLUMNS})
    write_parquet(target, table, {_KEY: json.dumps(outcome.header(), allow_nan=False)}, overwrite=overwrite)


def read_outcome(source: str | os.PathLike[str]) -> Outcome:
    """Read an outcome from a .json or .parquet file.

    Parameters
    ----------
    source
        A file that :func:`write_outcome` made.

    Returns
    -------
    Outcome
        The same outcome, to the last bit.

    Raises
    ------
    FileProblem
        No such file, another ending, or no outcome in it.
    InvalidInput
        An outcome with parts that are missing or wrong.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from dpmarket.costs import Uniform
    >>> from dpmarket.mechanisms import SameForAll
    >>> outcome = SameForAll(Uniform(1, 5), epsilon=0.1).run([1.5, 3.0])
    >>> with TemporaryDirectory() as folder:
    ...     write_outcome(f"{folder}/outcome.json", outcome)
    ...     same = read_outcome(f"{folder}/outcome.json")
    >>> same.mechanism, same.to_dict() == outcome.to_dict()
    ('same for all', True)
    """
    if _kind(source) == ".json":
        data = read_json(source)
        if not isinstance(data, dict):
            raise FileProblem(f"expected an outcome in {source}.")
        return Outcome.from_dict(data)
    table, notes = read_parquet(source)
    if _KEY not in notes:
        raise FileProblem(f"expected an outcome in {source}, as write_outcome makes it.")
    try:
        header = parse_json(notes[_KEY])
    except InvalidInput:
        header = None
    if not isinstance(header, dict):
        raise FileProblem(f"expected an outcome in {source}, as write_outcome makes it.")
    return Outcome.from_dict(header | _columns_of(table))


def _columns_of(table: pl.DataFrame) -> dict[str, Any]:
    """Return the columns as arrays, and texts, which arrays would pad, as lists."""
    return {
        column.name: column.to_list() if column.dtype == pl.String else column.to_numpy() for column in table
    }


def _kind(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix.lower()
    if ending not in (".json", ".parquet"):
        raise FileProblem(f"expected a file ending in .json or .parquet, got {Path(path).name!r}.")
    return ending
