"""Find whatever is wrong with a ledger: damage, edited pages, sums that do not add up."""

from __future__ import annotations

import math

import numpy as np

from dpmarket.errors import FileProblem
from dpmarket.ledger import money, releases, rounds
from dpmarket.ledger.engine import Connection, Ledger, damage, reading
from dpmarket.ledger.keyed import read_object
from dpmarket.ledger.pages import page_problems
from dpmarket.ledger.restoring import log_problems
from dpmarket.ledger.rounds import MODEL, Round


def check_ledger(connection: Connection) -> None:
    """Refuse a ledger that is damaged, edited or does not add up.

    Checked are the file itself; every page against its digest; that every round has as many sellers, as much
    epsilon and as much money as its own row says; that spent is within promised for every seller of every
    round, and nothing for who withdrew; that the debits of what is spent count, and of what was returned do
    not; that there is a model exactly where one was released; that every account is the sum of its transfers,
    and that what is held or paid for a round is what its sellers are promised.

    Raises
    ------
    FileProblem
        With one line for everything found.
    """
    _refuse(damage(connection))  # what cannot be read cannot be compared
    problems = page_problems(connection)
    if not problems:  # and what was edited cannot be added up
        problems += releases.release_problems(connection) + money.money_problems(connection)
        rounds.campaigns_of(connection)  # refuses rules that cannot be read, also where nobody was quoted
        for found in rounds.rounds_of(connection):
            problems += _round_problems(connection, found)
    _refuse(problems)


def check_everything(connection: Connection, ledger: Ledger) -> None:
    """Refuse a ledger that :func:`check_ledger` refuses, or that the log outside disagrees with.

    Raises
    ------
    FileProblem
        With one line for everything found.
    """
    check_ledger(connection)
    with reading(ledger) as fresh:  # somebody may have begun a training since, and logged it
        _refuse(log_problems(fresh, ledger))


def _refuse(problems: list[str]) -> None:
    if problems:
        count = f"{len(problems)} problem" + ("s" if len(problems) > 1 else "")
        raise FileProblem(f"the ledger does not add up: {count}.", problems)


def _keeps_delta(connection: Connection, found: Round, model: str | None) -> bool:
    """Whether a round has its campaign's delta, and what was released for it no larger one."""
    rules = rounds.campaign_of(connection, found.campaign).rules or {}
    asked = rules.get("objective", {}).get("delta")
    what = f"what was released for round {found.number}"
    released = 0.0 if model is None else read_object(model, what).get("delta", 0.0)
    is_small = isinstance(released, int | float) and released <= found.delta
    return (found.mechanism == MODEL or found.delta == (asked or 0.0)) and is_small


def _round_problems(connection: Connection, found: Round) -> list[str]:
    quotes = rounds.quotes_of(connection, found.number)
    epsilons, payments = rounds.amounts_of(quotes)
    kept = ~rounds.withdrawn_of(connection, found.number, quotes)
    spent = rounds.spent_of(connection, found)
    model = releases.released_model(connection, found.number)
    checks = {
        "sellers": quotes.height == found.sellers,
        "promises": math.isclose(float(epsilons.sum()), found.promised, rel_tol=1e-9, abs_tol=1e-300),
        "payments": int(payments.sum()) == found.payments,
        "amounts spent": spent.size == epsilons.size
        and bool(((spent >= 0.0) & (spent <= np.where(kept, epsilons, 0.0))).all()),
        "deltas": _keeps_delta(connection, found, model),
        "models": (model is not None) == (found.state == "released"),
        "money held": money.held_for(connection, found.number) == int(payments[kept].sum()),
    }
    return [f"round {found.number}: its {name} do not add up." for name, good in checks.items() if not good]
