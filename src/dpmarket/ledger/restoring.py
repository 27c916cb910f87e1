"""Hold a ledger against the log outside of it: refuse one that forgot something, and repair it.

A backup that is put back does not know what was spent since, nor who withdrew. The log does
(:mod:`dpmarket.ledger.outside`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.errors import LedgerRefusal
from dpmarket.files import positions_in, table_from_bytes, table_to_bytes
from dpmarket.ledger import money, outside, payouts, releases, rounds
from dpmarket.ledger.attempts import describe_round, end_attempt, leaving_by, still_there
from dpmarket.ledger.engine import Connection, Ledger, command_for, new_id, now, reading, writing
from dpmarket.ledger.places import begin_log, id_of, is_other_log, note_place, place_problems


@dataclass(frozen=True)
class Repair:
    """What a repair entered.

    Attributes
    ----------
    spent
        Attempts of which the ledger did not know that they are spent; and, where the log it was used with is
        gone, the rounds that may have been.
    rounds
        Rounds that it did not know at all.
    withdrawn
        Sellers of whom it did not know that they withdrew.
    logged
        Attempts that the log outside lacked.
    """

    spent: int
    rounds: int
    withdrawn: int
    logged: int


def settle(ledger: Ledger) -> None:
    """Undo or end what dead processes left: without a mark anywhere it is returned, with one it is lost.

    Payouts of which only the log outside knows are entered again. Called before anything new is promised or
    spent.

    Raises
    ------
    LedgerRefusal
        The ledger lacks something that the log outside has: an older backup was put back.
    FileProblem
        The log cannot be read.
    """
    refuse_restored(ledger)
    note_place(ledger)
    with reading(ledger) as connection:
        unfinished = releases.releases_in(connection, "debited", "marked")
        forgets = not ledger.read_only and payouts.forgets_payouts(connection)
    if forgets:
        with writing(ledger) as connection:
            payouts.enter_forgotten(connection)
    for found in unfinished:
        if not outside.is_running(found.id):
            end_attempt(ledger, found.id)
    if unfinished:
        outside.forget_dead()


def withdraw(connection: Connection, number: int, sellers: Sequence[str]) -> int:
    """Take sellers out of a round before it is spent, in the ledger and in the log outside.

    Returns
    -------
    int
        How many had not withdrawn before. What was held for them is free again. Nobody else's promise or
        payment changes.

    Raises
    ------
    LedgerRefusal
        A seller has no quote in this round, or the round's promises are spent already.
    FileProblem
        The log cannot be written: nobody withdrew.
    """
    leaving = rounds.withdraw(connection, number, sellers)
    if leaving:
        page = outside.keep_page(new_id(), 0, table_to_bytes(pl.DataFrame({rounds.SELLER: leaving})))
        known = {
            "identity": rounds.round_of(connection, number).identity,
            "withdrawn": rounds.count_withdrawn(connection, number),
            "leaving": len(leaving),
            **page,
        }
        outside.append(id_of(connection), "", "withdrawn", [known])
    return len(leaving)


def enter_logged_withdrawals(connection: Connection, lines: Sequence[outside.Line]) -> int:
    """Take sellers out of open rounds of whom only the log knows that they withdrew; return how many.

    Also for a round that is entered anew after a backup from before it was put back.
    """
    unknown = _unknown_withdrawals(connection, lines)
    return sum(len(rounds.withdraw(connection, number, sellers)) for number, sellers in unknown)


def logged_leaving(ledger: str, identity: str) -> list[str]:
    """Return who withdrew from a round by the log outside, whether or not the ledger knows of it.

    Parameters
    ----------
    ledger, identity
        Ids of the ledger and of the round.
    """
    known = [
        one
        for line in outside.read_log()
        if line.ledger == ledger and line.kind == "withdrawn"
        for one in line.rounds
        if one["identity"] == identity
    ]
    pages = [table_from_bytes(outside.read_page(one["page"], one["page_digest"])) for one in known]
    sellers = (seller for page in pages for seller in page.get_column(rounds.SELLER).to_list())
    return list(dict.fromkeys(sellers))


def refuse_restored(ledger: Ledger) -> None:
    """Refuse a ledger that does not know of something that was logged, or a log that was put back.

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
        raise LedgerRefusal(problems[0])


