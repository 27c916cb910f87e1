"""Read one partition of a campaign's records: whose rows they are, all that is wrong, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import IntArray
from dpmarket.campaign.features import encoder_of, is_plain, plain_bounds
from dpmarket.campaign.market_file import Market
from dpmarket.campaign.records import Records, read_records
from dpmarket.errors import DpmarketError, FileProblem
from dpmarket.files import read_table
from dpmarket.ledger.rounds import SELLER
from dpmarket.partitions.fitting import is_empty
from dpmarket.partitions.hashed import misplaced
from dpmarket.partitions.pieces import Piece
from dpmarket.partitions.promises import PLACE, PROMISED, ROW, people_in
from dpmarket.partitions.rows import Kept, RowSettings, keep_rows
from dpmarket.privacy import NoiseShape

_TOLD = 3


@dataclass(frozen=True)
class Owned:
    """One partition of records, and where the promises of its people are.

    Attributes
    ----------
    source, place
        The file, and which partition of how many it is.
    folder
        Where its rows are kept.
    market
        Which columns, bounds and labels to expect.
    promises
        Where the promises are.
    how
        What all partitions have in common.
    """

    source: str
    place: tuple[int, int]
    folder: str
    market: Market
    promises: tuple[Piece, ...]
    how: RowSettings


@dataclass(frozen=True)
class Absent:
    """People without a row: how many in each partition of quotes, and the first rows of them there."""

    counts: dict[int, int] = field(default_factory=dict)
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class OwnedRows:
    """What the driver needs to know of a partition of records.

    Attributes
    ----------
    problems
        What is wrong, by file, line and column; empty if nothing is.
    kept
        What was kept; None where something is wrong.
    absent
        Who is missing.
    clipped
        As in :class:`~dpmarket.campaign.records.Records`.
    """

    problems: tuple[str, ...]
    kept: Kept | None = None
    absent: Absent = field(default_factory=Absent)
    clipped: dict[str, int] = field(default_factory=dict)


def keep_owned(asked: Owned) -> OwnedRows:
    """Read, check and keep the rows of one partition; or tell all that is wrong."""
    people = people_in(asked.promises)
    promised = np.asarray(people.get_column(PROMISED).to_numpy())
    if is_empty(asked.source, asked.place):
        return OwnedRows((), _nothing(asked), _absent(people, promised, np.zeros(0, dtype=np.int64)))
    problems = _misplaced(asked)
    try:
        records = read_records(asked.market, people.select(SELLER), promised, asked.source)
    except FileProblem as problem:
        said = problem.details or [str(problem)]
        problems += [f"{asked.source}: {sentence}" for sentence in said]
    if problems:
        return OwnedRows(tuple(problems))
    absent = _absent(people, promised, records.owners)
    if absent.counts:
        return OwnedRows((), None, absent)
    try:
        return OwnedRows((), _kept(asked, records, promised), absent, records.clipped)
    except DpmarketError as problem:
        return OwnedRows((f"{asked.source}: {problem}",))


def shape_of_market(market: Market) -> NoiseShape | None:
    """Return the norm in which a market's rows are at most 1 long; None for the Euclidean one."""
    return None if is_plain(market) else encoder_of(market).noise_shape()


def _kept(asked: Owned, records: Records, promised: Any) -> Kept:
    from dpmarket.learning import PublicScaler

    rows = records.features
    if not records.owners.size:
        return _nothing(asked)
    if is_plain(asked.market):
        _, low, high = zip(*plain_bounds(asked.market), strict=True)
        rows = PublicScaler(low, high, asked.market.training.radius).fit_transform(rows)
    signs = np.where(records.labels == 1, 1.0, -1.0)
    return keep_rows(asked.folder, rows, signs, records.owners, promised, asked.how)


def _nothing(asked: Owned) -> Kept:
    market = asked.market
    columns = len(market.features) if is_plain(market) else len(encoder_of(market).get_feature_names_out())
    none = np.zeros(0, dtype=np.int64)
    return keep_rows(asked.folder, np.zeros((0, columns)), np.zeros(0), none, np.zeros(0), asked.how)


def _misplaced(asked: Owned) -> list[str]:
    person = asked.market.sellers.id_column
    if asked.place[1] == 1:
        return []
    try:
        table = read_table(asked.source, [person], [person])
    except FileProblem:
        return []  # told when the records are read
    found = misplaced(table, person, asked.place)
    return [f"{asked.source}: {problem.sentence(table, asked.source)}" for problem in found]


def _absent(people: pl.DataFrame, promised: Any, owners: IntArray) -> Absent:
    missing = promised > 0.0
    missing[owners] = False
    if not missing.any():
        return Absent()
    gone = people.filter(missing).select(PLACE, ROW).sort(PLACE, ROW)
    counts: dict[int, int] = {}
    rows: dict[int, tuple[int, ...]] = {}
    for (place,), group in gone.group_by(PLACE, maintain_order=True):
        counts[int(str(place))] = group.height
        rows[int(str(place))] = tuple(group.get_column(ROW).head(_TOLD).to_list())
    return Absent(counts, rows)
