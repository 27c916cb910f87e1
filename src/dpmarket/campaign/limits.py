"""Refuse to spend what a lifetime or an online budget does not allow.

Quoting keeps both. A repair may enter promises that were given by another copy of the ledger, which did not
know of the ones here: only one of the two can be spent then.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.campaign.amounts import money_text
from dpmarket.campaign.decision import budget_in_minor_units
from dpmarket.campaign.delta import refuse_too_many
from dpmarket.campaign.market_file import Market
from dpmarket.campaign.reports import delta_limit_in
from dpmarket.campaign.terms import is_one_by_one
from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import Connection, Round, balance_of, money, rounds
from dpmarket.ledger.odometer import delta_charges, of_sellers
from dpmarket.ledger.rounds import LIVE

_ROUNDING = 1.0 + 2.0**-40  # of sums that were added up in another order


def refuse_too_much(
    connection: Connection, market: Market, people: pl.DataFrame, promised: FloatArray, spent: Sequence[Round]
) -> None:
    """Refuse to spend rounds after which somebody, or an online campaign, would be above a limit.

    Not asked of the live desk: there a person's own limit and the money in escrow are held from the start,
    and whoever was quoted and delivered is paid, whatever the market file of this or another campaign says.

    Parameters
    ----------
    connection
        Into the ledger, in the step in which they are debited.
    market
        Their campaign's rules.
    people, promised
        Everybody in them, column seller, and what they were promised, 0 for who withdrew.
    spent
        The rounds, all open.

    Raises
    ------
    LedgerRefusal
        Says how many sellers, or how much money, would have to withdraw.
    """
    if all(found.digest.startswith(LIVE) for found in spent):
        return
    refuse_too_many(market, int((promised > 0.0).sum()))
    refuse_over_lifetime(connection, people, promised)
    budget = budget_in_minor_units(market)
    campaign = spent[0].campaign
    online = all(is_one_by_one(found.mechanism) for found in rounds.rounds_of(connection, campaign))
    if budget is None or not online:
        return  # offline, a budget is met on average
    balance = balance_of(connection, campaign)
    due = sum(money.held_for(connection, found.number) for found in spent)
    missing = balance.committed - balance.held + due - budget
    if missing > 0:
        amount = money_text(missing, market.money.minor_units, market.money.currency)
        raise LedgerRefusal(
            f"these quotes would cost {amount} more than the budget: a repair entered what was paid by "
            "another copy of the ledger. Nothing was spent. Let sellers withdraw until it is enough."
        )


def refuse_over_lifetime(connection: Connection, people: pl.DataFrame, promised: FloatArray) -> None:
    """Refuse to spend promises after which somebody would have given more than a lifetime allows.

    Parameters
    ----------
    connection, people, promised
        As for :func:`refuse_too_much`.

    Raises
    ------
    LedgerRefusal
        Says how many they are.
    """
    over = int((over_lifetime(connection, people, promised) | over_delta(connection, people, promised)).sum())
    if over:
        raise LedgerRefusal(
            f"{over} sellers would give more than a lifetime allows (sellers.lifetime_epsilon or "
            "lifetime_delta): a repair "
            "entered what they gave by another copy of the ledger. Nothing was spent. Let them withdraw."
        )


def over_lifetime(connection: Connection, people: pl.DataFrame, promised: FloatArray) -> BoolArray:
    """Return who would have given more than a lifetime allows if these promises were spent, too.

    A limit binds who has a promise in a campaign with that limit, spent or open.
    """
    limits = lifetime_limits(connection)
    given, allowed = promised.copy(), np.full(promised.size, np.inf)
    for found in rounds.rounds_of(connection) if limits else []:
        quotes = rounds.quotes_of(connection, found.number)
        given += of_sellers(people, quotes, rounds.spent_of(connection, found))
        kept = ~rounds.withdrawn_of(connection, found.number, quotes)
        bound = of_sellers(people, quotes, kept.astype(np.float64)) > 0.0
        allowed[bound] = np.minimum(allowed[bound], limits.get(found.campaign, np.inf))
    return (promised > 0.0) & (given > allowed * _ROUNDING)


def over_delta(connection: Connection, people: pl.DataFrame, promised: FloatArray) -> BoolArray:
    """Return whose promises, spent and open, have deltas that add up to more than a lifetime allows.

    A limit binds who has a promise in a campaign with that limit.
    """
    allowed = np.full(promised.size, np.inf)
    entered = rounds.rounds_of(connection)
    if not any(found.delta > 0.0 for found in entered):
        return np.zeros(promised.size, dtype=bool)
    for campaign in rounds.campaigns_of(connection):
        limit = delta_limit_in((campaign.rules or {}).get("sellers", {}))
        if limit is None:
            continue
        for found in entered:
            if found.campaign == campaign.id:
                kept = rounds.kept_quotes(connection, found.number)
                bound = of_sellers(people, kept, np.ones(kept.height)) > 0.0
                allowed[bound] = np.minimum(allowed[bound], limit)
    given = delta_charges(connection, people)
    return (promised > 0.0) & (given > allowed * _ROUNDING)


def lifetime_limits(connection: Connection) -> dict[str, float]:
    """Return the limits on a lifetime's epsilon that campaigns of a ledger set, by the campaign's id."""
    return {
        campaign.id: limit
        for campaign in rounds.campaigns_of(connection)
        if (limit := (campaign.rules or {}).get("sellers", {}).get("lifetime_epsilon")) is not None
    }