def log_problems(connection: Connection, ledger: Ledger) -> list[str]:
    """Return a sentence for every disagreement between a ledger and the log outside.

    Others may go on meanwhile, if nothing was read by the connection before: what the ledger must know is
    read from the log first, and what the log must have afterwards.
    """
    lines = outside.read_log()
    found, mending = [], command_for("repair", ledger.place)
    debits, withdrawals = _unknown_debits(connection, lines), _unknown_withdrawals(connection, lines)
    if debits:
        found.append(
            f"the ledger {ledger.place} does not know of {len(debits)} trainings that were begun with it: "
            f"was an older copy put back? {mending} enters everything as spent."
        )
    if withdrawals:
        found.append(
            f"the ledger {ledger.place} does not know of all who withdrew: was an older copy put back, or a "
            f"withdrawal ended halfway? {mending} enters them."
        )
    names = {line.ledger for line in lines if line.about.get("key") == ledger.key.hex()}
    if outside.known_key(ledger.id) not in (None, ledger.key):
        found.append(f"the ledger {ledger.place} was used with another key: was it edited? Put it back.")
    if names - {ledger.id}:
        found.append(f"the ledger {ledger.place} was used under another id: was it edited? Put it back.")
    found += place_problems(ledger, lines)
    # By now the connection sees one state of the ledger. A worker may have gone on with both since the lines
    # above were read.
    if is_other_log(connection, outside.read_log()):
        found.append(
            f"the log of spending in {outside.state_folder()} is not the one that the ledger "
            f"{ledger.place} was used with, or an older copy of it: name the right folder (DPMARKET_STATE). "
            f"If it is lost, nobody knows what was spent since: {mending} then enters all open promises as "
            "spent and paid."
        )
    return found


def repair(ledger: Ledger) -> Repair:
    """Enter all that only the log knows, spending as spent and paid; log what only the ledger knows.

    If the log that the ledger was used with is gone, open promises may have been spent with a newer copy of
    the ledger: they are entered as spent, too.

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
        is_other = is_other_log(connection, outside.read_log())  # as in log_problems
    if any(outside.is_running(found.id) for found in unfinished):
        raise LedgerRefusal("a training is under way with this ledger: wait for its end.")
    new_rounds = 0
    with writing(ledger) as connection:
        withdrawn = enter_logged_withdrawals(connection, lines)
        unknown = _unknown_debits(connection, lines)
        for attempt, line in unknown.items():
            restored = [one for known in line.rounds for one in _restored_round(connection, known)]
            new_rounds += sum(is_new for _, is_new in restored)
            releases.enter_lost(connection, attempt, [number for number, _ in restored], line.at)
        lost = _lose_open(connection) if is_other else 0
    logged = _log_again(ledger, lines)
    if is_other:
        with writing(ledger) as connection:
            begin_log(connection, ledger)
    settle(ledger)
    return Repair(len(unknown) + lost, new_rounds, withdrawn, logged - lost)


def _unknown_debits(connection: Connection, lines: Sequence[outside.Line]) -> dict[str, outside.Line]:
    """Return the debits, by attempt, that were logged for a ledger as spent and that it does not know so."""
    own = id_of(connection)
    debits = {line.attempt: line for line in lines if line.ledger == own and line.kind == "debit"}
    kinds: dict[str, set[str]] = {}
    for line in lines:
        kinds.setdefault(line.attempt, set()).add(line.kind)
    states = {found.id: found.state for found in releases.releases_in(connection)}
    spent = releases.spent_identities(connection)
    unknown = {}
    later: set[str] = set()  # identities of the rounds that were debited after a line
    for attempt, line in reversed(debits.items()):
        identities = {known["identity"] for known in line.rounds}
        if "mark" in kinds[attempt]:
            known = states.get(attempt) in releases.SPENT and _is_of(line, spent.get(attempt, set()))
        else:  # who could debit a round after it found that it had been given back
            known = attempt in states or "returned" in kinds[attempt] or bool(identities & later)
        if not known:
            unknown[attempt] = line
        later |= identities
    return dict(reversed(unknown.items()))


def _is_of(line: outside.Line, spent: set[str]) -> bool:
    """Whether an attempt spent the rounds of its logged debit; a repair leaves out what all had left."""
    logged = {known["identity"]: known for known in line.rounds}
    return spent <= logged.keys() and not any(
        _logged_quotes(known).height for identity, known in logged.items() if identity not in spent
    )


def _unknown_withdrawals(
    connection: Connection, lines: Sequence[outside.Line]
) -> list[tuple[int, list[str]]]:
    """Return who withdrew from rounds that are open, by the log, and has not by the ledger."""
    own = id_of(connection)
    logged: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line.ledger == own and line.kind == "withdrawn":
            for known in line.rounds:
                logged.setdefault(known["identity"], []).append(known)
    unknown = []
    for identity, left in logged.items():
        found = rounds.round_with_identity(connection, identity)
        if found is None or found.state != "open":
            continue
        count = rounds.count_withdrawn(connection, found.number)
        if _one_after_another(left) and count >= left[-1]["withdrawn"]:
            continue  # all of them, by their number alone
        kept = rounds.kept_quotes(connection, found.number)
        for known in left:
            leaving = still_there(leaving_by(known), kept)
            if leaving:
                unknown.append((found.number, leaving))
    return unknown


def _one_after_another(left: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each withdrawal from a round knew of all before it; in two copies of a ledger they do not."""
    before = 0
    for known in left:
        if known["withdrawn"] != before + known["leaving"]:
            return False
        before = known["withdrawn"]
    return True


