"""Keep an outcome, or a market that goes on, in a file and read it back, to the last bit."""

from __future__ import annotations

import json
import os
from pathlib import Path

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import private_bytes, read_json, read_parquet, to_json, write_parquet
from dpmarket.mechanisms.adaptive import SCHEMA as ADAPTIVE
from dpmarket.mechanisms.adaptive import AdaptiveMechanism
from dpmarket.mechanisms.online import SCHEMA as ONLINE
from dpmarket.mechanisms.online import OnlineMechanism
from dpmarket.mechanisms.outcome import Outcome

_COLUMNS = ("seller_ids", "epsilons", "payments", "payment_errors", "loss_weights")
_KEY = "dpmarket"


def write_outcome(target: str | os.PathLike[str], outcome: Outcome, overwrite: bool = True) -> None:
    """Write an outcome to a .json or .parquet file that only its owner can read, atomically.

    Only an :class:`Outcome`: what was chosen by looking at the records, a ``JointOutcome``, is refused, so
    that no file with such promises can be taken for one whose promises are kept.
    """
    if not isinstance(outcome, Outcome):
        raise InvalidInput(f"expected an Outcome, got {type(outcome).__name__}.")
    if _kind(target) == ".json":
        private_bytes(target, to_json(outcome.to_dict()).encode(), overwrite)
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


def write_market(
    target: str | os.PathLike[str], market: OnlineMechanism | AdaptiveMechanism, overwrite: bool = True
) -> None:
    """Write a market's whole state to a .json file that only its owner can read, atomically.

    The file holds reported costs: it is confidential.
    """
    _refuse_other_than_json(target)
    private_bytes(target, to_json(market.to_dict()).encode(), overwrite)


def read_market(source: str | os.PathLike[str]) -> OnlineMechanism | AdaptiveMechanism:
    """Read a market from the .json file that :func:`write_market` made; its open quotes stay valid.

    An adaptive market goes on with its :func:`refit` or :func:`keep_prior`; one with a function of its own is
    refused, as a file cannot hold that: use ``AdaptiveMechanism.from_dict``.
    """
    _refuse_other_than_json(source)
    data = read_json(source)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema == ONLINE:
        return OnlineMechanism.from_dict(data)
    if schema == ADAPTIVE:
        return AdaptiveMechanism.from_dict(data)
    raise FileProblem(f"expected a market in {source}, as write_market makes it.")


def _refuse_other_than_json(path: str | os.PathLike[str]) -> None:
    if Path(path).suffix.lower() != ".json":
        raise FileProblem(f"expected a file ending in .json, got {Path(path).name!r}.")


def _kind(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix.lower()
    if ending not in (".json", ".parquet"):
        raise FileProblem(f"expected a file ending in .json or .parquet, got {Path(path).name!r}.")
    return ending
