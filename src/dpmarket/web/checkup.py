"""Checks of a service's folder: the market itself, keys, modes and address."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from dpmarket.campaign.checks import Finding, findings
from dpmarket.campaign.database import is_address, open_market
from dpmarket.errors import FileProblem
from dpmarket.web.folder import SIGNING_KEY, name_master_key, settings_of
from dpmarket.web.settings import LOOPBACK, SETTINGS_FILE, Settings


def check_service(folder: Path) -> list[Finding]:
    """Look for missing keys, wrong modes, wrong books, a log ahead, a wrong clock, a full disk.

    Nothing is changed, and a service may run meanwhile.
    """
    settings = settings_of(folder)
    name_master_key(settings)
    return [*_market(settings), *_modes(settings), *_address(settings)]


def _market(settings: Settings) -> Iterator[Finding]:
    """Look at keys, books, log, clock and jobs."""
    if not settings.keys.is_dir():
        yield Finding("keys", f"{settings.keys} is not there.", "Put it back, or name the right one.")
    try:
        with open_market(settings.database, settings.state_folder) as market:
            market.keys = settings.keys  # its folder is looked at and not changed
            yield from findings(market)
    except FileProblem as problem:
        yield Finding("database", str(problem), "Put it back, or name the right one.")


def _private_paths(settings: Settings) -> Iterator[Path]:
    """Give everything that is for its owner only."""
    yield settings.folder
    yield from (settings.folder / name for name in (SETTINGS_FILE, SIGNING_KEY))
    if settings.master_key_file is not None:
        yield settings.master_key_file
    if not is_address(settings.database):
        database = Path(settings.database)
        yield from (database.parent, database)
        yield from (database.with_name(database.name + end) for end in ("-wal", "-shm"))
    for folder in dict.fromkeys((settings.keys, settings.state_folder)):
        yield folder
        if os.access(folder, os.R_OK | os.X_OK):
            yield from sorted(folder.rglob("*"))


def _modes(settings: Settings) -> Iterator[Finding]:
    for path in _private_paths(settings):
        try:
            found = path.stat()
        except FileNotFoundError:
            if path == settings.master_key_file:
                yield Finding("keys", f"{path} is not there.", "Put it back, or name the right one.")
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


def _address(settings: Settings) -> Iterator[Finding]:
    parts = urlsplit(settings.public_url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        yield Finding(
            "address",
            f"public_url is {settings.public_url}: browsers keep no session without TLS.",
            "put a proxy with TLS before the service, and set public_url to its https address.",
        )
