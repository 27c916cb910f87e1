"""Payouts of a file campaign: whom to pay, as a table or as a bank file, and what became of payments."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import date

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import OWNER, Campaign
from dpmarket.campaign.bank_file import BankAccount, Payment, bank_file, read_accounts
from dpmarket.campaign.database import Market
from dpmarket.campaign.payouts import (
    Payout,
    confirm,
    in_money,
    owed,
    pay_out,
    payout_lines,
    payouts_of,
    returned,
)
from dpmarket.campaign.people import normal_id
from dpmarket.campaign.place import existing_campaign, place_of
from dpmarket.errors import InvalidInput, MarketRefusal
from dpmarket.files import (
    private_bytes,
    read_table,
    refuse_existing,
    refuse_same,
    refuse_unwritable,
    write_table,
)

REFERENCE = "reference"
_own, _person = schema.participation.c, schema.person.c


@dataclass(frozen=True)
class Bank:
    """How a bank is to pay: the table of accounts, from which account, and on which day."""

    accounts: str | os.PathLike[str]
    payer: BankAccount
    day: date


@dataclass(frozen=True)
class PayoutFile:
    """A payout that was written to a file, and the units of its amounts."""

    payout: Payout
    minor_units: int
    currency: str


def write_payout(
    rules_path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    repeat: int | None = None,
    bank: Bank | None = None,
    database: str | None = None,
) -> PayoutFile:
    """Write whom to pay how much: all that sellers are owed and that is in no payout yet.

    The payout is in the log before the file appears. If the file is lost, it is written again by its number:
    a second payout never has the same payments.

    Parameters
    ----------
    rules_path
        The rules file.
    output
        .csv or .parquet: reference, id, payment in money and in minor units, currency; with a bank, .xml.
    overwrite
        Whether an existing output may be replaced.
    repeat
        The number of an earlier payout, whose payments that are not confirmed are written once more.
    bank
        Write a bank file in place of a table.
    database
        A file or an address, in place of the rules' ``campaign.database``.

    Raises
    ------
    MarketRefusal
        Nothing is owed, or there is no such payout.
    FileProblem, InvalidInput
        A file that cannot be used, or people without an account. Nothing was entered.
    """
    place = place_of(rules_path, database)
    refuse_same(output, *place.files, *([] if bank is None else [bank.accounts]))
    refuse_unwritable(output)
    if not overwrite:
        refuse_existing(output)
    with place.open() as market:
        found = existing_campaign(market, place.rules)
        accounts = None if bank is None else _accounts(market, found, bank, repeat)
        with market.look() as c:
            known = payouts_of(c, found.id)
        if repeat is None:
            made = _new(market, found, known)
        else:
            numbered = [one for one in known if one.number == repeat]
            if not numbered:
                raise MarketRefusal("unknown", f"There is no payout {repeat} in this campaign.")
            made = numbered[0]
        lines = payout_lines(market, made.id)
    if bank is None or accounts is None:
        table = as_written(lines, found, place.rules.sellers.id_column)
        write_table(output, table, overwrite=overwrite)
    else:
        payments = [Payment(*row) for row in lines.select("reference", "name", "payment").iter_rows()]
        identity = hashlib.sha256("\n".join(lines.get_column(REFERENCE)).encode()).hexdigest()[:32]
        private_bytes(
            output, bank_file(payments, accounts, bank.payer, identity, bank.day), overwrite=overwrite
        )
    return PayoutFile(made, found.minor_units, found.currency)


def _new(market: Market, found: Campaign, known: list[Payout]) -> Payout:
    try:
        return market.run(pay_out, OWNER, found.id)  # type: ignore[no-any-return]
    except MarketRefusal as refusal:
        if known and refusal.kind == "state":
            raise MarketRefusal(
                "state",
                f"Nothing more is owed. Payout {known[-1].number} can be written again: --repeat "
                f"{known[-1].number}.",
            ) from None
        raise


def _accounts(market: Market, found: Campaign, bank: Bank, repeat: int | None) -> dict[str, BankAccount]:
    """Return accounts by id, and refuse people without one before a payout is entered."""
    if (found.currency, found.minor_units) != ("EUR", 100):
        raise InvalidInput("expected payments in EUR with 100 minor units: the format is for euros.")
    accounts = {normal_id(who): account for who, account in read_accounts(bank.accounts).items()}
    if repeat is None:
        query = sa.select(_person.name).join(schema.participation, _own.person == _person.id)
        with market.look() as c:
            names = c.execute(query.where(owed(found))).scalars().all()
        without = sum(name not in accounts for name in names)
        if without:
            raise InvalidInput(f"expected an account for everybody: {without} of {len(names)} have none.")
    return accounts


def as_written(lines: pl.DataFrame, found: Campaign, id_column: str) -> pl.DataFrame:
    """Return lines of a payout as they are written to a file."""
    return lines.select(
        REFERENCE,
        pl.col("name").alias(id_column),
        payment=in_money(lines.get_column("payment"), found.minor_units),
        payment_minor_units="payment",
        currency=pl.lit(found.currency),
    )


def enter_payout_file(
    rules_path: str | os.PathLike[str],
    source: str | os.PathLike[str],
    kind: str,
    *,
    database: str | None = None,
) -> int:
    """Enter that payments were ``confirmed``, or ``returned`` by the bank; return how many are new.

    Parameters
    ----------
    rules_path, database
        As for :func:`write_payout`.
    source
        .csv or .parquet with the column reference; a payout file itself will do.
    kind
        ``confirmed`` or ``returned``.

    Raises
    ------
    MarketRefusal
        References that are in no payout, or contradict what was entered before.
    """
    place = place_of(rules_path, database)
    table = read_table(source, [REFERENCE], [REFERENCE])
    asked = [str(one) for one in table.get_column(REFERENCE).to_list() if one]
    with place.open() as market:
        found = existing_campaign(market, place.rules)
        return int(market.run(confirm if kind == "confirmed" else returned, OWNER, found.id, asked))
