"""Look up people of many partitions in earlier rounds, by the hash of the id: who is left out, who waits.

Ids of reports, and what earlier rounds count for their people, are written by the hash of the id. Then one
task looks up a part of all people, whatever the partitions of reports and of earlier quotes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray, IntArray
from dpmarket.errors import FileProblem
from dpmarket.files import positions_in
from dpmarket.ledger.manifests import Manifest
from dpmarket.ledger.rounds import SELLER, amounts_of, as_known
from dpmarket.partitions.pieces import Piece, parts_of, read_pieces, write_pieces

PLACE, ROW, WHY = "place", "row", "why"
MUST_NOT, TOO_LITTLE, NO_ROOM = 1, 2, 3
"""Why somebody is left out: they must not sell, have too little left of a lifetime's epsilon, or came when
the budget was full.
"""
_CHARGE, _WAITS = "charge", "waits"


@dataclass(frozen=True)
class Spans:
    """A file of pieces, and where those of each part begin; ``problem``: why there is none."""

    out: str
    starts: tuple[int, ...] = ()
    problem: str | None = None

    def piece(self, number: int) -> Piece:
        """Return where the rows of one part are."""
        return self.out, self.starts[number], self.starts[number + 1]


def write_people(sellers: pl.Series, place: int, count: int, out: str) -> Spans:
    """Write the ids of a partition by person, with the place and the row of each."""
    return _by_person(_people(sellers, place), count, out)


def _people(sellers: pl.Series, place: int) -> pl.DataFrame:
    rows = np.arange(len(sellers), dtype=np.int32)
    return pl.DataFrame({SELLER: sellers, PLACE: np.full(rows.size, place, dtype=np.int32), ROW: rows})


def _by_person(table: pl.DataFrame, count: int, out: str) -> Spans:
    return Spans(out, write_pieces(table, parts_of(table, SELLER, count), count, out))


@dataclass(frozen=True)
class Quoted:
    """One partition of quotes that are promised once more, and where its people go, by person.

    ``withdrawn``: a file with who has left and is not asked again; None: everybody is.
    """

    manifest: Manifest
    number: int
    withdrawn: str | None
    count: int
    out: str


def write_quoted(asked: Quoted) -> Spans:
    """Write the people of a partition of quotes by person."""
    try:
        quotes = as_known(asked.manifest.tables([asked.number]))
    except FileProblem as problem:
        return Spans(asked.out, problem=str(problem))
    people = _people(quotes.get_column(SELLER), asked.number)
    if asked.withdrawn is not None:
        gone = positions_in(people, SELLER, pl.read_parquet(asked.withdrawn), SELLER) >= 0
        people = people.filter(~gone)
    return _by_person(people, asked.count, asked.out)


@dataclass(frozen=True)
class Earlier:
    """One partition of an earlier round, and where what it counts for its people goes, by person.

    Attributes
    ----------
    quotes, number
        The round's quotes, and which of their partitions.
    spent
        What a model spent on them; None where nothing was released.
    held
        What a lifetime limit counts for everybody in it while it is open; None once it is spent.
    waits
        Whether its promises are open ones of the campaign that quotes now.
    withdrawn
        A file with who has withdrawn from it.
    count, out
        How many parts there are, and the file of pieces.
    """

    quotes: Manifest
    number: int
    spent: Manifest | None
    held: float | None
    waits: bool
    withdrawn: str
    count: int
    out: str


def bring(asked: Earlier) -> Spans:
    """Write what one partition of an earlier round counts for its people, by person."""
    try:
        quotes = as_known(asked.quotes.tables([asked.number]))
        spent = None if asked.spent is None else asked.spent.tables([asked.number])
    except FileProblem as problem:
        return Spans(asked.out, problem=str(problem))
    kept = np.ones(quotes.height, dtype=bool)
    gone = positions_in(pl.read_parquet(asked.withdrawn), SELLER, quotes, SELLER)
    kept[gone[gone >= 0]] = False
    own = amounts_of(quotes)[0]
    if asked.held is not None:
        own = np.full(quotes.height, asked.held)
    charges = np.where(kept, own, 0.0)
    if spent is not None:
        charges = np.asarray(spent.get_column("spent").to_numpy())
    return write_counted(quotes.get_column(SELLER), charges, kept & asked.waits, asked.count, asked.out)


def write_counted(sellers: pl.Series, charges: FloatArray, waits: BoolArray, count: int, out: str) -> Spans:
    """Write what a lifetime limit counts for sellers, and who has an open promise, by person."""
    return _by_person(pl.DataFrame({SELLER: sellers, _CHARGE: charges, _WAITS: waits}), count, out)


@dataclass(frozen=True)
class Part:
    """A part of all people, what earlier rounds count for them, and where the answer goes, by place.

    Attributes
    ----------
    people
        Who they are.
    rounds
        What each earlier round counts for its people, oldest first.
    listed
        A file with who is left out whatever else is known, columns seller and why; None if nobody.
    limit, ceiling
        What anybody may give in a lifetime, None without a limit; what the market can ask of anybody.
    places, out
        How many partitions people come from, and the file of the answer.
    """

    people: tuple[Piece, ...]
    rounds: tuple[tuple[Piece, ...], ...]
    listed: str | None
    limit: float | None
    ceiling: float
    places: int
    out: str


@dataclass(frozen=True)
class Answer:
    """Where the answer about a part is, and how many are left out for each reason."""

    spans: Spans
    must_not: int
    too_little: int
    no_room: int


def look_up(part: Part) -> Answer:
    """Find who of a part of all people is left out and why, and who has an open promise."""
    people = read_pieces(part.people)
    given, waits = np.zeros(people.height), np.zeros(people.height, dtype=bool)
    for pieces in part.rounds:
        before = read_pieces(pieces)
        places = positions_in(people, SELLER, before, SELLER)
        there = places >= 0
        given[there] += before.get_column(_CHARGE).to_numpy()[places[there]]
        waits[there] |= before.get_column(_WAITS).to_numpy()[places[there]]
    why = np.zeros(people.height, dtype=np.int8)
    if part.limit is not None:
        why[given + part.ceiling > part.limit] = TOO_LITTLE
    if part.listed is not None:
        listed = pl.read_parquet(part.listed)
        places = positions_in(listed, SELLER, people, SELLER)
        why[places[places >= 0]] = listed.get_column(WHY).to_numpy()[places >= 0]
    table = people.with_columns(pl.Series(WHY, why), pl.Series(_WAITS, waits))
    table = table.filter((pl.col(WHY) > 0) | pl.col(_WAITS))
    by_place = np.asarray(table.get_column(PLACE).to_numpy()).astype(np.int64)
    starts = write_pieces(table, by_place, part.places, part.out)
    return Answer(
        Spans(part.out, starts), *(int((why == code).sum()) for code in (MUST_NOT, TOO_LITTLE, NO_ROOM))
    )


def marked(pieces: Sequence[Piece], rows: int) -> tuple[IntArray, BoolArray]:
    """Return which rows of a partition stay, and which of those have an open promise.

    Parameters
    ----------
    pieces
        The answers about its people; none: all stay, and nobody waits.
    rows
        How many it has.
    """
    stays, waits = np.ones(rows, dtype=bool), np.zeros(rows, dtype=bool)
    if pieces:
        table = read_pieces(pieces)
        at = table.get_column(ROW).to_numpy()
        stays[at] = table.get_column(WHY).to_numpy() == 0
        waits[at] = table.get_column(_WAITS).to_numpy()
    staying = np.flatnonzero(stays)
    return staying, waits[staying]


def left_out_in(answers: Sequence[Answer]) -> pl.DataFrame:
    """Return who is left out: columns seller and why, by reason and in the order of their reports."""
    tables = [pl.scan_ipc(answer.spans.out).filter(pl.col(WHY) > 0).collect() for answer in answers]
    return pl.concat(tables).sort(WHY, PLACE, ROW).select(SELLER, WHY)
