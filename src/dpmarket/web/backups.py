"""Back a service's database up, and put a backup back so that nothing is spent twice."""

from __future__ import annotations

from pathlib import Path

from dpmarket.errors import FileProblem
from dpmarket.ledger import Backup, Repair, back_up, existing_ledger, put_back, reading, repair
from dpmarket.market import acting, check_market
from dpmarket.market.members import list_members, revoke_tokens
from dpmarket.web.running import name_folders, opened
from dpmarket.web.service import clock
from dpmarket.web.settings import SETTINGS_FILE, Settings, read_settings


def back_up_service(folder: Path, target: Path) -> Backup:
    """Copy a service's database to a new file, while the service runs; keys are never in it.

    Raises
    ------
    FileProblem
        There is no service, or as for :func:`~dpmarket.ledger.back_up`.
    """
    settings = _settings_of(folder)
    return back_up(settings.database, target, settings.postgres_programs)


def restore_service(folder: Path, source: Path) -> Repair:
    """Put a backup where the service's database was, and enter what was spent since as spent and paid.

    What the log outside knows is entered: debits, marks, withdrawals. Everything else that was done since the
    backup is gone: sellers who sold since then are asked again, and nothing of theirs was used.

    Raises
    ------
    FileProblem
        There is no service; there is a database already; the backup cannot be used; or the books do not add
        up afterwards.
    LedgerRefusal
        A training is under way.
    """
    settings = _settings_of(folder)
    name_folders(settings)
    put_back(source, settings.database, settings.postgres_programs)
    with existing_ledger(settings.database) as ledger:
        done = repair(ledger)
    with opened(settings) as desk:
        with acting(desk) as connection:  # what was revoked since the backup would open doors again
            now = clock()
            for member in list_members(connection, now):
                revoke_tokens(connection, member.id, now)
        with reading(desk.ledger) as connection:
            check_market(connection)
    return done


def _settings_of(folder: Path) -> Settings:
    if not (folder / SETTINGS_FILE).is_file():
        raise FileProblem(f"there is no service in {folder}: 'dpmarket service init' makes one.")
    return read_settings(folder)
