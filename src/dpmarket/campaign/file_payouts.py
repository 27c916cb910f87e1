"""Payouts of a file campaign: whom to pay, as a table or as a bank file, and what became of payments."""

from dataclasses import dataclass, replace
from datetime import date

import polars as pl
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.acts import OWNER
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
from dpmarket.campaign.place import Place, Source, place_of
from dpmarket.campaign.transaction import Campaign
from dpmarket.errors import InvalidInput, MarketRefusal
from dpmarket.files import private_bytes, read_table, write_table

REFERENCE = "reference"
_own, _person = schema.participation.c, schema.person.c


@dataclass(frozen=True)
class Bank:
    """How a bank is to pay: the table of accounts, from which account, and on which day."""

    accounts: Source
    payer: BankAccount
    day: date


def write_payout(
    rules: Source | Place,
    output: Source,
    *,
    overwrite: bool = False,
    repeat: int | None = None,
    bank: Bank | None = None,
) -> tuple[Payout, Campaign]:
    """Write whom to pay how much, all that is owed and in no payout yet; return payout and campaign.

    The payout is in the log before the file appears: a .csv or .parquet table, or with ``bank`` an .xml file,
    whose people without an account are refused before anything is entered. ``repeat`` is the number of an
    earlier payout, whose payments that are not confirmed are written once more: a second payout never has the
    same payments.
    """
    place = place_of(rules)
    place.refuse_output(output, *([] if bank is None else [bank.accounts]), overwrite=overwrite)
    with place.campaign() as (market, found):
        accounts = (
            {} if bank is None else _accounts(market, found, bank, place.rules.sellers.id_column, repeat)
        )
        made = _payout(market, found, repeat)
        lines = payout_lines(market, made.id)
    if not lines.height:
        raise MarketRefusal("state", f"All payments of payout {made.number} are confirmed.")
    made = replace(made, people=lines.height, amount=int(lines["payment"].sum()))
    if bank is None:
        table = lines.select(
            REFERENCE,
            pl.col("name").alias(place.rules.sellers.id_column),
            payment=in_money(lines.get_column("payment"), found.minor_units),
            payment_minor_units="payment",
            currency=pl.lit(found.currency),
        )
        write_table(output, table, overwrite=overwrite)
    else:
        payments = [Payment(*row) for row in lines.select(REFERENCE, "name", "payment").iter_rows()]
        content = bank_file(
            payments, found.currency, found.minor_units, accounts=accounts, payer=bank.payer, day=bank.day
        )
        private_bytes(output, content, overwrite=overwrite)
    return made, found


def _payout(market: Market, found: Campaign, repeat: int | None) -> Payout:
    """Return a new payout of all that is owed, or the one of a number."""
    with market.look() as c:
        known = {one.number: one for one in payouts_of(c, found.id)}
    if repeat is not None:
        if repeat not in known:
            raise MarketRefusal("unknown", f"There is no payout {repeat} in this campaign.")
        return known[repeat]
    try:
        return market.run(pay_out, OWNER, found.id)  # type: ignore[no-any-return]
    except MarketRefusal as refusal:
        if not known or refusal.kind != "state":
            raise
        last = max(known)
        words = f"Nothing more is owed. Payout {last} can be written again: --repeat {last}."
        raise MarketRefusal("state", words) from None


def _accounts(
    market: Market, found: Campaign, bank: Bank, id_column: str, repeat: int | None
) -> dict[str, BankAccount]:
    """Return accounts by id, and refuse people without one before a payout is entered."""
    if (found.currency, found.minor_units) != ("EUR", 100):
        raise InvalidInput("expected payments in EUR with 100 minor units: the format is for euros.")
    accounts = {normal_id(who): account for who, account in read_accounts(bank.accounts, id_column).items()}
    if repeat is None:
        query = sa.select(_person.name).join(schema.participation, _own.person == _person.id)
        with market.look() as c:
            names = c.execute(query.where(owed(found))).scalars().all()
        without = sum(name not in accounts for name in names)
        if without:
            raise InvalidInput(f"expected an account for everybody: {without} of {len(names)} have none.")
    return accounts


def enter_payout_file(rules: Source | Place, source: Source, kind: str) -> int:
    """Enter that a file's payments were ``confirmed``, or ``returned``; return how many are new."""
    table = read_table(source, [REFERENCE], [REFERENCE])
    asked = [str(one) for one in table.get_column(REFERENCE).to_list() if one]
    with place_of(rules).campaign() as (market, found):
        return int(market.run(confirm if kind == "confirmed" else returned, OWNER, found.id, asked))
