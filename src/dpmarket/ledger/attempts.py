"""Take an attempt to spend through its steps, in the ledger and in the log outside: debit, mark, end.

The log is one for all copies of a ledger: what was spent or left with one of them stops an attempt with
another before any noise is drawn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.files import positions_in, table_from_bytes, table_to_bytes
from dpmarket.ledger import outside, releases, rounds
from dpmarket.ledger.engine import Connection, Ledger, command_for, reading, writing

Check = Callable[[Sequence[outside.Line]], None]
"""What must hold of the log in the moment in which a line is added to it."""


def log_debit(ledger: Ledger, attempt: str, spent: Sequence[rounds.Round]) -> tuple[str, Check]:
    """Log the debit of rounds; return the line's digest, and what must hold in the moment of the mark, too.

    Parameters
    ----------
    ledger
        In which they are debited.
    attempt
        Its id.
    spent
        The rounds.

    Raises
    ------
    LedgerRefusal
        A copy of the ledger spent something meanwhile: see :func:`refuse_other_copy`.
    FileProblem
        The log cannot be written.
    """
    with reading(ledger) as connection:
        described = [describe_round(connection, found, attempt, k) for k, found in enumerate(spent)]
    check = refuse_other_copy(ledger, attempt, described)
    return outside.append(ledger.id, attempt, "debit", described, check=check), check


def mark_attempt(ledger: Ledger, attempt: str, head: str, check: Check) -> None:
    """Mark an attempt, in the ledger and in the log: from now on its promises are spent, whatever happens.

    Parameters
    ----------
    ledger, attempt
        As in :func:`log_debit`.
    head, check
        What it returned.

    Raises
    ------
    LedgerRefusal, FileProblem
        As :func:`log_debit`, or the attempt was declared dead. There is no mark then, and the promises are
        given back.
    """
    with writing(ledger) as connection:
        releases.mark(connection, attempt, head)
    try:
        outside.append(ledger.id, attempt, "mark", check=check)
    except (FileProblem, LedgerRefusal):
        # The log is as before, and no noise was drawn.
        with writing(ledger) as connection:
            releases.unmark(connection, attempt)
        raise


def end_attempt(ledger: Ledger, attempt: str) -> None:
    """End an attempt that failed: given back if it has no mark in the log, spent and paid if it has one."""
    logged = {line.kind for line in outside.read_log() if line.attempt == attempt}
    with writing(ledger) as connection:
        returned = "mark" not in logged and releases.give_back(connection, attempt)
        if not returned:
            releases.lose(connection, attempt)
        found = releases.release_with(connection, attempt)
    if "debit" in logged and "mark" not in logged and found is not None and found.state == "lost":
        # It died between its two marks. Copies of the ledger, which know the log only, must not spend it.
        with contextlib.suppress(FileProblem):
            outside.append(ledger.id, attempt, "mark")
    if returned and "debit" in logged:
        # The ledger knows. Should it be replaced by a backup, a later debit says the same.
        with contextlib.suppress(FileProblem):
            outside.append(ledger.id, attempt, "returned")


def describe_round(
    connection: Connection, found: rounds.Round, attempt: str, position: int
) -> dict[str, Any]:
    """Return what the log keeps about a round that is debited; who is spent on goes to a page beside it."""
    content = table_to_bytes(rounds.kept_quotes(connection, found.number))
    campaign = rounds.campaign_of(connection, found.campaign)
    return {
        "identity": found.identity,
        "digest": found.digest,
        "repetition": found.repetition,
        "campaign": campaign.name,
        "rules": campaign.rules,
        "minor_units": found.minor_units,
        "currency": campaign.currency,
        "mechanism": found.mechanism,
        "ceiling": found.ceiling,
        **({"delta": found.delta} if found.delta else {}),
        **outside.keep_page(attempt, position, content),
    }


def refuse_other_copy(
    ledger: Ledger, attempt: str, described: Sequence[Mapping[str, Any]]
) -> Callable[[Sequence[outside.Line]], None]:
    """Return a check of the log's lines, for the moment in which an attempt writes its own.

    A copy of the ledger may have been used since this one was opened.

    Parameters
    ----------
    ledger
        The one that is used here.
    attempt
        Its id.
    described
        What it spends, by :func:`describe_round`.

    Returns
    -------
    Callable[[Sequence[outside.Line]], None]
        Raises LedgerRefusal if the lines say that another attempt drew noise for one of these rounds, under
        whatever id of a ledger, or with this ledger for anything that is not in it; or that somebody left who
        is spent on.
    """
    own = {known["identity"]: known for known in described}
    mending = command_for("repair", ledger.place)

    def check(lines: Sequence[outside.Line]) -> None:
        with reading(ledger) as connection:
            spent = {found.id for found in releases.releases_in(connection, *releases.SPENT)}
        marked = {line.attempt for line in lines if line.kind == "mark"}
        for line in lines:
            known = [found for found in line.rounds if found.get("identity") in own]
            is_missing = line.ledger == ledger.id and line.attempt not in spent
            is_other = line.attempt != attempt and line.attempt in marked
            if line.kind == "debit" and is_other and (known or is_missing):
                raise LedgerRefusal(
                    "promises were spent meanwhile with a copy of this ledger: no noise was drawn, and "
                    f"nothing was released. {mending} enters them as spent."
                )
            for one in known if line.kind == "withdrawn" else []:
                page = own[one["identity"]]
                content = outside.read_page(page["page"], page["page_digest"])
                if still_there(leaving_by(one), rounds.as_known(table_from_bytes(content))):
                    raise LedgerRefusal(
                        "sellers withdrew meanwhile with a copy of this ledger: no noise was drawn, and "
                        f"nothing was released. {mending} enters them."
                    )

    return check


def leaving_by(known: Mapping[str, Any]) -> pl.DataFrame:
    """Return who left by a line of the log, column seller."""
    return table_from_bytes(outside.read_page(known["page"], known["page_digest"]))


def still_there(leaving: pl.DataFrame, kept: pl.DataFrame) -> list[str]:
    """Return those who left and are in a table still."""
    there = positions_in(leaving, rounds.SELLER, kept, rounds.SELLER) >= 0
    return leaving.filter(there).get_column(rounds.SELLER).to_list()
