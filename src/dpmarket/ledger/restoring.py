"""Hold a ledger against the log outside of it: refuse one that forgot spending, and repair it.

A backup that is put back does not know what was spent since. The log does (:mod:`dpmarket.ledger.outside`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.files import positions_in, table_from_bytes, table_to_bytes
from dpmarket.ledger import money, outside, releases, rounds
from dpmarket.ledger.engine import Connection, Ledger, reading, writing


@dataclass(frozen=True)
class Repair:
    """What a repair entered.

    Attributes
    ----------
    spent
        Attempts of which the ledger did not know that they are spent.
    rounds
        Rounds that it did not know at all.
    logged
        Attempts that the log outside lacked.
    """

    spent: int
    rounds: int
    logged: int


def settle(ledger: Ledger) -> None:
    """Undo or end what dead processes left: without a mark anywhere it is returned, with one it is lost.

    Called before anything new is promised or spent.

    Raises
    ------
    LedgerRefusal
        The ledger lacks spending that the log outside has: an older backup was put back.
    FileProblem
        The log cannot be read.
    """
    refuse_restored(ledger)
    with reading(ledger) as connection:
        unfinished = releases.releases_in(connection, "debited", "marked")
    for found in unfinished:
        if outside.is_running(found.id):
            continue
        logged = {line.kind for line in outside.read_log() if line.attempt == found.id}
        with writing(ledger) as connection:
            returned = "mark" not in logged and releases.give_back(connection, found.id)
            if not returned:
                releases.lose(connection, found.id)
        if returned and "debit" in logged:
            outside.append(ledger.id, found.id, "returned")
        outside.forget_running(found.id)


def refuse_restored(ledger: Ledger) -> None:
    """Refuse a ledger that does not know of spending that was logged, or a log that was put back.

    Raises
    ------
    LedgerRefusal
        With what to do.
    FileProblem
        The log's chain is broken.
    """
    with reading(ledger) as connection:
        problems = log_problems(connection, ledger)
    if problems:
        raise LedgerRefusal(f"{problems[0]} 'dpmarket ledger repair' enters everything as spent.")


def log_problems(connection: Connection, ledger: Ledger) -> list[str]:
    """Return a sentence for every disagreement between a ledger and the log outside."""
    lines = outside.read_log()
    found = []
    missing = _missing(connection, ledger, lines)
    if missing:
        found.append(
            f"the ledger {ledger.place} does not know of {len(missing)} trainings that were begun with it: "
            "was an older copy put back?"
        )
    head = releases.log_head_of(connection)
    if head is not None and head not in {line.digest for line in lines}:
        found.append(
            f"the log of spending in {outside.state_folder()} is not the one that the ledger "
            f"{ledger.place} was used with, or an older copy of it (DPMARKET_STATE names its folder)."
        )
    return found


def repair(ledger: Ledger) -> Repair:
    """Enter all spending that only the log knows as spent and paid; log what only the ledger knows.

    Raises
    ------
    FileProblem
        The log's chain is broken, or a page of it is missing.
    LedgerRefusal
        A training is under way.
    """
    lines = outside.read_log()
    with reading(ledger) as connection:
        unfinished = releases.releases_in(connection, "debited", "marked")
    if any(outside.is_running(found.id) for found in unfinished):
        raise LedgerRefusal("a training is under way with this ledger: wait for its end.")
    new_rounds = 0
    with writing(ledger) as connection:
        missing = _missing(connection, ledger, lines)
        for attempt, line in missing.items():
            numbers = []
            for known in line.rounds:
                number, is_new = _restored_round(connection, known)
                numbers.append(number)
                new_rounds += is_new
            releases.enter_lost(connection, attempt, numbers, line.at)
    logged = _log_again(ledger, lines)
    with writing(ledger) as connection:
        lines = outside.read_log()
        if lines:
            releases.note_log_head(connection, lines[-1].digest)
    settle(ledger)
    return Repair(len(missing), new_rounds, logged)


def describe_round(
    connection: Connection, found: rounds.Round, attempt: str, position: int
) -> dict[str, Any]:
    """Return what the log keeps about a round that is debited; who is spent on goes to a page beside it."""
    quotes = rounds.quotes_of(connection, found.number)
    withdrawn = rounds.withdrawn_of(connection, found.number, quotes)
    content = table_to_bytes(quotes.filter(~withdrawn))
    campaign = rounds.campaign_of(connection, found.campaign)
    return {
        "identity": found.identity,
        "digest": found.digest,
        "repetition": found.repetition,
        "campaign": campaign.name,
        "minor_units": found.minor_units,
        "currency": campaign.currency,
        "mechanism": found.mechanism,
        "ceiling": found.ceiling,
        **outside.keep_page(attempt, position, content),
    }


def _missing(
    connection: Connection, ledger: Ledger, lines: Sequence[outside.Line]
) -> dict[str, outside.Line]:
    """Return the debits, by attempt, that were logged for a ledger as spent and that it does not know so."""
    debits = {line.attempt: line for line in lines if line.ledger == ledger.id and line.kind == "debit"}
    kinds: dict[str, set[str]] = {}
    for line in lines:
        kinds.setdefault(line.attempt, set()).add(line.kind)
    states = {found.id: found.state for found in releases.releases_in(connection)}
    missing = {}
    for attempt, line in debits.items():
        state = states.get(attempt)
        if "mark" in kinds[attempt]:
            known = state in releases.SPENT
        else:
            known = state is not None or "returned" in kinds[attempt]
        if not known:
            missing[attempt] = line
    return missing


def _restored_round(connection: Connection, known: Mapping[str, Any]) -> tuple[int, bool]:
    """Return the round of a logged debit, entered if the ledger lost it; who had withdrawn then, has."""
    page = table_from_bytes(outside.read_page(known["page"], known["page_digest"]))
    found = rounds.round_with_identity(connection, known["identity"])
    if found is None:
        return _entered_round(connection, known, page).number, True
    if found.state == "open":
        quotes = rounds.quotes_of(connection, found.number)
        there = positions_in(quotes, rounds.SELLER, page, rounds.SELLER) >= 0
        gone = quotes.get_column(rounds.SELLER).gather(np.flatnonzero(~there)).to_list()
        rounds.withdraw(connection, found.number, gone)
    return found.number, False


def _entered_round(connection: Connection, known: Mapping[str, Any], page: pl.DataFrame) -> rounds.Round:
    campaign = rounds.campaign_named(connection, known["campaign"])
    if campaign is None:
        campaign = rounds.make_campaign(
            connection, known["campaign"], None, known["minor_units"], known["currency"]
        )
    if page.height == 0:
        raise FileProblem("cannot repair: a logged round has no sellers.")
    payments = rounds.totals(page)[1]
    short = payments - money.balance_of(connection, campaign.id).available
    money.fund(connection, campaign.id, short)
    new = rounds.NewRound(
        quotes=page,
        content=table_to_bytes(page),
        identity=known["identity"],
        digest=known["digest"],
        repetition=known["repetition"],
        mechanism=known["mechanism"],
        minor_units=known["minor_units"],
        ceiling=known["ceiling"],
        parameters={},
        plan=None,
        header=None,
    )
    return rounds.enter_round(connection, campaign.id, new)


def _log_again(ledger: Ledger, lines: Sequence[outside.Line]) -> int:
    """Log the attempts that spent something and are not in the log; return how many."""
    known = {line.attempt for line in lines if line.ledger == ledger.id}
    with reading(ledger) as connection:
        lost = [
            (found, [describe_round(connection, rounds.round_of(connection, number), found.id, place)
                     for place, number in enumerate(found.rounds)])
            for found in releases.releases_in(connection, *releases.SPENT)
            if found.id not in known
        ]  # fmt: skip
    for found, described in lost:
        outside.append(ledger.id, found.id, "debit", described)
        outside.append(ledger.id, found.id, "mark")
    return len(lost)
