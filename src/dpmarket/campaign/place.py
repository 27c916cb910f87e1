"""Where a campaign from files is entered: its database, its log, and its name there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import Campaign, campaign_of
from dpmarket.campaign.database import Market, is_address, open_market
from dpmarket.campaign.rules.rules_file import Rules, read_rules
from dpmarket.campaign.training import recover
from dpmarket.errors import FileProblem, MarketRefusal


@dataclass(frozen=True)
class Place:
    """A campaign's place.

    Attributes
    ----------
    rules
        What its rules file says.
    path
        The rules file.
    url
        The database: a file, or an address.
    state
        The folder of logs.
    """

    rules: Rules
    path: Path
    url: str | Path
    state: Path

    @property
    def files(self) -> list[Path]:
        """The files that no output may replace."""
        return [self.path, *([self.url] if isinstance(self.url, Path) else [])]

    @property
    def is_there(self) -> bool:
        """Whether there is a database already; one on a server may be empty still."""
        return not isinstance(self.url, Path) or (self.url.exists() and self.url.stat().st_size > 0)

    def open(self, *, make: bool = False, verified: bool = True) -> Market:
        """Open the market, unless it was put back from a backup; what dead processes left is ended first."""
        market = open_market(self.url, self.state, make=make)
        try:
            if verified:
                market.verify()
                recover(market)
        except BaseException:
            market.close()
            raise
        return market


def state_folder() -> Path:
    """Return where logs lie: ``DPMARKET_STATE``, or ``dpmarket`` in the user's state folder."""
    named = os.environ.get("DPMARKET_STATE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "dpmarket"


def place_of(path: str | os.PathLike[str], database: str | None = None) -> Place:
    """Return the place of a rules file.

    Parameters
    ----------
    path
        The rules file.
    database
        A file or an address that goes before ``campaign.database`` of the rules file.

    Raises
    ------
    FileProblem
        The rules file cannot be used, or the database's name is no text.
    """
    rules = read_rules(path)
    named = rules.campaign.database if database is None else database
    if named is None:
        own = Path(path)  # a symbolic link to a rules file is that campaign, and has its database
        url: str | Path = (own.resolve() if own.is_symlink() else own).with_suffix(".db")
    elif is_address(named):
        url = named
    else:
        url = (Path(path).resolve().parent if database is None else Path()) / named
    try:
        os.fspath(url).encode()
    except UnicodeEncodeError:
        raise FileProblem("cannot open the database: expected a file's name in UTF-8.") from None
    if "\0" in os.fspath(url):
        raise FileProblem("cannot open the database: its name has a NUL character.")
    return Place(rules, Path(path), url, state_folder())


def campaign_named(c: sa.Connection, name: str) -> Campaign | None:
    """Return the file campaign of a name; None if there is none."""
    row = schema.campaign.c
    query = sa.select(row.id).where(row.name == name, row.owner.is_(None))
    found = c.execute(query).scalar()
    return None if found is None else campaign_of(c, int(found))


def existing_campaign(market: Market, rules: Rules) -> Campaign:
    """Return a campaign that was quoted before.

    Raises
    ------
    MarketRefusal
        There is none of this name in the database.
    """
    with market.look() as c:
        found = campaign_named(c, rules.campaign.name)
    if found is None:
        raise MarketRefusal(
            "unknown", "Nobody was quoted in this campaign yet: 'dpmarket quote' comes first."
        )
    return found
