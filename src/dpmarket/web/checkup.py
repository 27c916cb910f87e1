"""Find whatever is wrong with a service before it harms anybody, and say what to do about each."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from dpmarket.errors import FileProblem
from dpmarket.ledger.engine import is_address
from dpmarket.ledger.outside import state_folder
from dpmarket.market.condition import Finding, desk_findings
from dpmarket.web.running import name_folders
from dpmarket.web.service import Clock, clock
from dpmarket.web.settings import SETTINGS_FILE, Settings, read_settings

_LEAST = 500_000_000
"""Bytes that must be free: a ledger that cannot be written answers 503 to everybody."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_service(folder: Path, tells_time: Clock = clock) -> list[Finding]:
    """Look for wrong modes, missing keys, other tables, wrong books, a wrong clock, a full disk.

    Nothing is changed, and a service may run meanwhile.

    Parameters
    ----------
    folder
        The service's folder.
    tells_time
        Returns the time.

    Returns
    -------
    list of Finding
        Empty if all is well.

    Raises
    ------
    FileProblem
        There is no service in the folder, or its settings cannot be used.
    """
    if not (folder / SETTINGS_FILE).is_file():
        raise FileProblem(f"there is no service in {folder}: 'dpmarket service init' makes one.")
    settings = read_settings(folder)
    name_folders(settings)
    return [
        *_modes(settings),
        *_disk(settings),
        *_address(settings),
        *desk_findings(settings.database, settings.keys, tells_time()),
    ]


def _private_paths(settings: Settings) -> Iterator[Path]:
    """Give everything that is for its owner only."""
    yield settings.folder
    yield settings.folder / SETTINGS_FILE
    if settings.master_key_file is not None:
        yield settings.master_key_file
    if not is_address(settings.database):
        ledger = Path(settings.database)
        yield from (ledger.parent, ledger)
        yield from (ledger.with_name(ledger.name + end) for end in ("-wal", "-shm"))
    for folder in dict.fromkeys((settings.keys, state_folder())):
        yield folder
        if os.access(folder, os.R_OK | os.X_OK):
            yield from sorted(folder.iterdir())


def _modes(settings: Settings) -> Iterator[Finding]:
    for path in _private_paths(settings):
        try:
            found = path.stat()
        except FileNotFoundError:
            if path in (settings.keys, settings.master_key_file):
                yield Finding("keys", f"{path} is not there.", "put it back, or name the right one.")
            continue
        except OSError as problem:
            reason = problem.strerror or problem
            yield Finding("mode", f"cannot look at {path}: {reason}.", "run this check as its owner.")
            continue
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o077:
            wanted = "700" if stat.S_ISDIR(found.st_mode) else "600"
            yield Finding("mode", f"others can use {path}: its mode is {mode:o}.", f"chmod {wanted} {path}")
        if found.st_uid != os.geteuid():
            yield Finding(
                "mode",
                f"{path} belongs to another user (number {found.st_uid}).",
                "run the service and this check as one user; chown what belongs to another.",
            )


def _disk(settings: Settings) -> Iterator[Finding]:
    folders = {state_folder(), settings.keys}
    if not is_address(settings.database):
        folders.add(Path(settings.database).parent)
    for folder in sorted(folders):
        if not folder.is_dir():
            continue
        free = shutil.disk_usage(folder).free
        if free < _LEAST:
            yield Finding(
                "disk",
                f"{free // 1_000_000} MB are free in {folder}, less than {_LEAST // 1_000_000}.",
                "make room: what cannot be written is refused, and nothing can be sold meanwhile.",
            )


def _address(settings: Settings) -> Iterator[Finding]:
    parts = urlsplit(settings.public_url)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        yield Finding(
            "address",
            f"public_url is {settings.public_url}: browsers keep no session without TLS.",
            "put a proxy with TLS before the service, and set public_url to its https address.",
        )
