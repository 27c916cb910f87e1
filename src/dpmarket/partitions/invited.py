"""Tell who of many partitions may be quoted: not who must not sell, nor who has too little epsilon left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from dpmarket.campaign.market_file import Market
from dpmarket.campaign.reports import EXCLUDED, FULL, LIFETIME, lifetime_limit, who_must_not_sell
from dpmarket.errors import FileProblem
from dpmarket.files import atomic_path, table_to_bytes
from dpmarket.files.atomic import PRIVATE
from dpmarket.ledger import Connection, Round, rounds
from dpmarket.ledger.odometer import held_by, is_held
from dpmarket.ledger.releases import spent_manifest_of
from dpmarket.ledger.rounds import SELLER, CampaignEntry
from dpmarket.partitions.looking import SCRATCH, Counts, Looked, Runner, counts_of
from dpmarket.partitions.lookup import (
    MUST_NOT,
    NO_ROOM,
    TOO_LITTLE,
    WHY,
    Answer,
    Earlier,
    Part,
    Quoted,
    Spans,
    bring,
    left_out_in,
    look_up,
    write_counted,
    write_quoted,
)
from dpmarket.partitions.passes import Place, Scanned, count_again
from dpmarket.partitions.pieces import Piece
from dpmarket.partitions.promises import keep_withdrawn

REASON = "reason"
_REASONS = {MUST_NOT: EXCLUDED, TOO_LITTLE: LIFETIME, NO_ROOM: FULL}


def needs_a_look(market: Market, connection: Connection | None, campaign: CampaignEntry | None) -> bool:
    """Whether single people have to be looked up: some may be left out, or promised something before."""
    if market.sellers.excluded is not None or lifetime_limit(market, connection) is not None:
        return True
    return connection is not None and campaign is not None and bool(rounds.rounds_of(connection, campaign.id))


@dataclass(frozen=True)
class Asked:
    """By what people are looked up.

    Attributes
    ----------
    listed
        Who is left out whatever else is known, columns seller and why; None if nobody.
    limit, ceiling
        What anybody may give in a lifetime, None without a limit; what the market can ask of anybody.
    campaign
        Whose open promises count; None: it has none.
    """

    listed: pl.DataFrame | None
    limit: float | None
    ceiling: float
    campaign: str | None

    def counts(self, found: Round) -> bool:
        """Whether a round has a part in the answer."""
        return self.limit is not None or self._waits(found)

    def _waits(self, found: Round) -> bool:
        return found.state == "open" and found.campaign == self.campaign

    def earlier(self, connection: Connection, found: Round, work: Path, count: int) -> list[Earlier] | Spans:
        """Return the partitions of an earlier round; what it counts itself, where the ledger keeps that."""
        quotes = rounds.manifest_of(connection, found.number)
        beside = spent_manifest_of(connection, found.number) if found.state == "released" else None
        if quotes is None or (found.state == "released" and beside is None):
            return self._kept_in(connection, found, work, count)
        withdrawn = work / f"withdrawn-{found.number}"
        keep_withdrawn(withdrawn, rounds.who_withdrew(connection, found.number))
        return [
            Earlier(
                quotes,
                number,
                beside,
                held_by(found) if is_held(found) else None,
                self._waits(found),
                str(withdrawn),
                count,
                str(work / f"round-{found.number}-{number}.arrow"),
            )
            for number in range(len(quotes.names))
        ]

    def _kept_in(self, connection: Connection, found: Round, work: Path, count: int) -> Spans:
        quotes = rounds.quotes_of(connection, found.number)
        kept = ~rounds.withdrawn_of(connection, found.number, quotes)
        held = is_held(found)
        own = np.where(kept, held_by(found), 0.0) if held else rounds.spent_of(connection, found)
        table = pl.DataFrame(
            {SELLER: quotes.get_column(SELLER), "own": own, "waits": kept & self._waits(found)}
        )
        out = str(work / f"round-{found.number}.arrow")
        own, waits = (np.asarray(table.get_column(name).to_numpy()) for name in ("own", "waits"))
        return write_counted(table.get_column(SELLER), own, waits, count, out)


def asked_of(
    market: Market,
    market_path: str,
    connection: Connection | None,
    campaign: CampaignEntry | None,
    ceiling: float,
) -> Asked:
    """Return by what people are looked up who report, or are promised something once more, now."""
    listed = who_must_not_sell(market, market_path)
    if listed is not None:
        listed = listed.with_columns(pl.lit(MUST_NOT, dtype=pl.Int8).alias(WHY))
    limit = lifetime_limit(market, connection)
    return Asked(listed, limit, ceiling, None if campaign is None else campaign.id)


def as_before(left_out: pl.DataFrame | None) -> Asked:
    """Return by what people are left out who were when the same reports were quoted before."""
    if left_out is not None:
        codes = {words: code for code, words in _REASONS.items()}
        why = pl.col(REASON).replace_strict(codes, return_dtype=pl.Int8).alias(WHY)
        left_out = left_out.select(SELLER, why)
    return Asked(left_out, None, 0.0, None)


@dataclass(frozen=True, eq=False)
class Found:
    """What looking up people told.

    Attributes
    ----------
    answers
        One for each part of all people.
    left_out
        Who is left out, columns seller and reason; None if nobody.
    excluded, over
        How many for each reason.
    """

    answers: tuple[Answer, ...]
    left_out: pl.DataFrame | None
    excluded: int
    over: int

    def marks(self, place: int) -> tuple[Piece, ...]:
        """Return what was found about the people of one partition."""
        return tuple(answer.spans.piece(place) for answer in self.answers)


def looked_up(
    runner: Runner,
    people: Sequence[Spans],
    asked: Asked,
    connection: Connection | None,
    work: Path,
) -> Found:
    """Look up the people of all partitions.

    Parameters
    ----------
    runner
        Runs the tasks.
    people
        Where their ids are, by person: one file for each partition, in as many parts.
    asked
        By what.
    connection
        Into the ledger; None: there is none yet.
    work
        A folder that workers see.

    Raises
    ------
    FileProblem
        A partition of an earlier round's quotes is missing or was changed.
    """
    count = len(people)
    earlier = [] if connection is None else _earlier(runner, asked, connection, work, count)
    listed = None
    if asked.listed is not None:
        listed = str(work / "listed")
        with atomic_path(Path(listed), mode=PRIVATE) as temporary:
            temporary.write_bytes(table_to_bytes(asked.listed))
    parts = [
        Part(
            people=tuple(part.piece(k) for part in people),
            rounds=tuple(tuple(part.piece(k) for part in parts) for parts in earlier),
            listed=listed,
            limit=asked.limit,
            ceiling=asked.ceiling,
            places=count,
            out=str(work / f"answer-{k}.arrow"),
        )
        for k in range(count)
    ]
    answers = tuple(runner.aside(look_up, parts))
    excluded, over = (sum(getattr(answer, name) for answer in answers) for name in ("must_not", "too_little"))
    left_out = None
    if excluded or over or any(answer.no_room for answer in answers):
        reason = pl.col(WHY).replace_strict(_REASONS, return_dtype=pl.String).alias(REASON)
        left_out = left_out_in(answers).select(SELLER, reason)
    return Found(answers, left_out, excluded, over)


def _earlier(
    runner: Runner, asked: Asked, connection: Connection, work: Path, count: int
) -> list[list[Spans]]:
    """Return what earlier rounds count for their people, round by round, oldest first."""
    counted: list[list[Spans]] = []
    for found in rounds.rounds_of(connection):
        if not asked.counts(found):
            continue
        parts = asked.earlier(connection, found, work, count)
        counted.append([parts] if isinstance(parts, Spans) else runner.aside(bring, parts))
    return [_usable(parts) for parts in counted]


def quoted_people(runner: Runner, asked: Sequence[Quoted]) -> list[Spans]:
    """Return where the people of quotes are that are promised once more, by person."""
    return _usable(runner.aside(write_quoted, asked))


def _usable(parts: list[Spans]) -> list[Spans]:
    problems = [part.problem for part in parts if part.problem is not None]
    if problems:
        raise FileProblem("cannot use the quotes of an earlier round; nothing was written.", problems)
    return parts


def people_of(looked: Looked) -> list[Spans]:
    """Return where the people of the reports are, by person."""
    return [part.people for part in looked.scanned if part.people is not None]


def scratch_of(looked: Looked) -> Path:
    """Return the folder for what no longer matters when quotes are written."""
    return looked.work.absolute() / SCRATCH


def staying(looked: Looked, found: Found) -> tuple[Looked, Counts]:
    """Return the partitions without who is left out, and what is known of those who stay.

    A partition in which nobody stays is not among them.
    """
    places = [replace(place, marks=found.marks(k)) for k, place in enumerate(looked.places)]
    scanned = list(looked.scanned)
    if found.left_out is not None:
        places, scanned = _counted_again(looked, places)
    return replace(looked, places=places, scanned=scanned), counts_of(places, scanned)


def _counted_again(looked: Looked, places: Sequence[Place]) -> tuple[list[Place], list[Scanned]]:
    again = looked.runner.map("counting", count_again, list(zip(places, looked.scanned, strict=True)))
    kept = [(place, part) for place, part in zip(places, again, strict=True) if part.rows]
    for place, part in zip(places, again, strict=True):
        if not part.rows:
            Path(place.hashes).unlink()
    return [place for place, _ in kept], [part for _, part in kept]
