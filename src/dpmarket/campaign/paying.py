"""Write payout files, read what became of them, and say what the ledger knows about one person."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

import polars as pl

from dpmarket.campaign.ids import tidy_id
from dpmarket.campaign.market_file import Market, read_market
from dpmarket.campaign.place import opened_existing, place_of
from dpmarket.errors import LedgerRefusal
from dpmarket.files import (
    read_table,
    refuse_existing,
    refuse_same,
    refuse_unwritable,
    write_table,
    writing_table,
)
from dpmarket.ledger import (
    Balance,
    CampaignEntry,
    Connection,
    StatementLine,
    balance_of,
    reading,
    rounds,
    statement,
    writing,
)
from dpmarket.ledger.payouts import (
    AMOUNT,
    REFERENCE,
    Payout,
    enter_payments,
    lines_of,
    make_payout,
    payouts_of,
)
from dpmarket.ledger.rounds import SELLER


@dataclass(frozen=True)
class PayoutFile:
    """A payout that was written to a file.

    Attributes
    ----------
    payout
        Its number, lines and amount.
    minor_units, currency
        Of its amounts.
    """

    payout: Payout
    minor_units: int
    currency: str


def pay_out(
    market_path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    repeat: int | None = None,
    ledger: str | None = None,
) -> PayoutFile:
    """Write whom to pay how much: all that sellers are owed and that is in no payout yet.

    Parameters
    ----------
    market_path
        The market file.
    output
        .csv or .parquet: reference, id, payment in money and in minor units, currency. The reference is for
        the transfer, so that a payment that is made twice can be told.
    overwrite
        Whether an existing output may be replaced.
    repeat
        The number of an earlier payout, to write it once more, in place of a new one.
    ledger
        A file or an address, in place of the market file's ``ledger.url``.

    Raises
    ------
    LedgerRefusal
        Nothing is owed, or there is no such payout.
    FileProblem
        A file that cannot be used.
    """
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    refuse_same(output, market_path, *place.files)
    refuse_unwritable(output)
    if not overwrite:
        refuse_existing(output)
    with opened_existing(place) as opened:
        if repeat is not None:
            with reading(opened) as connection:
                campaign = _campaign(connection, place.campaign)
                payout = _numbered(connection, campaign, repeat)
                lines = lines_of(connection, payout)
            write_table(output, _as_written(lines, market, campaign), overwrite=overwrite)
            return PayoutFile(payout, campaign.minor_units, campaign.currency)
        with contextlib.ExitStack() as shown, writing(opened) as connection:
            campaign = _campaign(connection, place.campaign)
            payout, lines = make_payout(connection, campaign.id)
            # All of it is written before the entry is made, and shown when it was made.
            table = _as_written(lines, market, campaign)
            shown.enter_context(writing_table(output, table, overwrite=overwrite))()
    return PayoutFile(payout, campaign.minor_units, campaign.currency)


def enter_payout_file(
    market_path: str | os.PathLike[str],
    source: str | os.PathLike[str],
    kind: str,
    *,
    ledger: str | None = None,
) -> int:
    """Enter that payments were ``confirmed``, or ``returned`` by the bank; return how many are new.

    Parameters
    ----------
    market_path, ledger
        As for :func:`pay_out`.
    source
        .csv or .parquet with the column reference; a payout file itself will do.
    kind
        ``confirmed`` or ``returned``.

    Raises
    ------
    LedgerRefusal
        References that are in no payout, or contradict what was entered before.
    """
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    table = read_table(source, [REFERENCE], [REFERENCE])
    asked = [reference for reference in table.get_column(REFERENCE).to_list() if reference]
    with opened_existing(place) as opened, writing(opened) as connection:
        campaign = _campaign(connection, place.campaign)
        return enter_payments(connection, campaign.id, kind, asked)


def balance_of_campaign(market_path: str | os.PathLike[str], *, ledger: str | None = None) -> Balance:
    """Return what a campaign's accounts hold, in minor units."""
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    with opened_existing(place) as opened, reading(opened) as connection:
        return balance_of(connection, _campaign(connection, place.campaign).id)


def statement_of(
    market_path: str | os.PathLike[str], seller: str, *, ledger: str | None = None
) -> list[StatementLine]:
    """Return what the ledger of a market knows about one person, over all of its campaigns.

    Raises
    ------
    LedgerRefusal
        Nobody of this id was ever quoted.
    """
    market = read_market(market_path)
    place = place_of(market_path, market, ledger)
    with opened_existing(place) as opened, reading(opened) as connection:
        lines = statement(connection, tidy_id(seller))
    if not lines:
        raise LedgerRefusal("nobody of this id was quoted by this ledger.")
    return lines


def _campaign(connection: Connection, name: str) -> CampaignEntry:
    campaign = rounds.campaign_named(connection, name)
    if campaign is None:
        raise LedgerRefusal("nobody was quoted in this campaign yet.")
    return campaign


def _numbered(connection: Connection, campaign: CampaignEntry, number: int) -> Payout:
    found = [payout for payout in payouts_of(connection, campaign.id) if payout.number == number]
    if not found:
        raise LedgerRefusal(f"there is no payout {number} in this campaign.")
    return found[0]


def _as_written(lines: pl.DataFrame, market: Market, campaign: CampaignEntry) -> pl.DataFrame:
    amounts = lines.get_column(AMOUNT).to_numpy()
    columns = {
        REFERENCE: lines.get_column(REFERENCE),
        market.sellers.id_column: lines.get_column(SELLER),
        "payment": amounts / campaign.minor_units,
        AMOUNT: amounts,
        "currency": [campaign.currency] * lines.height,
    }
    return pl.DataFrame(columns)
