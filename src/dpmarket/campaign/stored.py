"""The outcome of a round, from what the ledger keeps about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from dpmarket.campaign.terms import outcome_of_rules
from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import Connection, Round, rounds

if TYPE_CHECKING:
    from dpmarket.mechanisms.outcome import Outcome


def stored_outcome(connection: Connection, found: Round) -> Outcome:
    """Return the outcome of a round as it was decided, with the payments as they were rounded.

    Sellers who withdrew since are in it.

    Raises
    ------
    LedgerRefusal
        The round was entered by a repair: the decision was not kept.
    """
    return outcome_of(connection, found, rounds.quotes_of(connection, found.number))


def outcome_of(connection: Connection, found: Round, quotes: pl.DataFrame) -> Outcome:
    """Return the outcome of some of a round's quotes; refuses as :func:`stored_outcome` does."""
    rules = rounds.decision_of(connection, found.number)
    if not rules:
        raise LedgerRefusal(
            f"what was decided for round {found.number} is not in the ledger: a repair entered the round."
        )
    epsilons, amounts = rounds.amounts_of(quotes)
    return outcome_of_rules(rules, epsilons, amounts / found.minor_units)
