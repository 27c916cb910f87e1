"""Keep an outcome in a file and read it back, to the last bit: JSON or Parquet by the file's ending."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import read_json, read_parquet, write_json, write_parquet
from dpmarket.mechanisms.outcome import Outcome

_COLUMNS = ("seller_ids", "epsilons", "payments", "payment_errors", "loss_weights")
_KEY = "dpmarket"


def write_outcome(target: str | os.PathLike[str], outcome: Outcome, overwrite: bool = True) -> None:
    """Write an outcome to a .json or .parquet file, atomically.

    Only an :class:`Outcome`: what was chosen by looking at the records, a ``JointOutcome``, is refused, so
    that no file with such promises can be taken for one whose promises are kept.
    """
    if not isinstance(outcome, Outcome):
        raise InvalidInput(f"expected an Outcome, got {type(outcome).__name__}.")
    if _kind(target) == ".json":
        write_json(target, outcome.to_dict(), overwrite)
        return
    columns = {name: getattr(outcome, name) for name in _COLUMNS}
    write_parquet(target, columns, {_KEY: json.dumps(outcome.header(), allow_nan=False)}, overwrite)


def read_outcome(source: str | os.PathLike[str]) -> Outcome:
    """Read an outcome from a .json or .parquet file."""
    if _kind(source) == ".json":
        data = read_json(source)
        if not isinstance(data, dict):
            raise FileProblem(f"expected an outcome in {source}.")
        return Outcome.from_dict(data)
    columns, notes = read_parquet(source)
    if _KEY not in notes or any(name not in columns for name in _COLUMNS):
        raise FileProblem(f"expected an outcome in {source}, as write_outcome makes it.")
    return Outcome.from_dict(json.loads(notes[_KEY]) | columns)


def _kind(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix.lower()
    if ending not in (".json", ".parquet"):
        raise FileProblem(f"expected a file ending in .json or .parquet, got {Path(path).name!r}.")
    return ending
