"""Turn what the ledger keeps about a round into the outcome that was decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray
from dpmarket.errors import LedgerRefusal
from dpmarket.ledger import Connection, Round, rounds

if TYPE_CHECKING:
    from dpmarket.mechanisms import Outcome


def stored_outcome(connection: Connection, found: Round) -> Outcome:
    """Return the outcome of a round as it was decided, with the payments as they were rounded.

    Who withdrew since is in it.

    Raises
    ------
    LedgerRefusal
        The round was entered by a repair: the decision was not kept.
    """
    return outcome_of(connection, found, rounds.quotes_of(connection, found.number))


def outcome_of(connection: Connection, found: Round, quotes: pl.DataFrame) -> Outcome:
    """Return the outcome of some of a round's quotes; refuses as :func:`stored_outcome` does."""
    from dpmarket.mechanisms import Outcome  # takes a compiler along

    _, _, header = rounds.decision_of(connection, found.number)
    if header is None:
        raise LedgerRefusal(
            f"what was decided for round {found.number} is not in the ledger: a repair entered the round."
        )
    epsilons, amounts = rounds.amounts_of(quotes)
    return Outcome.from_dict(
        {
            **header,
            "seller_ids": None,
            "epsilons": epsilons,
            "payments": amounts / found.minor_units,
            "payment_errors": np.zeros(epsilons.size),
            "planned_weights": _shares(epsilons),
        }
    )


def _shares(epsilons: FloatArray) -> FloatArray:
    total = float(epsilons.sum())
    return epsilons / total if total > 0.0 else epsilons
