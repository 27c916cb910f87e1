"""Turn a ledger into every seller's account, and check that it adds up."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from dpmarket.campaign.ledger import (
    EPSILON,
    PAYMENT,
    SELLER,
    quotes_of,
    released_model,
    rounds_of,
    spent_of,
    withdrawn_of,
)
from dpmarket.errors import FileProblem
from dpmarket.files import Database, damage


def accounts(ledger: Database) -> pl.DataFrame:
    """Return one row per seller, over all rounds: seller, promised, spent (epsilon), paid (minor units).

    ``promised`` leaves out what was withdrawn. ``paid`` counts a payment from the moment on at which its
    promise is spent; before that it is owed only if the seller delivers.

    Raises
    ------
    FileProblem : the ledger is empty or damaged.
    """
    parts = []
    for entered in rounds_of(ledger):
        quotes = quotes_of(ledger, entered.number)
        kept = ~withdrawn_of(ledger, entered.number, quotes)
        payments = quotes.get_column(PAYMENT).to_numpy()
        columns = {
            SELLER: quotes.get_column(SELLER),
            "promised": np.where(kept, quotes.get_column(EPSILON).to_numpy(), 0.0),
            "spent": spent_of(ledger, entered),
            "paid": np.where(kept & (entered.state != "open"), payments, 0),
        }
        parts.append(pl.DataFrame(columns))
    if not parts:
        raise FileProblem("cannot show the ledger: no quotes were given yet.")
    return pl.concat(parts).group_by(SELLER, maintain_order=True).sum()


def check_ledger(ledger: Database) -> None:
    """Refuse a ledger that is damaged or does not add up.

    Checked are the file itself; that every round has as many sellers, as much epsilon and as much money as
    its own row says; that spent is within promised for every seller of every round, and nothing for who
    withdrew; and that there is a model exactly where one was released.

    Raises
    ------
    FileProblem : with one line for everything found.
    """
    problems = damage(ledger)
    for entered in rounds_of(ledger):
        quotes = quotes_of(ledger, entered.number)
        epsilons = quotes.get_column(EPSILON).to_numpy()
        kept = ~withdrawn_of(ledger, entered.number, quotes)
        spent = spent_of(ledger, entered)
        checks = {
            "sellers": quotes.height == entered.sellers,
            "promises": math.isclose(float(epsilons.sum()), entered.promised, rel_tol=1e-9, abs_tol=1e-300),
            "payments": int(quotes.get_column(PAYMENT).sum()) == entered.payments,
            "amounts spent": spent.size == epsilons.size
            and bool(((spent >= 0.0) & (spent <= np.where(kept, epsilons, 0.0))).all()),
            "models": (released_model(ledger, entered.number) is not None) == (entered.state == "released"),
        }
        problems += [
            f"round {entered.number}: its {name} do not add up." for name, good in checks.items() if not good
        ]
    if problems:
        raise FileProblem(f"the ledger does not add up: {len(problems)} problems.", problems)
