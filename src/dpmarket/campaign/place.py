"""Find a market's ledger and its campaign in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpmarket.campaign.ids import is_text
from dpmarket.campaign.market_file import Market
from dpmarket.errors import FileProblem
from dpmarket.ledger import Ledger, open_ledger, settle
from dpmarket.ledger.engine import existing_ledger, is_address
from dpmarket.ledger.places import is_empty, refuse_lost

OWN = ""
"""The name of the campaign in a ledger of its own."""


@dataclass(frozen=True)
class Place:
    """Where a campaign is entered.

    Attributes
    ----------
    ledger
        A file, or the address of a database.
    campaign
        The campaign's name in it.
    """

    ledger: str | Path
    campaign: str

    @property
    def files(self) -> list[Path]:
        """The ledger's file, in a list that is empty for a database server."""
        return [self.ledger] if isinstance(self.ledger, Path) else []

    @property
    def is_there(self) -> bool:
        """Whether there is a ledger already; one on a server may be empty still."""
        return not isinstance(self.ledger, Path) or not is_empty(self.ledger)


def ledger_path(market: str | os.PathLike[str]) -> Path:
    """Return where a market file's own ledger lies: beside it, with the ending ``.ledger``.

    A symbolic link to a market file is that market, and has its ledger.
    """
    path = Path(market)
    return (path.resolve() if path.is_symlink() else path).with_suffix(".ledger")


def place_of(market_path: str | os.PathLike[str], market: Market, ledger: str | None = None) -> Place:
    """Return where a market's promises are entered.

    Parameters
    ----------
    market_path, market
        The market file, and what it says.
    ledger
        A file or an address that goes before ``ledger.url`` of the market file.

    Raises
    ------
    FileProblem
        A shared ledger, and the market file does not name its campaign.
    """
    named = market.ledger.url if ledger is None else ledger
    if not is_text(os.fspath(market_path)) or not is_text(named or ""):
        raise FileProblem("cannot open the ledger: expected a file's name in UTF-8.")
    if named is not None and "\0" in named:
        raise FileProblem("ledger.url: expected a file's name or an address without a NUL character.")
    if named is None:
        return Place(ledger_path(market_path), market.ledger.campaign or OWN)
    if market.ledger.campaign is None:
        raise FileProblem(
            "ledger.campaign: missing; expected the campaign's name, because several share the ledger."
        )
    if is_address(named):
        return Place(named, market.ledger.campaign)
    folder = Path(market_path).resolve().parent if ledger is None else Path()
    return Place(folder / named, market.ledger.campaign)


@contextlib.contextmanager
def opened(place: Place) -> Iterator[Ledger]:
    """Open a campaign's ledger, made if there is none; what dead processes left in it is settled first.

    Raises
    ------
    FileProblem, LedgerRefusal
        It cannot be used, or lacks spending that was logged outside of it.
    """
    if not place.is_there:
        refuse_lost(place.ledger)
    with open_ledger(place.ledger) as ledger:
        settle(ledger)
        yield ledger


@contextlib.contextmanager
def opened_existing(place: Place) -> Iterator[Ledger]:
    """Open a campaign's ledger that must be there; refuses as :func:`opened` does."""
    with existing_ledger(place.ledger) as ledger:
        settle(ledger)
        yield ledger
