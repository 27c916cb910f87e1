"""What ``-m`` names: a rules file, a database, or a service's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpmarket.campaign.database import Market


@dataclass(frozen=True)
class Located:
    """A market's database, its folders of logs, keys and PostgreSQL's programs, a file campaign's name."""

    url: str | Path
    state: Path
    keys: Path | None = None
    campaign: str | None = None
    programs: Path | None = None


def located(path: Path, database: str | None = None) -> Located:
    """Return where a market is."""
    from dpmarket.campaign.place import place_of, state_folder

    if path.is_dir():
        from dpmarket.web.folder import name_master_key, settings_of

        settings = settings_of(path)
        name_master_key(settings)
        programs = settings.postgres_programs
        return Located(settings.database, settings.state_folder, settings.keys, programs=programs)
    if path.suffix.lower() == ".db":
        return Located(path, state_folder())
    place = place_of(path, database)
    return Located(place.url, place.state, None, place.rules.campaign.name)


def opened_market(path: Path, database: str | None = None) -> Market:
    """Open a market, for a ``with`` block."""
    from dpmarket.campaign.database import open_market

    place = located(path, database)
    return open_market(place.url, place.state, place.keys)


def repaired(path: Path, database: str | None, *, log_lost: bool, released: Path | None) -> list[str]:
    """Repair a market; return a word for each line of the log that was entered."""
    from dpmarket.campaign.repair import repair
    from dpmarket.campaign.rules.released import released_from_bytes
    from dpmarket.errors import FileProblem
    from dpmarket.files import read_bytes

    place = located(path, database)
    documents: dict[int | str, bytes] = {}
    if released is not None:
        if place.campaign is None:
            raise FileProblem("--released needs the rules file of the campaign that the document is of.")
        document = read_bytes(released)
        released_from_bytes(document)
        documents[place.campaign] = document
    return repair(place.url, place.state, place.keys, log_lost=log_lost, released=documents)
