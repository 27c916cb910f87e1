"""Turn the rounds of a ledger into every person's account: what is promised, spent, held, owed and paid.

Accounts come from the stored pages, not from a row each: ten million sellers are a few columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.errors import FileProblem
from dpmarket.files import positions_in
from dpmarket.ledger import rounds
from dpmarket.ledger.engine import Connection
from dpmarket.ledger.rounds import MODEL, SELLER, Round


@dataclass(frozen=True)
class StatementLine:
    """One round in a person's statement.

    Attributes
    ----------
    campaign, round, quoted_at
        Where and when they were quoted.
    promised, spent, held
        epsilon; held is what a lifetime limit counts while the round is open.
    payment, minor_units, currency
        What they are paid, in minor units.
    state
        The round's state, or ``withdrawn``.
    delta
        The delta beside the epsilon; 0 without one, and for sellers who withdrew.
    """

    campaign: str
    round: int
    quoted_at: str
    promised: float
    spent: float
    held: float
    payment: int
    minor_units: int
    currency: str
    state: str
    delta: float = 0.0


def accounts(connection: Connection, campaign: str | None = None) -> pl.DataFrame:
    """Return one row per seller, over all rounds: seller, promised, spent (epsilon), paid (minor units).

    ``promised`` leaves out what was withdrawn. ``paid`` counts a payment from the moment on at which its
    promise is spent; before that it is owed only if the seller delivers.

    Raises
    ------
    FileProblem
        There are no rounds, or a page is damaged.
    """
    parts = []
    for found in rounds.rounds_of(connection, campaign):
        quotes = rounds.quotes_of(connection, found.number)
        kept = ~rounds.withdrawn_of(connection, found.number, quotes)
        epsilons, payments = rounds.amounts_of(quotes)
        columns = {
            SELLER: quotes.get_column(SELLER),
            "promised": np.where(kept, epsilons, 0.0),
            "spent": rounds.spent_of(connection, found),
            "paid": np.where(kept & (found.state != "open"), payments, 0),
        }
        parts.append(pl.DataFrame(columns))
    if not parts:
        raise FileProblem("cannot show the ledger: no quotes were given yet.")
    return pl.concat(parts).group_by(SELLER, maintain_order=True).sum()


def charges(connection: Connection, sellers: pl.DataFrame) -> FloatArray:
    """Return what a lifetime limit counts for sellers, in their order: column seller.

    A round that is open counts with its public ceiling, which no report has any part in; infinitely much if
    it has none. One that is spent counts with what was spent. Who withdrew is not counted.
    """
    counted = np.zeros(sellers.height)
    for found in rounds.rounds_of(connection):
        quotes = rounds.quotes_of(connection, found.number)
        kept = ~rounds.withdrawn_of(connection, found.number, quotes)
        own = np.where(kept, held_by(found), 0.0) if is_held(found) else rounds.spent_of(connection, found)
        counted += of_sellers(sellers, quotes, own)
    return counted


def delta_charges(connection: Connection, sellers: pl.DataFrame, campaign: str | None = None) -> FloatArray:
    """Return what the deltas of sellers' promises add up to, in their order (column seller), rounded up.

    A round counts with its delta for everybody in it who was promised something and has not withdrawn, from
    its quotes on. Somebody with promises in several rounds of one model is counted for each: they were
    promised so.

    Parameters
    ----------
    connection
        Into the ledger.
    sellers
        Who.
    campaign
        Count the rounds of this one only; None: those of all.
    """
    counted = np.zeros(sellers.height)
    for found in rounds.rounds_of(connection, campaign):
        if found.delta == 0.0 or not _is_counted(found):
            continue
        kept = rounds.kept_quotes(connection, found.number)
        promised = (rounds.amounts_of(kept)[0] > 0.0).astype(np.float64)
        own = of_sellers(sellers, kept, promised) > 0.0
        counted = np.where(own, np.nextafter(counted + found.delta, np.inf), counted)
    return counted


def total_delta(lines: Sequence[StatementLine]) -> float:
    """Return what the deltas in a statement add up to."""
    return math.fsum(line.delta for line in lines)


def of_sellers(sellers: pl.DataFrame, quotes: pl.DataFrame, own: FloatArray) -> FloatArray:
    """Return for sellers (column seller), in their order, what each has in a round's quotes; others 0."""
    places = positions_in(sellers, SELLER, quotes, SELLER)
    there = places >= 0
    result = np.zeros(sellers.height)
    result[there] = own[places[there]]
    return result


def open_promises(connection: Connection, campaign: str, sellers: pl.DataFrame) -> pl.DataFrame:
    """Return those of the sellers who have a promise in this campaign that is neither spent nor withdrawn."""
    waiting = np.zeros(sellers.height, dtype=bool)
    for found in rounds.rounds_of(connection, campaign):
        if found.state != "open":
            continue
        kept = rounds.kept_quotes(connection, found.number)
        waiting |= of_sellers(sellers, kept, np.ones(kept.height)) > 0.0
    return sellers.filter(waiting)


def statement(connection: Connection, seller: str) -> list[StatementLine]:
    """Return what the ledger knows about one person, round by round, oldest first."""
    asked = pl.DataFrame({SELLER: [seller]})
    lines = []
    for found in rounds.rounds_of(connection):
        is_open = found.state == "open"
        quotes = rounds.quotes_of(connection, found.number)
        place = int(positions_in(asked, SELLER, quotes, SELLER)[0])
        if place < 0:
            continue
        campaign = rounds.campaign_of(connection, found.campaign)
        gone = bool(rounds.withdrawn_of(connection, found.number, quotes)[place])
        epsilons, payments = rounds.amounts_of(quotes)
        lines.append(
            StatementLine(
                campaign=campaign.name,
                round=found.number,
                quoted_at=found.quoted_at,
                promised=0.0 if gone else float(epsilons[place]),
                spent=0.0 if is_open else float(rounds.spent_of(connection, found)[place]),
                held=held_by(found) if is_held(found) and not gone else 0.0,
                payment=0 if gone else int(payments[place]),
                minor_units=found.minor_units,
                currency=campaign.currency,
                state="withdrawn" if gone else found.state,
                delta=found.delta if not gone and _is_counted(found) and epsilons[place] > 0.0 else 0.0,
            )
        )
    return lines


def is_held(found: Round) -> bool:
    """Whether a round counts with its ceiling: nothing of it is spent yet, and all of it may be.

    A model outside of a campaign enters a round for every charge. One that was given back is not spent again.
    """
    return found.state == "open" and found.mechanism != MODEL


def _is_counted(found: Round) -> bool:
    """Whether a round's delta counts: a model's charge that was given back is not spent again."""
    return found.state != "open" or is_held(found)


def held_by(found: Round) -> float:
    """Return what an open round counts for everybody in it."""
    return math.inf if found.ceiling is None else found.ceiling
