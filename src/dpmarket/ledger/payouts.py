"""Turn what sellers are owed into lines for whoever moves the money, and enter what became of them.

A line's reference follows from the ledger's key, the seller and how many lines they had before: a ledger that
was restored from a backup makes the same ones again, and a bank that saw them before can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import sqlalchemy as sa

from dpmarket.errors import LedgerRefusal
from dpmarket.files import positions_in, table_to_bytes
from dpmarket.ledger import money, rounds, tables
from dpmarket.ledger.digests import references
from dpmarket.ledger.engine import Connection, new_id, now
from dpmarket.ledger.journal import key_of, record
from dpmarket.ledger.pages import keep, kept_table
from dpmarket.ledger.rounds import SELLER

REFERENCE, AMOUNT = "reference", "payment_minor_units"


@dataclass(frozen=True)
class Payout:
    """One file of payments.

    Attributes
    ----------
    id, number
        Its identity, and its place among the campaign's, from 1.
    lines, amount
        How many people it pays, and how much, in minor units.
    made_at
        When, in UTC.
    """

    id: str
    number: int
    lines: int
    amount: int
    made_at: str


def payouts_of(connection: Connection, campaign: str) -> list[Payout]:
    """Return a campaign's payouts, oldest first."""
    columns = tables.payout.c
    query = sa.select(columns.id, columns.number, columns.lines, columns.amount, columns.made_at)
    rows = connection.execute(query.where(columns.campaign == campaign).order_by(columns.number))
    return [Payout(*row) for row in rows]


def lines_of(connection: Connection, payout: Payout) -> pl.DataFrame:
    """Return the lines of a payout: columns reference, seller, payment_minor_units."""
    return kept_table(connection, tables.payout_page, {"payout": payout.id, "entry": 0})


def make_payout(connection: Connection, campaign: str) -> tuple[Payout, pl.DataFrame]:
    """Enter everything that sellers are owed and that is in no payout as a new one; return it, and its lines.

    Who withdrew is owed nothing.

    Raises
    ------
    LedgerRefusal
        Nobody is owed anything.
    """
    owed = _owed(connection, campaign)
    if owed.height == 0:
        waiting = money.balance_of(connection, campaign).on_its_way
        raise LedgerRefusal(
            "nothing is owed that was not paid out already: sellers are owed their payments from the moment "
            "at which their promises are spent."
            + (" Earlier payouts wait to be confirmed (--repeat writes one again)." if waiting else "")
        )
    numbers = np.asarray(owed.get_column("before").to_numpy())
    lines = pl.DataFrame(
        {
            REFERENCE: references(key_of(connection), f"payout {campaign}", owed, SELLER, numbers),
            SELLER: owed.get_column(SELLER),
            AMOUNT: owed.get_column(AMOUNT),
        }
    )
    number = len(payouts_of(connection, campaign)) + 1
    payout = Payout(new_id(), number, lines.height, int(lines.get_column(AMOUNT).sum()), now())
    values = {name: getattr(payout, name) for name in payout.__dataclass_fields__}
    connection.execute(tables.payout.insert().values(campaign=campaign, **values))
    _keep(connection, payout.id, 0, "lines", lines)
    money.begin_payout(connection, campaign, payout.id, payout.amount)
    record(connection, "payout", payout.id)
    return payout, lines


def enter_payments(connection: Connection, campaign: str, kind: str, asked: Sequence[str]) -> int:
    """Enter that lines with these references were ``confirmed`` or ``returned``; return how many are new.

    Returned ones are owed again, and get a new reference in the next payout.

    Raises
    ------
    LedgerRefusal
        A reference that is in no payout, or of which the other was entered already.
    """
    wanted = pl.DataFrame({REFERENCE: list(dict.fromkeys(asked))})
    found = np.zeros(wanted.height, dtype=bool)
    entered = 0
    for payout in payouts_of(connection, campaign):
        lines = lines_of(connection, payout)
        places = positions_in(wanted, REFERENCE, lines, REFERENCE)
        found |= places >= 0
        states = _states(connection, payout, lines)
        own = places[places >= 0]
        other = "returned" if kind == "confirmed" else "confirmed"
        contrary = int((states[own] == other).sum())
        if contrary:
            raise LedgerRefusal(f"cannot enter: {contrary} of these payments were {other} already.")
        new = own[states[own] == "pending"]
        if new.size == 0:
            continue
        amount = int(lines.get_column(AMOUNT).to_numpy()[new].sum())
        entry = sa.select(sa.func.max(tables.payout_page.c.entry)).where(
            tables.payout_page.c.payout == payout.id
        )
        last = int(connection.execute(entry).scalar_one())
        _keep(connection, payout.id, last + 1, kind, lines[new.tolist()].select(REFERENCE))
        parts = {"confirmed": 0, "returned": 0, kind: amount}
        money.end_payout(connection, payout.id, **parts)
        record(connection, "payout", payout.id)
        entered += int(new.size)
    unknown = int((~found).sum())
    if unknown:
        raise LedgerRefusal(f"cannot enter: {unknown} of {wanted.height} references are in no payout.")
    return entered


def _keep(connection: Connection, payout: str, entry: int, kind: str, table: pl.DataFrame) -> None:
    keys = {"payout": payout, "entry": entry, "kind": kind}
    keep(connection, tables.payout_page, keys, table_to_bytes(table))


def _states(
    connection: Connection, payout: Payout, lines: pl.DataFrame
) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    """Return what became of each line of a payout: pending, confirmed or returned."""
    states = np.full(lines.height, "pending", dtype="U9")
    page = tables.payout_page.c
    query = sa.select(page.entry, page.kind).where(page.payout == payout.id, page.entry > 0).distinct()
    for entry, kind in connection.execute(query.order_by(page.entry)).all():
        entered = kept_table(connection, tables.payout_page, {"payout": payout.id, "entry": entry})
        states[positions_in(entered, REFERENCE, lines, REFERENCE)] = kind
    return states


def _owed(connection: Connection, campaign: str) -> pl.DataFrame:
    """Return who is owed how much that is in no payout: seller, payment_minor_units, lines before."""
    parts = []
    for found in rounds.rounds_of(connection, campaign):
        if found.state in ("open", "debited", "marked"):
            continue
        quotes = rounds.quotes_of(connection, found.number)
        kept = ~rounds.withdrawn_of(connection, found.number, quotes)
        amounts = np.where(kept, rounds.amounts_of(quotes)[1], 0)
        parts.append(_part(quotes, amounts, 0))
    for payout in payouts_of(connection, campaign):
        lines = lines_of(connection, payout)
        back = _states(connection, payout, lines) == "returned"
        parts.append(_part(lines, np.where(back, 0, -lines.get_column(AMOUNT).to_numpy()), 1))
    if not parts:
        return pl.DataFrame({SELLER: [], AMOUNT: np.zeros(0, dtype=np.int64)})
    total = pl.concat(parts).group_by(SELLER, maintain_order=True).sum()
    return total.filter(total.get_column(AMOUNT) > 0)


def _part(
    table: pl.DataFrame, amounts: np.ndarray[tuple[int], np.dtype[np.int64]], lines: int
) -> pl.DataFrame:
    before = np.full(table.height, lines, dtype=np.int64)
    return pl.DataFrame(
        {SELLER: table.get_column(SELLER), AMOUNT: amounts.astype(np.int64), "before": before}
    )
