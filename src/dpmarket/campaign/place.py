"""Where a campaign from files is entered: its database, its log, its name and its fixed rules there."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.database import Market, is_address, open_market
from dpmarket.campaign.opening import rules_of
from dpmarket.campaign.rules.rules_file import Rules, read_rules, to_distribution
from dpmarket.campaign.training import recover
from dpmarket.campaign.transaction import Campaign, campaign_of
from dpmarket.errors import FileProblem, MarketRefusal
from dpmarket.files import refuse_existing, refuse_same, refuse_unwritable

Source = str | os.PathLike[str]
_FREE = {
    ("campaign", "database"),
    ("sellers", "id_column"),
    ("sellers", "cost_column"),
    ("sellers", "excluded"),
}


@dataclass(frozen=True)
class Place:
    """A rules file, what it says, its database (a file, or an address), and the folder of logs."""

    rules: Rules
    path: Path
    url: str | Path
    state: Path

    @property
    def files(self) -> list[Path]:
        """The files that no output may replace."""
        return [self.path, *([self.url] if isinstance(self.url, Path) else [])]

    def refuse_output(self, output: Source, *inputs: Source, overwrite: bool) -> None:
        """Refuse an output that is needed still, cannot be written, or is there and may not be replaced."""
        refuse_same(output, *self.files, *inputs)
        refuse_unwritable(output)
        if not overwrite:
            refuse_existing(output)

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

    @contextlib.contextmanager
    def campaign(self) -> Iterator[tuple[Market, Campaign]]:
        """Open the market for a block, with the campaign of the rules file, which was quoted before."""
        with self.open() as market:
            with market.look() as c:
                found = campaign_named(c, self.rules.campaign.name)
            if found is None:
                raise MarketRefusal(
                    "unknown", "Nobody was quoted in this campaign yet: 'dpmarket quote' comes first."
                )
            yield market, found


def state_folder() -> Path:
    """Return where logs lie: ``DPMARKET_STATE``, or ``dpmarket`` in the user's state folder."""
    named = os.environ.get("DPMARKET_STATE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "dpmarket"


def place_of(path: Source | Place, database: str | None = None) -> Place:
    """Return the place of a rules file; ``database`` goes before what the file says."""
    if isinstance(path, Place):
        return path
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


def changed_rules(found: Campaign, rules: Rules) -> list[str]:
    """Return how a rules file differs from the rules that a campaign was opened or committed with."""
    if found.channel not in ("file", "partitions"):
        raise MarketRefusal("state", "This campaign is not one from files: name another campaign.")
    return _changed(_compared(rules_of(found)), _compared(rules))


def refuse_changed(found: Campaign, rules: Rules) -> None:
    """Refuse a rules file that differs from the campaign's rules; the message names the first key."""
    changed = changed_rules(found, rules)
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise MarketRefusal(
            "state",
            f"The rules have changed since they were fixed: {changed[0]}{more}. Put it back; for other "
            "rules, begin another campaign, with another campaign.name.",
        )


def _compared(rules: Rules) -> dict[str, Any]:
    data = rules.to_data()
    data["costs"]["distribution"] = to_distribution(rules.costs.distribution).to_dict()
    for table, name in _FREE:
        data.get(table, {}).pop(name, None)
    return data


def _changed(before: Any, now: Any, path: str = "") -> list[str]:
    if before == now:
        return []
    if path == "costs.distribution":
        return [f"{path} is another one"]
    if isinstance(before, dict) and isinstance(now, dict):
        names = dict.fromkeys((*before, *now))
        found = [_changed(before.get(name), now.get(name), f"{path}.{name}".lstrip(".")) for name in names]
        return [line for lines in found for line in lines]
    return [f"{path} was {before!r} and is now {now!r}"]
