"""Keep results in a file, so that a run that was interrupted goes on where it stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dpmarket.files import read_json, write_json

_SECONDS_BETWEEN_WRITES = 5.0


class Cache:
    """Results by name, kept in a JSON file. A file made with other settings is set aside and begun anew."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._settings, self._written = path, settings, 0.0
        stored = read_json(path) if path.exists() else {}
        self._values: dict[str, Any] = stored["values"] if stored.get("settings") == settings else {}

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def keep(self, name: str, value: Any) -> None:
        """Store a result; the file is written every few seconds, atomically."""
        self._values[name] = value
        if time.monotonic() - self._written > _SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Write the file now."""
        write_json(self._path, {"settings": self._settings, "values": self._values})
        self._written = time.monotonic()