def _restored_round(connection: Connection, known: Mapping[str, Any]) -> list[tuple[int, bool]]:
    """Return the round of a logged debit, entered if the ledger lost it; who had withdrawn then, has.

    None for a round that the ledger lost and that everybody had left: nothing of it was spent.
    """
    page = _logged_quotes(known)
    found = rounds.round_with_identity(connection, known["identity"])
    if found is None:
        return [(_entered_round(connection, known, page).number, True)] if page.height else []
    if found.state == "open":
        quotes = rounds.quotes_of(connection, found.number)
        there = positions_in(quotes, rounds.SELLER, page, rounds.SELLER) >= 0
        gone = quotes.get_column(rounds.SELLER).gather(np.flatnonzero(~there)).to_list()
        rounds.withdraw(connection, found.number, gone)
    return [(found.number, False)]


def _logged_quotes(known: Mapping[str, Any]) -> pl.DataFrame:
    return rounds.as_known(table_from_bytes(outside.read_page(known["page"], known["page_digest"])))


def _entered_round(connection: Connection, known: Mapping[str, Any], page: pl.DataFrame) -> rounds.Round:
    campaign = rounds.campaign_named(connection, known["campaign"])
    if campaign is None:
        campaign = rounds.make_campaign(
            connection, known["campaign"], known["rules"], known["minor_units"], known["currency"]
        )
    payments = rounds.totals(page)[1]
    # The money of a live desk's sellers is there: nobody paid it a second time.
    money.free_holds_of_sellers(connection, campaign.id)
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
        delta=known.get("delta", 0.0),
        parameters={},
    )
    return rounds.enter_round(connection, campaign.id, new)


def _lose_open(connection: Connection) -> int:
    """Enter every open round in which somebody is left as spent and paid; return how many."""
    found = [
        one
        for one in rounds.rounds_of(connection)
        if one.state == "open" and rounds.count_withdrawn(connection, one.number) < one.sellers
    ]
    for one in found:
        releases.enter_lost(connection, new_id(), [one.number], now())
    return len(found)


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
