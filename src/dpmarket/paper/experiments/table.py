"""Hold what an experiment measured as plain columns, with a manifest that says how it was made.

A table is kept as a CSV file that any program reads, beside a manifest in JSON: the configuration (seeds
included), the versions of the libraries, and the digest of the CSV file, so that the two cannot drift apart.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray, read_only
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import (
    read_bytes,
    read_json,
    read_table,
    write_json,
    write_table,
)
from dpmarket.planning.scoring import mean_and_standard_error
from dpmarket.version import __version__

SCHEMA = "dpmarket.experiment/1"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")

Column = FloatArray | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Columns of equal length, and how they were made.

    Attributes
    ----------
    name
        The experiment's.
    columns
        By name: numbers as read-only arrays (NaN where there is none), texts as tuples.
    configuration
        The experiment's settings, as plain data.
    versions
        Of this library, of Python and of the numerical libraries.

    Examples
    --------
    >>> table = table_from_rows("small", [{"who": "a", "x": 1.0}, {"who": "b", "x": None}], {"seed": 0})
    >>> len(table), table.where(who="a").number("x").tolist()
    (2, [1.0])
    """

    name: str
    columns: Mapping[str, Column]
    configuration: Mapping[str, Any]
    versions: Mapping[str, str]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def number(self, name: str) -> FloatArray:
        """Return a column of numbers."""
        values = self._column(name)
        if isinstance(values, tuple):
            raise InvalidInput(f"expected column {name!r} of {self.name} to hold numbers, it holds texts.")
        return values

    def text(self, name: str) -> tuple[str, ...]:
        """Return a column of texts."""
        values = self._column(name)
        if not isinstance(values, tuple):
            raise InvalidInput(f"expected column {name!r} of {self.name} to hold texts, it holds numbers.")
        return values

    def values_of(self, name: str) -> list[Any]:
        """Return the different values of a column, in the order of their first appearance."""
        return list(dict.fromkeys(np.asarray(self._column(name)).tolist()))

    def where(self, **wanted: object) -> ResultTable:
        """Return the rows whose columns have these values."""
        keep: BoolArray = np.ones(len(self), dtype=bool)
        for name, value in wanted.items():
            keep &= np.asarray(self._column(name)) == value
        chosen: dict[str, Column] = {
            name: tuple(text for text, kept in zip(values, keep, strict=True) if kept)
            if isinstance(values, tuple)
            else read_only(values[keep])
            for name, values in self.columns.items()
        }
        return ResultTable(self.name, chosen, self.configuration, self.versions)

    def means_by(self, by: str, *names: str) -> tuple[FloatArray, dict[str, tuple[FloatArray, FloatArray]]]:
        """Return the values of a column, rising, and means and standard errors of others over their rows.

        For tables whose rows are single splits of the records.
        """
        places = np.array(sorted(self.values_of(by)))
        parts = [self.where(**{by: place}) for place in places.tolist()]
        found: dict[str, tuple[FloatArray, FloatArray]] = {}
        for name in names:
            pairs = np.array([mean_and_standard_error(part.number(name)) for part in parts]).reshape(-1, 2)
            found[name] = (pairs[:, 0], pairs[:, 1])
        return places, found

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            raise InvalidInput(f"expected a column of {self.name} ({', '.join(self.columns)}), got {name!r}.")
        return self.columns[name]


def table_from_rows(
    name: str, rows: Sequence[Mapping[str, Any]], configuration: Mapping[str, Any]
) -> ResultTable:
    """Return the table of rows that all have the same keys; None stands for a number that does not exist."""
    columns: dict[str, Column] = {}
    for key in rows[0]:
        values = [row[key] for row in rows]
        if any(isinstance(value, str) for value in values):
            columns[key] = tuple(values)
        else:
            columns[key] = read_only(np.array([math.nan if v is None else float(v) for v in values]))
    return ResultTable(name, columns, dict(configuration), _versions())


def write_result(table: ResultTable, folder: str | os.PathLike[str]) -> None:
    """Write ``NAME.csv`` and ``NAME.json`` into a folder that exists, each whole or not at all."""
    target = Path(folder) / f"{table.name}.csv"
    write_table(target, pl.DataFrame(dict(table.columns)))
    write_json(
        target.with_suffix(".json"),
        {
            "schema": SCHEMA,
            "name": table.name,
            "configuration": table.configuration,
            "versions": table.versions,
            "columns": list(table.columns),
            "texts": [name for name, values in table.columns.items() if isinstance(values, tuple)],
            "sha256": hashlib.sha256(read_bytes(target)).hexdigest(),
        },
    )


def read_result(folder: str | os.PathLike[str], name: str) -> ResultTable:
    """Read what :func:`write_result` wrote.

    Raises
    ------
    FileProblem
        There is no such table, or the CSV file is not the one that the manifest describes.
    """
    source = Path(folder) / f"{name}.csv"
    manifest = read_json(source.with_suffix(".json"))
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise FileProblem(f"expected the manifest of an experiment in {source.with_suffix('.json')}.")
    if hashlib.sha256(read_bytes(source)).hexdigest() != manifest.get("sha256"):
        raise FileProblem(f"{source} is not the table that its manifest describes: remove both.")
    texts = tuple(manifest["texts"])
    table = read_table(source, texts=texts)
    columns: dict[str, Column] = {
        column: tuple(table.get_column(column).to_list())
        if column in texts
        else read_only(table.get_column(column).cast(pl.Float64).fill_null(math.nan).to_numpy().copy())
        for column in manifest["columns"]
    }
    return ResultTable(name, columns, plain_value(manifest["configuration"]), manifest["versions"])


def has_result(folder: str | os.PathLike[str], name: str, configuration: Mapping[str, Any]) -> bool:
    """Whether a folder holds this table, made with this configuration by this version of the library."""
    path = Path(folder) / f"{name}.json"
    if not (path.is_file() and path.with_suffix(".csv").is_file()):
        return False
    manifest = read_json(path)
    return (
        isinstance(manifest, dict)
        and plain_value(manifest.get("configuration")) == configuration
        and manifest.get("versions", {}).get("dpmarket") == __version__
    )


def plain_value(value: Any) -> Any:
    """Return one setting as plain data: lists, and numbers of twelve digits."""
    if isinstance(value, dict):
        return {str(key): plain_value(part) for key, part in value.items()}
    if isinstance(value, float):
        return float(f"{value:.12g}")
    return [plain_value(part) for part in value] if isinstance(value, list | tuple) else value


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in _LIBRARIES}
    return {"dpmarket": __version__, "python": platform.python_version(), **found}
