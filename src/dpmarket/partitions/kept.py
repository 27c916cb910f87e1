"""Keep what a worker has read from one pass to the next, in memory alone, as far as there is room.

Reading is a third of what a pass over reports takes. Whoever finds nothing here reads the file again, so that
workers may come and go.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NamedTuple

import polars as pl

from dpmarket.arrays import FloatArray


class Read(NamedTuple):
    """A partition as it was read: its table, its costs as numbers, and a sum that tells it from others."""

    table: pl.DataFrame
    costs: FloatArray
    check: int

    @property
    def size(self) -> int:
        """How many bytes of memory it takes."""
        return int(self.table.estimated_size()) + self.costs.nbytes


_guard = threading.Lock()
_kept: dict[Path, Read] = {}


def keep(name: str, read: Read, most: int) -> None:
    """Keep a partition under a name, a file's in the folder of this run's work, if ``most`` bytes allow.

    What other runs left, whose driver died, makes room for it.
    """
    path = Path(name)
    with _guard:
        _kept.pop(path, None)
        used = sum(other.size for other in _kept.values())
        if used + read.size > most:
            for other in [other for other in _kept if other.parent != path.parent]:
                used -= _kept.pop(other).size
        if used + read.size <= most:
            _kept[path] = read


def kept(name: str) -> Read | None:
    """Return what was kept under a name, None if nothing was."""
    with _guard:
        return _kept.get(Path(name))


def let_go(name: str) -> Read | None:
    """Return what was kept under a name, and keep it no longer."""
    with _guard:
        return _kept.pop(Path(name), None)


def forget(folder: str) -> None:
    """Keep nothing of a run any longer, whose names are of files anywhere in a folder."""
    with _guard:
        for path in [path for path in _kept if path.is_relative_to(folder)]:
            del _kept[path]
